/** How many servers a build keeps ready: its policies, what each asks for, and which of them decides. Pure. */
import { follow, type Patience, type PatienceLimits, patientFrom } from './patience.js'
import type { ForecastPolicy } from './forecast.js'
import { type CronWindow, windowAt } from './windows.js'

export type { ForecastPolicy } from './forecast.js'
export type { CronWindow } from './windows.js'

/** Policies by which the number of servers that a build keeps ready follows demand. Without any, it is `standingBy`. */
export interface ScalingSpec {
  readonly buffer?: BufferPolicy
  readonly schedule?: SchedulePolicy
  readonly forecast?: ForecastPolicy
  /** Name of a function of the host app, one of `createFleet({ scalingPolicies })`. */
  readonly function?: string
  readonly webhook?: WebhookPolicy
  /** How the number falls. It rises at once. */
  readonly scaleDown?: ScaleDown
  /** Time without a session and without callers after which the build keeps no server at all, until a caller comes. Default: unlimited. */
  readonly idleSeconds?: number
  /** For how long a number that is set by hand, with a patch or `kubectl scale`, holds instead of the policies. 0: it is one of them. Default: 3,600. */
  readonly overrideSeconds?: number
  /** Servers that have been standing by for longer are replaced, a few at a time. Default: unlimited. */
  readonly maxIdleAgeSeconds?: number
  /** When they are. Default: at any time. */
  readonly replaceWindow?: ReplaceWindow
}

/** The larger of a number and a percentage, at most `max`. */
export interface BufferPolicy {
  /** Default: 0. */
  readonly min?: number
  /** Of the servers in use. Default: 0. */
  readonly percent?: number
  /** Default: the build's `max`. */
  readonly max?: number
}

export interface SchedulePolicy {
  /** IANA name: `Europe/Berlin`. */
  readonly timeZone: string
  /** Of those that are open, the first counts. */
  readonly windows: readonly ScheduleWindow[]
}

export interface ScheduleWindow extends BufferPolicy, CronWindow {
  /** For people. Default: its `start`. */
  readonly name?: string
}

/** A URL that answers with a number. */
export interface WebhookPolicy {
  /** `http:` or `https:`, of an origin that `createFleet({ scalingWebhooks })` allows. */
  readonly url: string
  /** It is asked at most once in so long. Default: 10. */
  readonly everySeconds?: number
  /** Default: 5. */
  readonly timeoutSeconds?: number
  /** How long its last answer holds while no new one comes. Default: 300. */
  readonly holdSeconds?: number
  /** What it asks for after that, and before its first answer. Default: 0. */
  readonly otherwise?: number
}

export interface ScaleDown {
  /** How long fewer servers must be enough. Default: 300. */
  readonly delaySeconds?: number
  /** By how many servers the number then falls in a minute. Default: 10. */
  readonly perMinute?: number
}

export interface ReplaceWindow extends CronWindow {
  /** IANA name: `Europe/Berlin`. */
  readonly timeZone: string
}

/** What decides: the number in the spec, a policy, the time without use, or the number that was set by hand. */
export const deciders = [
  'standingBy',
  'buffer',
  'schedule',
  'forecast',
  'function',
  'webhook',
  'idle',
  'override',
] as const
export type Decider = (typeof deciders)[number]

/** The numbers in a build's spec. */
export interface FixedNumbers {
  readonly standingBy: number
  readonly max: number
}

/** The demand for a build. */
export interface Demand {
  /** Servers in use. */
  readonly inUse: number
  /** Since when nobody has used it or waited for it, elapsed ms. Undefined while somebody does. */
  readonly idleSince: number | undefined
  /** Until when a number that was set by hand holds, wall time in ms. */
  readonly overriddenUntil: number | undefined
}

/** The window that is open. */
export interface OpenWindow {
  readonly window: ScheduleWindow | undefined
  /** Wall time in ms until which that holds. */
  readonly until: number
}

export interface Now {
  /** Wall time in ms. */
  readonly wall: number
  /** Elapsed ms, which no change of the clock affects. */
  readonly elapsed: number
}

/** What a decision is made by, besides the spec and the demand. */
export interface Circumstances {
  /** How the number has been followed so far. */
  readonly before: Patience
  readonly now: Now
  readonly open: OpenWindow | undefined
  /** What policies outside these rules ask for. Default: nothing. */
  readonly others?: readonly Vote[]
}

/** What a build keeps ready, and why. */
export interface Decision {
  readonly standingBy: number
  readonly decider: Decider
  /** A sentence for people: what each policy asks for. */
  readonly message: string
  /** Time in ms after which the decision is another if nothing else happens. */
  readonly nextMs: number | undefined
  /** How the number has been followed so far. */
  readonly followed: Patience
}

/** What a policy asks for. */
export interface Vote {
  readonly by: Decider
  readonly standingBy: number
  /** For people. */
  readonly reason: string
  /** Time in ms after which it is another, if nothing else happens. */
  readonly nextMs?: number
}

const defaultOverrideSeconds = 3_600
const defaultScaleDown = { delaySeconds: 300, perMinute: 10 }

