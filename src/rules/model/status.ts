/** Parts of a build's status: counts, health and conditions. Pure. */
import type { Build, Condition, ConditionType } from './resources.js'

/** Servers of a build by state. */
export interface BuildCounts {
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
  readonly active: number
  readonly terminating: number
}

export type BuildHealth = 'Healthy' | 'Unhealthy'

/** `Unhealthy` once `crashes` has reached `crashesToMarkUnhealthy`. Raising or removing the limit makes the build Healthy again. */
export function buildHealth(build: Pick<Build, 'crashes' | 'spec'>): BuildHealth {
  const limit = build.spec.crashesToMarkUnhealthy
  return limit !== undefined && build.crashes >= limit ? 'Unhealthy' : 'Healthy'
}

export function readyOfDesired(standingBy: number, desired: number): string {
  return `${standingBy}/${desired}`
}

/** Adds or replaces a condition. `since` is kept while the reason stays the same; the array is, if nothing changes. */
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
