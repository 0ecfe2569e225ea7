/** Simulated callers, which allocate a server for a session and retry like a real matchmaker. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { AllocationInput } from '../../../src/rules/model/allocation-request.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { SimulationContext } from '../context.js'
import type { World } from '../world/world.js'
import { buildIDOf, buildNames, existingBuilds } from './build-specs.js'

/** Runs `count` callers concurrently. Rejects if the fleet returns an error that it must never return. */
export async function runCallers(context: SimulationContext, count: number, longestWaitMs = 30_000): Promise<void> {
  const { world } = context
  const build = world.oneOf(world.chance(0.05) ? buildNames : existingBuilds(context.store))
  if (build === undefined) return
  if (world.chance(0.1)) return runBatch(context, build, count)
  await Promise.all(Array.from({ length: count }, () => runCaller(context, build, longestWaitMs)))
}

async function runCaller(context: SimulationContext, build: string, longestWaitMs: number): Promise<void> {
  const { world } = context
  const request = someRequest(context, build)
  const waitMs = world.chance(0.5) ? undefined : world.between(0, longestWaitMs)
  const options = { ...(waitMs !== undefined && { waitMs }), confirm: world.chance(0.3) }
  for (let attempt = 0; attempt < 6; attempt++) {
    // Some callers send the same request twice, concurrently.
    const calls = Array.from({ length: world.chance(0.15) ? 2 : 1 }, () =>
      // Concurrent calls may differ in whether they wait for the game.
      allocateWithTimeout(context, request, world.chance(0.1) ? { ...options, confirm: !options.confirm } : options),
    )
    const served = (await Promise.all(calls)).includes(true)
    // Some callers retry the same session although they already got a server.
    if (served && !world.chance(0.2)) return
    // Some callers retry quickly, like a program; others slowly, like a person.
    await pause(world, world.chance(0.5) ? world.between(1, 200) : world.between(50, 10_000))
  }
}

/** One call for several sessions. Retries it with the same ones. */
async function runBatch(context: SimulationContext, build: string, count: number): Promise<void> {
  const { world } = context
  const requests = Array.from({ length: count }, () => someRequest(context, build))
  const atomic = world.chance(0.5)
  for (let attempt = 0; attempt < 4; attempt++) {
    const answer = allocateMany(context, requests, atomic, attempt === 0)
    if (await Promise.race([answer, pause(world, 60_000).then(() => false)])) return
    await pause(world, world.between(1, 10_000))
  }
}

/** Resolves to true if every session got a server. `isFirst`: no call for these sessions has been made before. */
async function allocateMany(
  { world, invariants, hosts, store, totals }: SimulationContext,
  requests: readonly AllocationInput[],
  atomic: boolean,
  isFirst: boolean,
): Promise<boolean> {
  const host = hosts.pickResponsive()
  if (!host?.fleet) return false
  try {
    const results = await host.fleet.allocateMany(requests, { atomic })
    for (const { sessionID, allocation, error } of results) {
      if (error?.code === 'internal') throw error
      if (error && atomic)
        world.violate(`an atomic batch is answered without a server for ${sessionID}: ${error.message}`)
      if (!allocation) continue
      totals.allocations++
      // The batch waited for its other sessions, and the game may have ended this one meanwhile.
      if (invariants.sessions.hasEnded(sessionID, allocation.IPV4Address)) continue
      invariants.returnedToCaller(sessionID, allocation.IPV4Address)
    }
    world.note(
      `caller: a batch of ${requests.length} has ${results.filter(({ allocation }) => allocation).length} servers`,
    )
    return results.every(({ allocation }) => allocation !== undefined)
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
    if (isFirst && error.message.includes('no session of the batch got a server')) {
      const sessions = new Set(requests.map(({ sessionID }) => sessionID))
      const taken = [...store.servers.values()].find(({ record }) => sessions.has(record.sessions[0]?.id ?? ''))
      if (taken) world.violate(`an atomic batch was refused, but ${taken.record.name} has one of its sessions`)
    }
    totals.refusals++
    return false
  }
}

/** Some requests select servers by their data, and change these. */
function someRequest(context: SimulationContext, build: string): AllocationInput {
  const { world, invariants } = context
  const sessionID = world.guid()
  if (!world.chance(0.3)) return { buildID: currentIDOf(context, build), sessionID, initialPlayers: ['amie'] }
  const ticket = world.chance(0.5) ? invariants.serverData.ticketOfAllocation() : undefined
  return invariants.selections.request(sessionID, ticket)
}

/** Reads the buildID from the store, since an external edit may have changed it. */
function currentIDOf({ store }: SimulationContext, name: string): string {
  return store.builds.get(keyOf({ namespace: 'default', name }))?.record.spec.buildID ?? buildIDOf(name)
}

/** Resolves to true if the caller got a server. The call has a timeout like an HTTP client's: a crashed host never answers. */
async function allocateWithTimeout(
  context: SimulationContext,
  request: AllocationInput,
  options: CallerOptions,
): Promise<boolean> {
  const { world } = context
  const answer = allocate(context, request, options)
  return Promise.race([answer, pause(world, (options.waitMs ?? 0) + 60_000).then(() => false)])
}

async function allocate(
  context: SimulationContext,
  request: AllocationInput,
  options: CallerOptions,
): Promise<boolean> {
  const { world, invariants, totals } = context
  const { confirmations, waitingCallers } = invariants
  const host = context.hosts.pickResponsive()
  if (!host?.fleet) return false
  const aborter = world.chance(0.1) ? new AbortController() : undefined
  if (aborter) world.after(world.between(1, 20_000), () => host.run(() => aborter.abort()))
  const waiting = waitingCallers.begin(host, request, options)
  try {
    const server = await host.fleet.allocate(request, { ...options, ...(aborter && { signal: aborter.signal }) })
    totals.allocations++
    world.note(`caller: ${request.sessionID} is on ${server.IPV4Address} ${server.Ports}`)
    invariants.returnedToCaller(request.sessionID, server.IPV4Address)
    if (options.confirm) {
      confirmations.confirmed(request.sessionID, server.IPV4Address)
      const instance = context.backend.everAt(server.IPV4Address)
      if (instance) invariants.probedServers.confirmed(instance)
    }
    waitingCallers.end(waiting, false)
    return true
  } catch (error) {
    waitingCallers.end(waiting, FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached'))
    if (!FleetError.is(error) || error.code === 'internal') throw error
    if (error.code === 'not-confirmed') confirmations.notConfirmed(request.sessionID, error)
    totals.refusals++
    return false
  }
}

interface CallerOptions {
  readonly waitMs?: number
  readonly confirm: boolean
}

function pause(world: World, ms: number): Promise<void> {
  return new Promise((resolve) => void world.after(ms, resolve))
}
