/** Replays a day of demand against the real engine in virtual time, to see what a scaling policy would have done. */
import { FleetError } from '../contracts/errors.js'
import { aNumber, anObject, aSignal, aString, anything, checkOptions, required } from '../contracts/option-checks.js'
import type { FleetOptions } from '../contracts/options.js'
import {
  countOf,
  dayMs,
  type DemandDay,
  type DemandRecording,
  durationsOf,
  minuteMs,
  recordingProblem,
  startOfDay,
  sumOfDurations,
} from '../rules/demand/demand-day.js'
import type { BuildSpec } from '../rules/model/resources.js'
import { shown } from '../rules/validation/problem.js'
import { play, type PlayedMinute, type PlayedOutcome, type PlayOptions, type SimulatedCaller } from './played-day.js'
import { seededRandom } from './virtual-clock.js'

/** What a build keeps ready: a part of its spec, in which nothing else needs to be said. */
export type ReplayPolicy = Pick<BuildSpec, 'standingBy' | 'max'> & Partial<BuildSpec>

export interface ReplayOptions {
  /** From `fleet.builds.demand`, `gamekeeper demand` or `inventDemand`. Its earlier days are what policies look back on. */
  readonly demand: DemandRecording
  /** The day to replay, such as `2026-11-28`. Default: the one with the most callers. */
  readonly day?: string
  readonly policy: ReplayPolicy
  /** The functions that `policy.scaling.function` may name, as in `createFleet`. */
  readonly scalingPolicies?: FleetOptions['scalingPolicies']
  /** How long callers wait for a server. Default: 0, so that a caller who finds none is refused. */
  readonly waitSeconds?: number
  /** How long a server takes until it is standing by, from half to one and a half times this. Default: as recorded. */
  readonly startSeconds?: number
  /** Determines when within its minute each caller comes, and for how long it plays. Default 1. */
  readonly seed?: number
  readonly signal?: AbortSignal
  /** Called once a simulated minute, with the minutes so far. */
  readonly onMinute?: (minutes: number) => void
}

export interface ReplayOutcome {
  readonly day: string
  readonly callers: number
  readonly served: number
  /** Callers who got no server. */
  readonly refused: number
  /** How long the callers who were served waited. */
  readonly waitSeconds: ReplayWaits
  /** The most servers at the same time. */
  readonly peakServers: number
  readonly serverHours: number
  /** How many of them were of servers without a match: starting or standing by. */
  readonly idleServerHours: number
  /** The whole day, minute by minute. */
  readonly minutes: readonly PlayedMinute[]
}

export interface ReplayWaits {
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly longest: number
}

/** Servers of the policy are ready when the day begins, and matches of the day before go on. */
const warmUpMs = 60 * minuteMs
/** With fewer sessions in an hour, those of the whole day are drawn from. */
const fewSessions = 20

/**
 * The same options give the same outcome. A day of 100,000 sessions takes less than a minute. Throws `invalid`, naming the option or the field
 * of the policy, also for a recording in which no session has ended, and `aborted`.
 */
export async function replayDemand(options: ReplayOptions): Promise<ReplayOutcome> {
  const { day, callers, played } = prepared('replayDemand', options)
  return outcomeOf(day, await play(specOf(options.policy), callers, played))
}

/**
 * The smallest `standingBy` that, without any policy, refuses no more callers than `refused`, and its outcome. Replays the day several
 * times. Undefined if not even `max` suffices. Throws what `replayDemand` throws.
 */
export async function fixedNumberFor(
  options: ReplayOptions,
  refused: number,
): Promise<{ readonly standingBy: number; readonly outcome: ReplayOutcome } | undefined> {
  const { day, callers, played } = prepared('fixedNumberFor', options)
  const { scaling: _, ...spec } = specOf(options.policy)
  const run = async (standingBy: number) => {
    const isOver = (soFar: number) => soFar > refused
    return outcomeOf(day, await play({ ...spec, standingBy }, callers, { ...played, isOver }))
  }
  // Doubles until a number suffices, then halves the interval: what is too few ends early.
  let [tooFew, standingBy] = [-1, Math.min(spec.max, firstGuess)]
  let best = await run(standingBy)
  while (best.refused > refused) {
    if (standingBy === spec.max) return undefined
    ;[tooFew, standingBy] = [standingBy, Math.min(spec.max, 2 * standingBy)]
    best = await run(standingBy)
  }
  while (standingBy - tooFew > 1) {
    const middle = Math.floor((tooFew + standingBy) / 2)
    const outcome = await run(middle)
    if (outcome.refused > refused) tooFew = middle
    else [standingBy, best] = [middle, outcome]
  }
  return { standingBy, outcome: best }
}

const firstGuess = 8

interface Prepared {
  readonly day: string
  readonly callers: readonly SimulatedCaller[]
  readonly played: PlayOptions
}

const optionTypes = {
  demand: required({ ...anything, must: 'must be a recording' }),
  policy: required(anObject),
  scalingPolicies: anObject,
  day: aString,
  waitSeconds: aNumber,
  startSeconds: aNumber,
  seed: aNumber,
  signal: aSignal,
  onMinute: anything,
}

