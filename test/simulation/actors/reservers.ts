/** Simulated tournament organisers, who reserve servers and take them by name, before the reservation lapses or not. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { Server } from '../../../src/rules/model/resources.js'
import type { SimulationContext } from '../context.js'
import type { Host } from '../world/host.js'

/** Reserves, releases or takes a random server. */
export async function useReservations(context: SimulationContext): Promise<void> {
  const { world, hosts, store } = context
  const host = hosts.pickResponsive()
  const records = [...store.servers.values()].map(({ record }) => record)
  const reserved = records.filter(({ reservedUntil }) => reservedUntil !== undefined)
  const server = world.oneOf(reserved.length > 0 && world.chance(0.6) ? reserved : records)
  if (!host?.fleet || !server) return
  host.hasNews = true
  const use = world.oneOf([reserve, reserve, release, take]) ?? reserve
  try {
    await use(context, host, server)
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
  }
}

async function reserve({ world, invariants }: SimulationContext, host: Host, server: Server): Promise<void> {
  const forMs = world.between(1_000, 60_000)
  world.note(`organiser: reserves ${server.name} for ${forMs} ms`)
  await invariants.reservations.reserve(host, server, forMs, async () => host.fleet?.servers.reserve(server, { forMs }))
}

async function release({ world, invariants }: SimulationContext, host: Host, server: Server): Promise<void> {
  world.note(`organiser: releases ${server.name}`)
  invariants.reservations.givenUp(server.uid)
  await host.fleet?.servers.release(server)
}

async function take({ world, invariants, totals }: SimulationContext, host: Host, server: Server): Promise<void> {
  const sessionID = world.guid()
  world.note(`organiser: takes ${server.name} for ${sessionID}`)
  invariants.selections.named(sessionID)
  // The call may end the reservation even if it fails.
  invariants.reservations.givenUp(server.uid)
  const allocation = await host.fleet?.allocate({ server, sessionID })
  if (!allocation) return
  totals.allocations++
  if (allocation.server.name !== server.name)
    world.violate(`a request that names ${server.name} got ${allocation.server.name}`)
  invariants.returnedToCaller(sessionID, allocation.IPV4Address)
}
