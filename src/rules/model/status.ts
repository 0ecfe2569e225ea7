/** Parts of a build's status: counts, health and conditions. Pure. */
import type { Build, Condition, ConditionType } from './resources.js'

/** Number of servers of a build in each state. */
export interface BuildCounts {
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
  readonly active: number
  readonly terminating: number
}

export const noServers: BuildCounts = { pending: 0, initializing: 0, standingBy: 0, active: 0, terminating: 0 }

export function sumOfCounts(all: readonly BuildCounts[]): BuildCounts {
  return all.reduce(
    (sum, one) => ({
      pending: sum.pending + one.pending,
      initializing: sum.initializing + one.initializing,
      standingBy: sum.standingBy + one.standingBy,
      active: sum.active + one.active,
      terminating: sum.terminating + one.terminating,
    }),
    noServers,
  )
}

export type BuildHealth = 'Healthy' | 'Unhealthy'

/**
 * A build is `Unhealthy` once `crashes` reaches `crashesToMarkUnhealthy`. Raising or removing that limit makes it Healthy
 * again.
 */
export function buildHealth(build: Pick<Build, 'crashes' | 'spec'>): BuildHealth {
  const limit = build.spec.crashesToMarkUnhealthy
  return limit !== undefined && build.crashes >= limit ? 'Unhealthy' : 'Healthy'
}

export function readyOfDesired(standingBy: number, desired: number): string {
  return `${standingBy}/${desired}`
}

/** Adds or replaces a condition. Keeps `since` if the reason stays the same, and returns the same array if nothing changes. */
export function withCondition(conditions: readonly Condition[], next: Condition): readonly Condition[] {
  const before = conditions.find((condition) => condition.type === next.type)
  if (before?.reason === next.reason && before.message === next.message) return conditions
  if (!before) return [...conditions, next]
  const since = before.reason === next.reason ? before.since : next.since
  return conditions.map((condition) => (condition === before ? { ...next, since } : condition))
}

/** Removes a condition. Returns the same array if it was not set. */
export function withoutCondition(conditions: readonly Condition[], type: ConditionType): readonly Condition[] {
  return conditions.some((condition) => condition.type === type)
    ? conditions.filter((condition) => condition.type !== type)
    : conditions
}