function prepared(owner: string, options: ReplayOptions): Prepared {
  checkOptions<ReplayOptions>(owner, options, optionTypes)
  const problem = recordingProblem(options.demand)
  if (problem !== undefined) throw new FleetError('invalid', `${owner}: demand: ${problem}`)
  const { demand, startSeconds, seed = 1, scalingPolicies, signal, waitSeconds = 0, onMinute } = options
  for (const [option, seconds] of Object.entries({ waitSeconds, startSeconds })) {
    if (seconds === undefined || (Number.isFinite(seconds) && seconds >= 0)) continue
    throw new FleetError('invalid', `${owner}: ${option} must be a number ≥ 0, but is ${shown(seconds)}`)
  }
  checkPolicies(owner, options)
  const played = dayIn(owner, demand, options.day)
  const random = seededRandom(seed)
  const lengths = lengthsOf(owner, played, demand)
  const length = (hour: number) => Math.max(1, Math.round(lengths(hour, random())))
  const matchesMs = Array.from({ length: played.inUse[0] ?? 0 }, () => Math.round(length(0) * random()))
  const callers = played.asked.flatMap((count, minute) =>
    Array.from({ length: count }, () => ({
      atMs: Math.floor((minute + random()) * minuteMs),
      matchMs: length(Math.floor(minute / 60)),
    })),
  )
  const starts = durationsOf(sumOfDurations(demand.days.map((one) => one.starts)))
  if (startSeconds === undefined && !starts)
    throw new FleetError(
      'invalid',
      `${owner}: startSeconds is missing, and the recording does not say how long servers take to start`,
    )
  return {
    day: played.day,
    callers: callers.toSorted((a, b) => a.atMs - b.atMs),
    played: {
      seed,
      waitMs: waitSeconds * 1_000,
      durationMs: dayMs,
      startMs: (share) => (startSeconds === undefined ? (starts?.(share) ?? 0) : startSeconds * 1_000 * (0.5 + share)),
      warmUp: { ms: warmUpMs, matchesMs },
      startsAt: startOfDay(played.day),
      past: demand.days.filter((one) => one.day < played.day),
      onMinute: onMinute && ((ms) => onMinute(Math.round(ms / minuteMs))),
      signal,
      ...(scalingPolicies && { scalingPolicies }),
    },
  }
}

/** A policy that would ask for nothing only because it is replayed. */
function checkPolicies(owner: string, { policy, scalingPolicies = {} }: ReplayOptions): void {
  const { function: name, webhook } = policy.scaling ?? {}
  if (webhook) {
    const mend = 'name a function in its place that answers as it does'
    throw new FleetError('invalid', `${owner}: policy.scaling.webhook: a replay asks no webhook; ${mend}`)
  }
  if (name === undefined || Object.hasOwn(scalingPolicies, name)) return
  const message = `policy.scaling.function: scalingPolicies has no function ${shown(name)}, so that it cannot be replayed`
  throw new FleetError('invalid', `${owner}: ${message}`)
}

function dayIn(owner: string, { days }: DemandRecording, wanted: string | undefined): DemandDay {
  const callers = ({ asked }: DemandDay) => asked.reduce((sum, count) => sum + count, 0)
  const [busiest] = days.toSorted((a, b) => callers(b) - callers(a))
  const day = wanted === undefined ? busiest : days.find((one) => one.day === wanted)
  if (day) return day
  const known = days.map((one) => one.day).join(', ')
  const message =
    wanted === undefined ? 'demand has no days' : `day ${shown(wanted)} is not recorded; there are ${known}`
  throw new FleetError('invalid', `${owner}: ${message}`)
}

/** Draws the length of a session that begins in an hour of the day. If none has ended that day, from those of other days. */
function lengthsOf(owner: string, day: DemandDay, { days }: DemandRecording) {
  const drawn = (of: readonly DemandDay[]) =>
    durationsOf(sumOfDurations(of.flatMap((one) => Object.values(one.sessions))))
  const all = drawn([day]) ?? drawn(days)
  if (!all) {
    const message = 'no session of the recording has ended, so that nobody knows how long they take'
    throw new FleetError('invalid', `${owner}: ${message}`)
  }
  const byHour = new Map(
    Object.entries(day.sessions)
      .filter(([, durations]) => countOf(durations) >= fewSessions)
      .map(([hour, durations]) => [Number(hour), durationsOf(durations) ?? all]),
  )
  return (hour: number, share: number) => (byHour.get(hour) ?? all)(share)
}

function specOf(policy: ReplayPolicy): BuildSpec {
  const template = { spec: { containers: [{ name: 'game', image: 'simulated' }] } }
  return { buildID: 'simulated', portsToExpose: [], template, ...policy }
}

function outcomeOf(day: string, played: PlayedOutcome): ReplayOutcome {
  const { callers, served, refused, waitsMs, peakServers, idleServerHours, activeServerHours, minutes } = played
  return {
    ...{ day, callers, served, refused, waitSeconds: waitsOf(waitsMs), peakServers },
    ...{ serverHours: idleServerHours + activeServerHours, idleServerHours, minutes },
  }
}

/** `sortedMs`: shortest first. */
export function waitsOf(sortedMs: readonly number[]): ReplayWaits {
  const at = (share: number) => {
    const ms = sortedMs[Math.max(0, Math.ceil(sortedMs.length * share) - 1)] ?? 0
    return Math.round(ms / 100) / 10
  }
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), longest: at(1) }
}
