/** How many servers a build keeps ready: its policies, what each asks for, and which of them decides. Pure. */
import { follow, type Patience, type PatienceLimits, patientFrom } from './patience.js'
import { type CronWindow, windowAt } from './windows.js'

export type { CronWindow } from './windows.js'

/** Policies by which the number of servers that a build keeps ready follows demand. Without any, it is `standingBy`. */
export interface ScalingSpec {
  readonly buffer?: BufferPolicy
  readonly schedule?: SchedulePolicy
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
  /** Of the servers in use, or of the sessions. Default: 0. */
  readonly percent?: number
  /** Default: the build's `max`. */
  readonly max?: number
  /**
   * What is counted: idle `servers` for the servers in use, or free places for the `sessions` that there are, on builds whose servers take
   * several. Default: `servers`.
   */
  readonly of?: BufferUnit
}

export const bufferUnits = ['servers', 'sessions'] as const
export type BufferUnit = (typeof bufferUnits)[number]

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
export const deciders = ['standingBy', 'buffer', 'schedule', 'idle', 'override'] as const
export type Decider = (typeof deciders)[number]

/** The numbers in a build's spec. */
export interface FixedNumbers {
  readonly standingBy: number
  readonly standingBySessions?: number
  readonly max: number
}

/** The demand for a build. */
export interface Demand {
  /** Servers in use. */
  readonly inUse: number
  /** Sessions on them. */
  readonly sessions: number
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

/** What a build keeps ready, and why. */
export interface Decision {
  readonly standingBy: number
  readonly standingBySessions: number
  readonly decider: Decider
  /** A sentence for people: what each policy asks for. */
  readonly message: string
  /** Time in ms after which the decision is another if nothing else happens. */
  readonly nextMs: number | undefined
  readonly followed: Followed
}

/** How the numbers have been followed so far. */
export interface Followed {
  readonly servers: Patience
  readonly sessions: Patience
}

/** What a policy asks for. */
interface Vote {
  readonly by: Decider
  readonly servers: number
  readonly sessions: number
  /** For people. */
  readonly reason: string
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

/** Nothing has been decided yet: `idle` servers that are there already are kept for the delay. */
export function followedFrom(idle: number, now: Now): Followed {
  return { servers: patientFrom(idle, now.elapsed), sessions: patientFrom(0, now.elapsed) }
}

/**
 * The largest number that a policy asks for, at most `max`. It rises at once and falls as `scaleDown` says. A number that was set by hand
 * holds instead until its time is over, and a build that nobody uses keeps nothing after `idleSeconds`.
 */
export function decide(
  { fixed, scaling }: { readonly fixed: FixedNumbers; readonly scaling: ScalingSpec },
  demand: Demand,
  { before, now, open }: { readonly before: Followed; readonly now: Now; readonly open: OpenWindow | undefined },
): Decision {
  const { overriddenUntil } = demand
  if (overriddenUntil !== undefined && overriddenUntil > now.wall) {
    const message = `standingBy was set to ${fixed.standingBy} by hand, which overrides the policies until ${timeOf(overriddenUntil)}`
    return settled('override', numbersOf(fixed), message, overriddenUntil - now.wall, now)
  }
  const idleMs = demand.idleSince === undefined ? 0 : now.elapsed - demand.idleSince
  const allowedMs = scaling.idleSeconds === undefined ? Infinity : scaling.idleSeconds * 1_000
  if (idleMs >= allowedMs) {
    return settled(
      'idle',
      { servers: 0, sessions: 0 },
      `nobody has used it for ${scaling.idleSeconds} s`,
      undefined,
      now,
    )
  }
  const votes = votesOf({ fixed, scaling }, demand, open)
  const wanted = {
    servers: Math.min(fixed.max, Math.max(...votes.map(({ servers }) => servers))),
    sessions: Math.max(...votes.map(({ sessions }) => sessions)),
  }
  const limits = limitsOf(scaling)
  const servers = follow(before.servers, wanted.servers, now.elapsed, limits)
  const sessions = follow(before.sessions, wanted.sessions, now.elapsed, limits)
  const isFalling = servers.patience.level > wanted.servers || sessions.patience.level > wanted.sessions
  const falls = `; falls from ${servers.patience.level} no sooner than ${limits.delayMs / 1_000} s after more was asked for`
  return {
    standingBy: Math.min(fixed.max, servers.patience.level),
    standingBySessions: sessions.patience.level,
    decider: deciderOf(votes),
    message: `${votes.map(({ reason }) => reason).join('; ')}${isFalling ? falls : ''}`,
    nextMs: earliest([
      servers.nextMs,
      sessions.nextMs,
      open && open.until - now.wall,
      demand.idleSince === undefined ? undefined : allowedMs - idleMs,
    ]),
    followed: { servers: servers.patience, sessions: sessions.patience },
  }
}

function settled(
  decider: Decider,
  { servers, sessions }: Pick<Vote, 'servers' | 'sessions'>,
  message: string,
  nextMs: number | undefined,
  { elapsed }: Now,
): Decision {
  const followed = { servers: patientFrom(servers, elapsed), sessions: patientFrom(sessions, elapsed) }
  return { standingBy: servers, standingBySessions: sessions, decider, message, nextMs, followed }
}

function votesOf(
  { fixed, scaling: { buffer, schedule } }: { readonly fixed: FixedNumbers; readonly scaling: ScalingSpec },
  demand: Demand,
  open: OpenWindow | undefined,
): readonly Vote[] {
  const votes: Vote[] = [{ by: 'standingBy', ...numbersOf(fixed), reason: `standingBy asks for ${fixed.standingBy}` }]
  if (buffer) votes.push(bufferVote('buffer', 'buffer', buffer, demand))
  const window = open?.window
  if (window) votes.push(bufferVote('schedule', `schedule (${window.name ?? window.start})`, window, demand))
  else if (schedule)
    votes.push({ by: 'schedule', servers: 0, sessions: 0, reason: 'no window of the schedule is open' })
  return votes
}

function numbersOf({ standingBy, standingBySessions = 0 }: FixedNumbers): Pick<Vote, 'servers' | 'sessions'> {
  return { servers: standingBy, sessions: standingBySessions }
}

function bufferVote(
  by: Decider,
  name: string,
  { min = 0, percent = 0, max = Infinity, of = 'servers' }: BufferPolicy,
  { inUse, sessions }: Demand,
): Vote {
  const used = of === 'servers' ? inUse : sessions
  const wanted = Math.min(max, Math.max(min, Math.ceil((percent * used) / 100)))
  const what = of === 'servers' ? '' : ' free places'
  const share = percent === 0 ? '' : ` (${percent} % of ${used}${of === 'servers' ? ' in use' : ' sessions'})`
  const reason = `${name} asks for ${wanted}${what}${share}`
  return of === 'servers' ? { by, servers: wanted, sessions: 0, reason } : { by, servers: 0, sessions: wanted, reason }
}

/** The first of those that ask for most. */
function deciderOf(votes: readonly Vote[]): Decider {
  const [most] = votes.toSorted((a, b) => b.servers - a.servers || b.sessions - a.sessions)
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

function timeOf(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '')
}
