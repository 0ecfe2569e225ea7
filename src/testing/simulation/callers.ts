/** The people of the simulation: callers who allocate, wait, give up and try again, and operators who change things. */
import { FleetError } from '../../errors.js'
import type { Fleet } from '../../fleet.js'
import type { BackendModel } from './backend-model.js'
import type { Host } from './host.js'
import { type Invariants, Violation } from './invariants.js'
import type { World } from './world.js'

export interface Cast {
  readonly world: World
  /** A host that answers, any of them; undefined when none does. */
  readonly anyHost: () => Host | undefined
  readonly backend: BackendModel
  readonly invariants: Invariants
  /** What a promise that nobody awaits failed with: ends the simulation. */
  readonly failed: (error: unknown) => void
  readonly tally: { allocations: number; refusals: number }
}

const buildNames = ['arena', 'duel', 'lobby'] as const

export function buildIDOf(name: string): string {
  return `id-${name}`
}

/** Wants one server for one session, and does what a real backend would do to get it. */
export async function caller(cast: Cast): Promise<void> {
  const { world } = cast
  const sessionID = world.guid()
  const buildID = buildIDOf(world.oneOf(buildNames) ?? 'arena')
  const waitMs = world.chance(0.5) ? 0 : world.between(1, 30_000)
  let last: string | undefined
  for (let attempt = 0; attempt < 6; attempt++) {
    const address = await attemptOnce(cast, { buildID, sessionID, initialPlayers: ['amie'] }, waitMs)
    last = address ?? last
    // A retry with the same session, as after a lost answer, also when there was one.
    if (address !== undefined && !world.chance(0.2)) return
    await pause(world, world.between(50, 10_000))
  }
}

async function attemptOnce(
  cast: Cast,
  request: { buildID: string; sessionID: string; initialPlayers: string[] },
  waitMs: number,
): Promise<string | undefined> {
  const { world, invariants, tally } = cast
  const calls = world.chance(0.15) ? 2 : 1
  const answers: Promise<string | undefined>[] = []
  for (let i = 0; i < calls; i++) {
    const fleet = cast.anyHost()?.fleet
    if (!fleet) continue
    const aborter = world.chance(0.1) ? new AbortController() : undefined
    if (aborter) world.after(world.between(1, 20_000), () => aborter.abort())
    const answer = fleet
      .allocate(request, { waitMs, ...(aborter && { signal: aborter.signal }) })
      .then((allocation) => {
        tally.allocations++
        world.note(`caller: ${request.sessionID} is on ${allocation.IPV4Address} ${allocation.Ports}`)
        invariants.acknowledged(request.sessionID, allocation.IPV4Address)
        return allocation.IPV4Address
      })
      .catch((error: unknown) => {
        if (!FleetError.is(error) || error.code === 'internal') throw error
        tally.refusals++
        return undefined
      })
    // A host that crashes never answers: then the caller gives up, as its HTTP client would.
    answers.push(Promise.race([answer, pause(world, waitMs + 60_000).then(() => undefined)]))
  }
  const all = await Promise.all(answers)
  return all.find((address) => address !== undefined)
}

/** One thing that an operator does. Refusals are part of the job. */
export async function operate(cast: Cast): Promise<void> {
  const { world, invariants } = cast
  const fleet = cast.anyHost()?.fleet
  if (!fleet) return
  const name = world.oneOf(buildNames) ?? 'arena'
  try {
    switch (world.between(0, 9)) {
      case 0:
      case 1:
        return await createBuild(cast, fleet, name)
      case 2: {
        if (!world.chance(0.3)) return
        for (const instance of cast.backend.instances.values()) {
          if (instance.spec.build.name === name) invariants.allowEnd(instance.spec.build.uid)
        }
        world.note(`operator: deletes build ${name}`)
        return await fleet.builds.delete(name)
      }
      case 3: {
        const instance = world.oneOf([...cast.backend.instances.values()])
        if (!instance || !world.chance(0.3)) return
        invariants.allowEnd(instance.spec.uid)
        world.note(`operator: deletes server ${instance.spec.ref.name}`)
        return await fleet.servers.delete(instance.spec.ref)
      }
      default: {
        const max = world.between(0, 8)
        const standingBy = world.between(0, Math.min(max, 4))
        world.note(`operator: patches ${name} to standingBy ${standingBy}, max ${max}`)
        await fleet.builds.patch(name, { standingBy, max })
      }
    }
  } catch (error) {
    if (error instanceof Violation || !FleetError.is(error) || error.code === 'internal') throw error
  }
}

export async function createBuild({ world }: Cast, fleet: Fleet, name: string): Promise<void> {
  const max = world.between(1, 8)
  const standingBy = world.between(0, Math.min(max, 4))
  world.note(`operator: creates build ${name} with standingBy ${standingBy}, max ${max}`)
  await fleet.builds.create({
    metadata: { name },
    spec: {
      buildID: buildIDOf(name),
      standingBy,
      max,
      portsToExpose: world.chance(0.8) ? [7777] : [],
      ...(world.chance(0.3) && { crashesToMarkUnhealthy: world.between(5, 40) }),
      template: { spec: { containers: [{ name: 'game', image: 'game' }], terminationGracePeriodSeconds: 5 } },
    },
  })
}

function pause(world: World, ms: number): Promise<void> {
  return new Promise((resolve) => void world.after(ms, resolve))
}
