/** Callers: each wants one server for one session, and does what a real matchmaker would do to get it. */
import { FleetError } from '../../contracts/errors.js'
import { type AllocationRequest, keyOf } from '../../rules/model/resources.js'
import { buildIDOf, buildNames, buildsThere } from './operators.js'
import type { Scene } from './scene.js'
import type { World } from './world.js'

/** Some callers come at once, as when a tournament begins. Rejects with what no caller should ever see. */
export async function callers(scene: Scene, count: number): Promise<void> {
  const { world } = scene
  const build = world.oneOf(world.chance(0.05) ? buildNames : buildsThere(scene))
  if (build === undefined) return
  await Promise.all(Array.from({ length: count }, () => caller(scene, build)))
}

async function caller(scene: Scene, build: string): Promise<void> {
  const { world } = scene
  const request = { buildID: currentIDOf(scene, build), sessionID: world.guid(), initialPlayers: ['amie'] }
  const waitMs = world.chance(0.5) ? 0 : world.between(1, 30_000)
  for (let attempt = 0; attempt < 6; attempt++) {
    // Impatient callers send the same request twice at once.
    const calls = Array.from({ length: world.chance(0.15) ? 2 : 1 }, () => call(scene, request, waitMs))
    const served = (await Promise.all(calls)).includes(true)
    // A retry with the same session, as after a lost answer, also when there was one.
    if (served && !world.chance(0.2)) return
    // Some have the patience of a program, others that of people.
    await pause(world, world.chance(0.5) ? world.between(1, 200) : world.between(50, 10_000))
  }
}

/** As the build says: it may have been given another one by hand. */
function currentIDOf({ store }: Scene, name: string): string {
  return store.builds.get(keyOf({ namespace: 'default', name }))?.record.spec.buildID ?? buildIDOf(name)
}

/** True when it got a server. A host that crashes never answers: then the caller gives up, as its HTTP client would. */
async function call(scene: Scene, request: AllocationRequest, waitMs: number): Promise<boolean> {
  const { world } = scene
  const answer = ask(scene, request, waitMs)
  return Promise.race([answer, pause(world, waitMs + 60_000).then(() => false)])
}

async function ask(scene: Scene, request: AllocationRequest, waitMs: number): Promise<boolean> {
  const { world, sessions, waiting, tally } = scene
  const host = scene.hosts.any()
  if (!host?.fleet) return false
  const aborter = world.chance(0.1) ? new AbortController() : undefined
  if (aborter) world.after(world.between(1, 20_000), () => host.run(() => aborter.abort()))
  const waits = waiting.begin(host, request.buildID, request.sessionID, waitMs)
  try {
    const given = await host.fleet.allocate(request, { waitMs, ...(aborter && { signal: aborter.signal }) })
    tally.allocations++
    world.note(`caller: ${request.sessionID} is on ${given.IPV4Address} ${given.Ports}`)
    sessions.acknowledged(request.sessionID, given.IPV4Address)
    waiting.end(waits, false)
    return true
  } catch (error) {
    waiting.end(waits, FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached'))
    if (!FleetError.is(error) || error.code === 'internal') throw error
    tally.refusals++
    return false
  }
}

function pause(world: World, ms: number): Promise<void> {
  return new Promise((resolve) => void world.after(ms, resolve))
}
