/** Parts of a build's status: counts, health and conditions. Pure. */
import type { Build, BuildCrash } from './resources.js'

/** A situation that currently affects a build and that its operator should know about. */
export interface Condition {
  /**
   * - `Crashing`: a server crashed recently, so the creation of servers backs off.
   * - `CreateBlocked`: the backend cannot start servers now.
   * - `Disappearing`: something keeps removing idle servers, or their games keep exiting, so the creation of servers backs off.
   * - `LateServers`: servers take longer to start than the build allows, so others are started beside them.
   * - `LongSession`: a session has lasted longer than the build allows.
   * - `Draining`: an operator is draining the build; servers are neither allocated nor created.
   * - `Clamped`: standingBy was edited in the store to more than max, so max is used instead.
   * - `Invalid`: the spec was edited in the store and is no longer valid; no servers are created.
   * - `ScalingOverridden`: standingBy was set by hand, and holds instead of the scaling policies for a time.
   * - `BudgetReached`: the fleet's budget has no room for all the servers that the build should have.
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
  'ScalingOverridden',
  'BudgetReached',
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

/** Whether a build has the servers that it should have. */
export interface BuildReadiness {
  readonly ready: boolean
  /** One machine-readable word: `StandingBy`, `Starting`, `Unhealthy`, or the type of the condition that is the cause. */
  readonly reason: string
  /** A sentence for people. */
  readonly message: string
}

/** What `readinessOf` counts. */
interface ReadinessCounts {
  /** Number of servers that should stand by: no more than `max` allows in addition to those in use. */
  readonly wanted: number
  /** Number of servers of the current template that stand by and can be allocated. */
  readonly standingBy: number
}

/** A record, or what its public form says of it. */
type ReadableBuild = Pick<Build, 'crashes' | 'spec'> & {
  readonly conditions: readonly { readonly type: string; readonly message: string }[]
}

/** Why servers are missing, the most telling first. */
export const shortageConditions: readonly ConditionType[] = [
  'CreateBlocked',
  'Crashing',
  'Disappearing',
  'LateServers',
  'BudgetReached',
]

/**
 * A build is ready while all the servers that should stand by do so with the current template, and nothing keeps it from starting more. It is
 * not ready for the moment between an allocation and the next server.
 */
export function readinessOf(build: ReadableBuild, { wanted, standingBy }: ReadinessCounts): BuildReadiness {
  const set = (type: ConditionType) => build.conditions.find((condition) => condition.type === type)
  const stopped = set('Invalid') ?? set('Draining')
  if (stopped) return { ready: false, reason: stopped.type, message: stopped.message }
  if (buildHealth(build) === 'Unhealthy') {
    const message = `${build.crashes} crashes; no new servers until crashesToMarkUnhealthy is raised`
    return { ready: false, reason: 'Unhealthy', message }
  }
  const count = `${standingBy} of ${wanted} servers of the current template stand by`
  if (standingBy >= wanted) return { ready: true, reason: 'StandingBy', message: count }
  const cause = shortageConditions.map(set).find((condition) => condition !== undefined)
  if (!cause) return { ready: false, reason: 'Starting', message: count }
  return { ready: false, reason: cause.type, message: `${count}: ${cause.message}` }
}

/** `the process exited with code 3; its last output: ENOENT canyon.nav`. */
export function crashText({ message, output }: Pick<BuildCrash, 'message' | 'output'>): string {
  return output === undefined ? message : `${message}; its last output: ${output}`
}

/** How many servers of a build should stand by: what its scaling policies have decided, or its spec says. */
export function standingByOf(build: {
  readonly spec: { readonly standingBy: number }
  readonly status: { readonly scaling?: { readonly standingBy: number } }
}): number {
  return build.status.scaling?.standingBy ?? build.spec.standingBy
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
