/** Parts of a build's status: counts, health and conditions. Pure. */
import type { Build } from './resources.js'

/** A situation that currently affects a build and that its operator should know about. */
export interface Condition {
  /**
   * - `Crashing`: a server crashed recently, so the creation of servers backs off.
   * - `CreateBlocked`: the backend cannot start servers now.
   * - `Disappearing`: something keeps removing idle servers, so the creation of servers backs off.
   * - `LateServers`: servers take longer to start than the build allows, so others are started beside them.
   * - `LongSession`: a session has lasted longer than the build allows.
   * - `Draining`: an operator is draining the build; servers are neither allocated nor created.
   * - `Clamped`: standingBy was edited in the store to more than max, so max is used instead.
   * - `Invalid`: the spec was edited in the store and is no longer valid; no servers are created.
   */
  readonly type: ConditionType
  /** One machine-readable word: an error code, `NonZeroExit`, `Silent`… */
  readonly reason: string
  /** A sentence for people. */
  readonly message: string
  /** Wall time in ms. */
  readonly since: number
}

export const conditionTypes = [
  'Crashing',
  'CreateBlocked',
  'Disappearing',
  'LateServers',
  'LongSession',
  'Draining',
  'Clamped',
  'Invalid',
] as const
export type ConditionType = (typeof conditionTypes)[number]

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
