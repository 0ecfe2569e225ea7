/** Finds servers for requests that select them by their data. */
import { FleetError } from '../../contracts/errors.js'
import type { ServerSelector } from '../../rules/model/allocation.js'
import { fits, type Selection, withChange } from '../../rules/planning/selection.js'
import { buildHealth } from '../../rules/model/status.js'
import { shown } from '../../rules/validation/problem.js'
import { DataGroups, type AllocatableBucket } from '../state/data-groups.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { noServerError } from './allocation-errors.js'

const heard = ['ready', 'outdatedReady'] as const
const all = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const

type Builds = Pick<Inventory, 'buildByID'>

/**
 * The build whose demand a waiting caller raises: the first that the selectors name and that can get another server, or else the first that
 * is not draining. Throws `not-found` or `draining` if there is none.
 */
export function homeOf(inventory: Builds, { selectors }: Selection): BuildEntry {
  const named = buildsOf(inventory, selectors)
  const open = named.filter(({ draining }) => !draining)
  const home = open.find((build) => !isFull(build) && buildHealth(build.record) === 'Healthy') ?? open[0]
  if (home) return home
  const [first] = named
  if (first) throw new FleetError('draining', `build ${first.record.name} is draining and allocates no servers`)
  const ids = [...new Set(selectors.flatMap(({ builds }) => builds))]
  throw new FleetError('not-found', `no build has the buildID ${ids.map((id) => shown(id)).join(' or ')}`)
}

/**
 * Picks a server that fits the first selector that any server fits: of those that run the current template, the one that has been standing
 * by for the longest. Picks one that this host has not heard only if the caller cannot wait, and no other fits any selector. Looks at
 * each group of servers with the same data once.
 */
export function pickSelected(inventory: Builds, selection: Selection, canWait: boolean): ServerEntry | undefined {
  for (const buckets of canWait ? [heard] : [heard, all]) {
    for (const selector of selection.selectors) {
      const picked = pickFrom(inventory, selector, selection, buckets)
      if (picked) return picked
    }
  }
  return undefined
}

/** True if a server that has become ready fits. */
export function isSelected(inventory: Builds, selection: Selection, { build, record }: ServerEntry): boolean {
  const isOfBuild = (buildID: string) => inventory.buildByID(buildID) === build
  return !build.draining && withChange(record, selection, isOfBuild) !== undefined
}

export function noFittingServerError(inventory: Builds, selection: Selection, home: BuildEntry, waitedMs: number) {
  const { code, details } = noServerError(home, waitedMs)
  const builds = buildsOf(inventory, selection.selectors)
  const names = builds.map(({ record }) => record.name).join(', ')
  const waited = waitedMs >= 50 ? ` (waited ${Math.round(waitedMs / 100) / 10} s)` : ''
  const message = `no server of ${builds.length > 1 ? 'builds' : 'build'} ${names} that fits is standing by${waited}`
  const full = code === 'max-reached' ? 'none-standing-by' : code
  return new FleetError(builds.every(isFull) ? 'max-reached' : full, message, { ...(details && { details }) })
}

function pickFrom(
  inventory: Builds,
  selector: ServerSelector,
  { change }: Selection,
  buckets: readonly AllocatableBucket[],
): ServerEntry | undefined {
  const groups = buildsOf(inventory, [selector]).flatMap((build) => {
    if (build.draining) return []
    build.groups ??= new DataGroups(build)
    return [...build.groups.all].filter(({ data }) => fits(data, selector, change))
  })
  for (const bucket of buckets) {
    let first: ServerEntry | undefined
    for (const { servers } of groups) {
      const [entry] = servers[bucket]
      if (entry && (!first || since(entry) < since(first))) first = entry
    }
    if (first) return first
  }
  return undefined
}

function since({ standingBySince = 0 }: ServerEntry): number {
  return standingBySince
}

function isFull({ buckets, record }: BuildEntry): boolean {
  return buckets.active.size + buckets.reserved.size >= record.spec.max
}

/** The builds that the selectors name and that exist, each once. */
function buildsOf(inventory: Builds, selectors: readonly ServerSelector[]): readonly BuildEntry[] {
  const builds = new Set<BuildEntry>()
  for (const selector of selectors) {
    for (const id of selector.builds) {
      const build = inventory.buildByID(id)
      if (build) builds.add(build)
    }
  }
  return [...builds]
}
