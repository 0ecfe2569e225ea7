/** Names and random specs for the builds in a run. */
import { type AllocationOrder, allocationOrders } from '../../../src/rules/model/allocation-request.js'
import { type BuildBudget, type BuildSpec, keyOf } from '../../../src/rules/model/resources.js'
import type { StoreModel } from '../models/store-model.js'
import { declaredTickets } from '../invariants/server-data.js'
import type { World } from '../world/world.js'
import { someProbes } from './probed-specs.js'
import { someScaling } from './scaling-specs.js'

export const buildNames = ['arena', 'duel', 'lobby'] as const

export function buildIDOf(name: string): string {
  return `id-${name}`
}

/** A game version whose servers never become ready. */
export const brokenVersion = 'broken'
/** A game version whose servers become ready and then crash. */
export const crashingVersion = 'crashing'

export const template = {
  spec: { containers: [{ name: 'game', image: 'game', stdin: true }], terminationGracePeriodSeconds: 5 },
}

export function buildSpec(world: World, name: string, standingBy: number, max: number): BuildSpec {
  const scaling = someScaling(world)
  return {
    buildID: buildIDOf(name),
    standingBy,
    max,
    portsToExpose: world.chance(0.8) || world.probedBuilds.includes(name) ? [7777] : [],
    ...(world.chance(0.4) && { crashesToMarkUnhealthy: world.between(1, 20) }),
    ...(world.chance(0.3) && { health: someHealth(world) }),
    ...(world.chance(0.7) && { seatsPerSession: world.between(2, 5) }),
    ...(world.chance(0.3) && { claimSeconds: world.between(5, 60) }),
    ...(scaling && { scaling }),
    ...(world.budget !== undefined && world.chance(0.7) && { budget: someBudget(world) }),
    template,
    ...declaredTickets,
    labels: { kind: kindOf(name) },
    ...(world.chance(0.3) && { order: someOrder(world) }),
    ...(world.chance(0.15) && { termination: 'SignalFirst' }),
    ...someProbes(world, name),
  }
}

/** A label of each build, which no edit changes. */
export function kindOf(name: string): string {
  return name === 'lobby' ? 'social' : 'match'
}

export function someOrder(world: World): AllocationOrder {
  const by = world.oneOf(allocationOrders) ?? 'first-ready'
  return by === 'least-available' || by === 'most-available' ? { by, counter: 'tickets' } : { by }
}

export function someBudget(world: World): BuildBudget {
  return { guaranteed: world.between(0, 3), priority: world.between(0, 2) }
}

export function someHealth(world: World) {
  return {
    firstHeartbeatSeconds: world.between(20, 60),
    silenceSeconds: world.between(8, 30),
    initializingSeconds: world.between(30, 90),
    ...(world.chance(0.5) && { sessionSeconds: world.between(10, 120), endLongSessions: world.chance(0.5) }),
  }
}

/** Returns the names of the builds that currently exist in the store. */
export function existingBuilds(store: StoreModel): readonly string[] {
  return buildNames.filter((name) => store.builds.has(keyOf({ namespace: 'default', name })))
}
