/** A build whose servers take several sessions, and its callers, many of which come at the same time. */
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { type SimulationContext, severalBuildName } from '../context.js'
import { declaredTickets } from '../invariants/server-data.js'
import type { Host } from '../world/host.js'
import { buildIDOf, template } from './build-specs.js'

const namespace = 'default'

/** Creates the build if there is none, or else allocates, retries, changes the limit or ends a session. */
export async function useRooms(context: SimulationContext): Promise<void> {
  const { world, hosts, store } = context
  const host = hosts.pickResponsive()
  if (!host?.fleet) return
  host.hasNews = true
  try {
    if (!store.builds.has(keyOf({ namespace, name: severalBuildName }))) await create(context, host)
    else if (world.chance(0.05)) await changeLimit(context, host)
    else if (world.chance(0.1)) await endOne(context, host)
    else await allocateSeveral(context, world.oneOf([1, 1, 2, 6]) ?? 1)
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
  }
}

async function create({ world }: SimulationContext, host: Host): Promise<void> {
  const max = world.between(1, 5)
  const standingBy = world.between(1, Math.min(max, 2))
  const spec = {
    ...{ buildID: buildIDOf(severalBuildName), standingBy, max, portsToExpose: [], template },
    ...declaredTickets,
    sessionsPerServer: world.between(2, 5),
  }
  world.note(`operator: creates build ${severalBuildName}, whose servers take ${spec.sessionsPerServer} sessions`)
  await host.fleet?.builds.create({ metadata: { name: severalBuildName }, spec })
}

async function changeLimit({ world, invariants }: SimulationContext, host: Host): Promise<void> {
  const sessionsPerServer = world.between(2, 5)
  world.note(`operator: servers of ${severalBuildName} take ${sessionsPerServer} sessions`)
  invariants.rooms.limitChanged(sessionsPerServer)
  await host.fleet?.builds.update(severalBuildName, { sessionsPerServer })
}

async function endOne({ world, store, invariants }: SimulationContext, host: Host): Promise<void> {
  const servers = [...store.servers.values()].filter(({ record }) => record.build === severalBuildName)
  const { sessions: [session] = [], uid } = world.oneOf(servers)?.record ?? {}
  if (!session || uid === undefined) return
  const { id: sessionID, number } = session
  // A server whose game takes one session only ends with it.
  if (number === undefined) invariants.sessions.allowEnd(uid)
  world.note(`operator: asks for the end of ${sessionID}`)
  await host.fleet?.sessions.end(sessionID)
}

async function allocateSeveral(context: SimulationContext, count: number): Promise<void> {
  const { world } = context
  // Some ids begin again after their session has ended.
  const someID = () => (world.chance(0.5) ? world.guid() : `room-${world.between(1, 12)}`)
  const sessionIDs = Array.from({ length: count }, someID)
  if (count > 1 && world.chance(0.3)) return allocateBatch(context, [...new Set(sessionIDs)])
  await Promise.all(sessionIDs.map((sessionID) => allocateOne(context, sessionID)))
}

/** One call for several sessions, which share servers. Retries it with the same ones. */
async function allocateBatch(context: SimulationContext, sessionIDs: readonly string[]): Promise<void> {
  const { world } = context
  const atomic = world.chance(0.7)
  const waitMs = world.chance(0.5) ? world.between(0, 10_000) : 0
  for (let attempt = 0; attempt < 4; attempt++) {
    if (await callBatch(context, sessionIDs, { atomic, waitMs })) return
    await new Promise<void>((resolve) => void world.after(world.between(1, 5_000), resolve))
  }
}

async function callBatch(
  { world, hosts, invariants, totals }: SimulationContext,
  sessionIDs: readonly string[],
  options: { readonly atomic: boolean; readonly waitMs: number },
): Promise<boolean> {
  const host = hosts.pickResponsive()
  if (!host?.fleet) return false
  const requests = sessionIDs.map((sessionID) => ({ buildID: buildIDOf(severalBuildName), sessionID }))
  const crashed = new Promise<false>((resolve) => void world.after(60_000, () => resolve(false)))
  const answer = host.fleet.allocateMany(requests, options).then(
    (results) => {
      for (const { sessionID, allocation, error } of results) {
        if (error?.code === 'internal') throw error
        if (error && options.atomic)
          world.violate(`an atomic batch is answered without a server for ${sessionID}: ${error.message}`)
        if (!allocation) continue
        totals.allocations++
        world.note(`caller: ${sessionID}, of a batch of ${sessionIDs.length}, is on ${allocation.IPV4Address}`)
        invariants.rooms.returnedToCaller(sessionID, allocation.IPV4Address)
      }
      return results.every(({ allocation }) => allocation !== undefined)
    },
    (error: unknown) => {
      if (!FleetError.is(error) || error.code === 'internal') throw error
      totals.refusals++
      return false
    },
  )
  return Promise.race([answer, crashed])
}

/** Retries with the same session, at another host if there is one, until it has a server. Some send each request twice. */
async function allocateOne(context: SimulationContext, sessionID: string): Promise<void> {
  const { world } = context
  for (let attempt = 0; attempt < 4; attempt++) {
    const calls = Array.from({ length: world.chance(0.2) ? 2 : 1 }, () => call(context, sessionID))
    if ((await Promise.all(calls)).includes(true)) return
    await new Promise<void>((resolve) => void world.after(world.between(1, 5_000), resolve))
  }
}

async function call({ world, hosts, invariants, totals }: SimulationContext, sessionID: string): Promise<boolean> {
  const host = hosts.pickResponsive()
  if (!host?.fleet) return false
  const crashed = new Promise<false>((resolve) => void world.after(60_000, () => resolve(false)))
  const answer = host.fleet.allocate({ buildID: buildIDOf(severalBuildName), sessionID }).then(
    ({ IPV4Address }) => {
      totals.allocations++
      world.note(`caller: ${sessionID} is on ${IPV4Address}`)
      invariants.rooms.returnedToCaller(sessionID, IPV4Address)
      return true
    },
    (error: unknown) => {
      if (!FleetError.is(error) || error.code === 'internal') throw error
      totals.refusals++
      return false
    },
  )
  return Promise.race([answer, crashed])
}
