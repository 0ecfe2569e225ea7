/** Decides whether a fleet starts although its store has lost data, and makes such a store usable. Touches the store and the backend. */
import type { Backend } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { UnnumberedEvent } from '../contracts/events.js'
import type { Store, StoreCheck } from '../contracts/store.js'
import { placeholderBuild } from '../engine/persistence/loader.js'
import { type Build, keyOf, type Server } from '../rules/model/resources.js'
import { listed } from '../stores/failures.js'
import { counted } from '../rules/model/counted.js'

/**
 * Returns what the store has lost, after making it usable. Throws `directory-unusable`, and changes nothing, if a session could get a
 * second server or a build would be gone, unless the operator accepts that.
 */
export async function handleStoreLoss(
  store: Store,
  backend: Backend,
  isAccepted: boolean,
): Promise<StoreCheck | undefined> {
  const { damage } = store
  if (!isAccepted && (store.isNew || damage)) await refuseLoss(store, backend)
  if (!damage) return undefined
  await store.acceptDamage?.(damage.affected.includes('build') ? emptyBuilds : undefined)
  return damage
}

export function storeDamaged({ problems }: StoreCheck, at: number): UnnumberedEvent {
  const message = `the store is damaged, and the damaged records were removed: ${listed(problems)}`
  return { type: 'StoreDamaged', at, problems: problems.slice(0, 100), message }
}

async function refuseLoss({ isNew, damage }: Store, backend: Backend): Promise<void> {
  const servers = (await backend.list()).map(({ ref }) => ref.name)
  const names = servers.length > 3 ? `${servers.slice(0, 3).join(', ')}…` : servers.join(', ')
  const those = `the ${backend.name} backend has ${counted(servers.length, 'game server')} of this fleet (${names})`
  if (isNew && servers.length > 0) {
    throw new FleetError(
      'directory-unusable',
      `the store is empty, but ${those}: its data was lost or replaced. Restore its whole directory from a backup, or start with acceptStoreLoss: true, which terminates servers without a match and lets matches end without a record`,
    )
  }
  const isSessionAtRisk = servers.length > 0 && (damage?.affected.includes('server') || damage?.lostWrites)
  // The first record that a fleet stores is a build.
  const isBuildLost = damage?.affected.includes('build') || (isNew && damage?.lostWrites)
  if (!damage || !(isSessionAtRisk || isBuildLost)) return
  throw new FleetError(
    'directory-unusable',
    `the store is damaged: ${listed(damage.problems)}${servers.length > 0 ? `; ${those}` : ''}. Restore its whole directory from a backup, or start with acceptStoreLoss: true, which removes the damaged records: matches go on, but a session whose record is lost gets another server if it is allocated again`,
  )
}

/**
 * Empty builds, which create no servers, for servers whose build is lost. Without one, they would be taken for servers of a deleted
 * build, and their matches would be ended.
 */
function emptyBuilds(builds: readonly Build[], servers: readonly Server[]): readonly Build[] {
  const names = new Set(builds.map(keyOf))
  const empty: Build[] = []
  for (const server of servers) {
    const build = placeholderBuild(server)
    if (names.has(keyOf(build))) continue
    names.add(keyOf(build))
    empty.push({ ...build, spec: { ...build.spec, buildID: build.uid } })
  }
  return empty
}