/** How long a number that is set by hand holds, in ms. */
export function overrideMs({ overrideSeconds = defaultOverrideSeconds }: ScalingSpec): number {
  return overrideSeconds * 1_000
}

/** Which window of the schedule is open, of several the first. */
export function openWindow({ timeZone, windows }: SchedulePolicy, now: number): OpenWindow {
  const states = windows.map((window) => ({ window, ...windowAt(window, timeZone, now) }))
  return {
    window: states.find(({ isOpen }) => isOpen)?.window,
    until: Math.min(...states.map(({ until }) => until)),
  }
}

/** Nothing has been decided yet: `ready` servers are kept for the delay. */
export function followedFrom(ready: number, now: Now): Patience {
  return patientFrom(ready, now.elapsed)
}

/**
 * The largest number that a policy asks for, at most `max`; `others` are the votes of policies outside these rules. It rises at once and falls as `scaleDown` says. A number that was set by hand
 * holds instead until its time is over, and a build that nobody uses keeps nothing after `idleSeconds`.
 */
export function decide(
  { fixed, scaling }: { readonly fixed: FixedNumbers; readonly scaling: ScalingSpec },
  demand: Demand,
  { before, now, open, others = [] }: Circumstances,
): Decision {
  const { overriddenUntil } = demand
  if (overriddenUntil !== undefined && overriddenUntil > now.wall) {
    const message = `standingBy was set to ${fixed.standingBy} by hand, which overrides the policies until ${shownTime(overriddenUntil)}`
    return settled('override', Math.min(fixed.max, fixed.standingBy), message, overriddenUntil - now.wall, now)
  }
  const idleMs = demand.idleSince === undefined ? 0 : now.elapsed - demand.idleSince
  const allowedMs = scaling.idleSeconds === undefined ? Infinity : scaling.idleSeconds * 1_000
  if (idleMs >= allowedMs) return settled('idle', 0, `nobody has used it for ${scaling.idleSeconds} s`, undefined, now)
  const votes = [...votesOf({ fixed, scaling }, demand, open), ...others]
  const wanted = Math.min(fixed.max, Math.max(...votes.map(({ standingBy }) => standingBy)))
  const limits = limitsOf(scaling)
  const { patience, nextMs } = follow(before, wanted, now.elapsed, limits)
  const falls = `; falls from ${patience.level} no sooner than ${limits.delayMs / 1_000} s after more was asked for`
  return {
    standingBy: Math.min(fixed.max, patience.level),
    decider: deciderOf(votes),
    message: `${votes.map(({ reason }) => reason).join('; ')}${patience.level > wanted ? falls : ''}`,
    nextMs: earliest([
      nextMs,
      open && open.until - now.wall,
      ...votes.map((vote) => vote.nextMs),
      demand.idleSince === undefined ? undefined : allowedMs - idleMs,
    ]),
    followed: patience,
  }
}

function settled(
  decider: Decider,
  standingBy: number,
  message: string,
  nextMs: number | undefined,
  now: Now,
): Decision {
  return { standingBy, decider, message, nextMs, followed: followedFrom(standingBy, now) }
}

function votesOf(
  { fixed, scaling: { buffer, schedule } }: { readonly fixed: FixedNumbers; readonly scaling: ScalingSpec },
  demand: Demand,
  open: OpenWindow | undefined,
): readonly Vote[] {
  const { standingBy } = fixed
  const votes: Vote[] = [{ by: 'standingBy', standingBy, reason: `standingBy asks for ${standingBy}` }]
  if (buffer) votes.push(bufferVote('buffer', 'buffer', buffer, demand))
  const window = open?.window
  if (window) votes.push(bufferVote('schedule', `schedule (${window.name ?? window.start})`, window, demand))
  else if (schedule) votes.push({ by: 'schedule', standingBy: 0, reason: 'no window of the schedule is open' })
  return votes
}

function bufferVote(
  by: Decider,
  name: string,
  { min = 0, percent = 0, max = Infinity }: BufferPolicy,
  { inUse }: Demand,
): Vote {
  const standingBy = Math.min(max, Math.max(min, Math.ceil((percent * inUse) / 100)))
  const share = percent === 0 ? '' : ` (${percent} % of ${inUse} in use)`
  return { by, standingBy, reason: `${name} asks for ${standingBy}${share}` }
}

/** The first of those that ask for most. */
function deciderOf(votes: readonly Vote[]): Decider {
  const [most] = votes.toSorted((a, b) => b.standingBy - a.standingBy)
  return most?.by ?? 'standingBy'
}

function limitsOf({ scaleDown = {} }: ScalingSpec): PatienceLimits {
  const { delaySeconds, perMinute } = { ...defaultScaleDown, ...scaleDown }
  return { delayMs: delaySeconds * 1_000, perMinute }
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const soonest = Math.min(...times.map((ms) => ms ?? Infinity))
  return Number.isFinite(soonest) ? Math.max(1, soonest) : undefined
}

/** Wall time in ms, for people. */
export function shownTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}
