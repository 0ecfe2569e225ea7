/** How many callers to expect, from the day before and the same day of the last week. Pure. */
import { dayMs, type DemandMinute, minuteMs } from '../demand/demand-day.js'
import type { Vote } from './policies.js'

export interface ForecastPolicy {
  /**
   * Callers are expected of so many seconds: as long as servers take to start. Default: as long as they took on average on the last two
   * days, and for bursts as long as 99 of 100 took. 300 while that is not known.
   */
  readonly aheadSeconds?: number
  /** How many percent more callers are expected than then. Default: as many more or fewer as in the last hour, from half to twice as many. */
  readonly growthPercent?: number
  /** IANA name, such as `Europe/Berlin`: the time of day is that of clocks there. Default: UTC. */
  readonly timeZone?: string
}

export interface Forecast {
  readonly standingBy: number
  /** False if nothing is known of the days before, or not yet. */
  readonly isKnown: boolean
  /** For people. */
  readonly reason: string
  /** Wall time in ms until which that holds. */
  readonly until: number
}

/** What was recorded of a build. */
export interface History {
  /** Undefined if it is not known. */
  at(wallMs: number): DemandMinute | undefined
  /** How long servers took until they were standing by. Undefined if it is not known. */
  starts(): { readonly meanMs: number; readonly p99Ms: number } | undefined
}

const unknownStartMs = 300_000
const shortestMs = 30_000
/** Decided once a minute, so that a burst is seen in time. */
const shortestBurstMs = 120_000
const longestMs = 3_600_000
/** With fewer callers in the hour, one more or less says nothing about growth. */
const fewCallers = 30
const growthMinutes = 60
/** Callers of a minute are compared with those around it, because their number varies. */
const aroundMinutes = 10
const unknownMs = 10_000

const references = [
  { days: 1, name: 'yesterday' },
  { days: 7, name: 'a week ago' },
] as const

/**
 * Servers for the callers who are expected while another server starts, plus three times the square root of their number: callers who come
 * independently of each other hardly ever exceed that. The average time to start is enough, because slow and quick starts balance out. Of the
 * two days, the one with more callers counts.
 */
export function forecastFor(
  { aheadSeconds, growthPercent, timeZone = 'UTC' }: ForecastPolicy,
  now: number,
  history: History,
  sessionsPerServer = 1,
): Forecast {
  const { meanMs, p99Ms } = history.starts() ?? { meanMs: unknownStartMs, p99Ms: unknownStartMs }
  const between = (shortest: number, ms: number) => Math.min(longestMs, Math.max(shortest, ms))
  const given = aheadSeconds === undefined ? undefined : aheadSeconds * 1_000
  const ahead = { usualMs: given ?? between(shortestMs, meanMs), burstMs: given ?? between(shortestBurstMs, p99Ms) }
  const expected = references.flatMap(({ days, name }) => {
    const then = sameTime(now, days, timeZone)
    const callers = callersWithin(then, ahead, history)
    if (callers === undefined) return []
    const growth = growthPercent === undefined ? growthSince(now, then, history) : 1 + growthPercent / 100
    return [{ name, growth, callers: callers * growth }]
  })
  const [highest] = expected.toSorted((a, b) => b.callers - a.callers)
  if (!highest) {
    const reason = 'nothing is known of yesterday and a week ago'
    return { standingBy: 0, isKnown: false, reason, until: now + unknownMs }
  }
  const { growth, callers, name } = highest
  const percent = Math.round((growth - 1) * 100)
  const change = percent === 0 ? '' : percent > 0 ? ` and ${percent} % more` : ` and ${-percent} % fewer`
  return {
    standingBy: Math.ceil((callers + 3 * Math.sqrt(callers)) / sessionsPerServer),
    isKnown: true,
    reason: `${Math.round(callers)} callers are expected within ${Math.round(ahead.usualMs / 1_000)} s, as ${name}${change}`,
    until: Math.floor(now / minuteMs + 1) * minuteMs,
  }
}

export function forecastVote({ standingBy, reason }: Forecast): Vote {
  return { by: 'forecast', standingBy, reason: `forecast asks for ${standingBy} (${reason})` }
}

/** What is usual around that time, or a burst: those who came just then, if they are more than usual beyond chance. */
function callersWithin(
  from: number,
  { usualMs, burstMs }: { readonly usualMs: number; readonly burstMs: number },
  history: History,
): number | undefined {
  const asked = (first: number, count: number) => {
    const known = Array.from({ length: count }, (_, index) => history.at(from + (first + index) * minuteMs)?.asked)
    return known.filter((one) => one !== undefined)
  }
  const around = asked(-aroundMinutes, Math.ceil(usualMs / minuteMs) + 2 * aroundMinutes)
  if (around.length === 0) return undefined
  const usual = ((sumOf(around) / around.length) * usualMs) / minuteMs
  const burst = sumOf(asked(0, Math.ceil(burstMs / minuteMs) + 1))
  const chance = (sumOf(around) / around.length) * (Math.ceil(burstMs / minuteMs) + 1)
  return burst > chance + 3 * Math.sqrt(chance) ? Math.max(usual, burst) : usual
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0)
}

/** How many times as many callers as then came in the last hour. 1 if that is not known, or there were too few. */
function growthSince(now: number, then: number, history: History): number {
  let [today, before] = [0, 0]
  for (let minute = 1; minute <= growthMinutes; minute++) {
    const [one, other] = [history.at(now - minute * minuteMs), history.at(then - minute * minuteMs)]
    if (one === undefined || other === undefined) continue
    today += one.asked
    before += other.asked
  }
  return before < fewCallers ? 1 : Math.min(2, Math.max(0.5, today / before))
}

/** So many days ago, when clocks of the time zone showed the same time. */
function sameTime(now: number, days: number, timeZone: string): number {
  const then = now - days * dayMs
  return then + offsetOf(now, timeZone) - offsetOf(then, timeZone)
}

/** How far clocks of the time zone are ahead of UTC, in ms. */
function offsetOf(wallMs: number, timeZone: string): number {
  if (timeZone === 'UTC') return 0
  const format = new Intl.DateTimeFormat('en-GB', { timeZone, timeZoneName: 'longOffset' })
  const name = format.formatToParts(wallMs).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const [, sign, hours = 0, minutes = 0] = /GMT([+-])(\d\d):?(\d\d)?/.exec(name) ?? []
  return (sign === '-' ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * minuteMs
}
