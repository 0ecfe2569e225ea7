/** Schedules callers, operators, external edits and faults for the faulty phase of a run. */
import type { SimulationContext } from '../context.js'
import { disruptLeader, dropStoreReplies, injectFault, interruptStoreWatch, rewriteRecord } from '../faults/faults.js'
import { runCallers } from './callers.js'
import { editExternally } from './external-edits.js'
import { changeServerData, createInitialBuilds, operate } from './operators.js'
import { reserveSeats } from './players.js'
import { useReservations } from './reservers.js'
import { takeOwnServers } from './self-allocators.js'
import { useRooms } from './rooms.js'

/**
 * Callers that waited at the former leader retry at the new one, which has not heard its servers yet. Some waits end before it hears
 * them.
 */
export function retryAfterFailover(context: SimulationContext): void {
  const { world } = context
  if (!world.faultsEnabled) return
  for (let groups = world.between(0, 4); groups > 0; groups--) {
    world.after(world.between(0, 2_000), () => {
      runCallers(context, world.between(1, 3), 1_000).catch((error: unknown) => world.fail(error))
    })
  }
}

/** Many callers within two seconds, and then a lull that is about as long as the delay after which builds may scale down. */
function startBurst(context: SimulationContext): void {
  const { world } = context
  for (let groups = world.between(2, 4); groups > 0; groups--) {
    world.after(world.between(0, 2_000), () => {
      runCallers(context, world.between(1, 4), 5_000).catch((error: unknown) => world.fail(error))
    })
  }
}

export function startWorkload(context: SimulationContext): void {
  const { world } = context
  const start = (fn: () => Promise<void>) => void fn().catch((error: unknown) => world.fail(error))
  const repeat = (least: number, most: number, fn: () => void) => {
    const again = () => {
      if (!world.faultsEnabled) return
      fn()
      world.after(world.between(least, most), again)
    }
    world.after(world.between(least, most), again)
  }
  const createBuilds = async () => {
    if (!(await createInitialBuilds(context))) world.after(world.between(500, 3_000), () => start(createBuilds))
  }
  start(createBuilds)
  const callerIntervalMs = world.oneOf([2_000, 5_000, 20_000]) ?? 5_000
  // The fleet is idle most of the time, so faults that must hit during an allocation are injected right after a caller starts.
  const leaderFaults = world.oneOf([0, 0, 0.01, 0.05]) ?? 0
  const rewrites = world.oneOf([0, 0, 0.1, 0.3]) ?? 0
  const lostReplies = world.oneOf([0, 0, 0.1, 0.4]) ?? 0
  const soon = (fn: () => void) => world.after(world.between(0, 30), fn)
  repeat(callerIntervalMs / 10, callerIntervalMs * 2, () => {
    start(() => runCallers(context, world.chance(0.15) ? world.between(2, 5) : 1))
    if (world.chance(leaderFaults)) soon(() => disruptLeader(context))
    if (world.chance(rewrites)) soon(() => rewriteRecord(context))
    if (world.chance(lostReplies)) soon(() => dropStoreReplies(context))
  })
  if (world.hasBursts) repeat(8_000, 45_000, () => startBurst(context))
  repeat(5_000, 60_000, () => start(() => operate(context)))
  repeat(500, 15_000, () => start(() => changeServerData(context)))
  repeat(300, 8_000, () => start(() => reserveSeats(context)))
  repeat(4_000, 60_000, () => start(() => useReservations(context)))
  repeat(4_000, 60_000, () => start(() => takeOwnServers(context)))
  if (context.hasRooms) repeat(200, 6_000, () => start(() => useRooms(context)))
  if (world.chance(0.75)) repeat(10_000, 200_000, () => injectFault(context))
  if (!context.store.watched) return
  repeat(2_000, 60_000, () => editExternally(context))
  if (world.chance(0.7)) repeat(10_000, 200_000, () => interruptStoreWatch(context))
}
