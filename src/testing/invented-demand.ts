/** Invents the demand of some days. Pure: a seed determines it. */
import { FleetError } from '../contracts/errors.js'
import { aNumber, aString, checkOptions, required } from '../contracts/option-checks.js'
import { dayMs, dayOf, DemandCount, type DemandRecording, minuteMs, startOfDay } from '../rules/demand/demand-day.js'
import { shown } from '../rules/validation/problem.js'
import { seededRandom } from './virtual-clock.js'

/**
 * `evening-peak`: quiet nights, some at noon, most at half past eight in the evening. `flat`: the same all day. `launch-day`: an evening peak of a
 * twentieth on the days before, and on the last day a rush at 18:00 that wears off. `tournament`: an evening peak in which a third comes within a
 * minute of each half hour from 18:00 to 22:00.
 */
export const demandShapes = ['evening-peak', 'flat', 'launch-day', 'tournament'] as const
export type DemandShape = (typeof demandShapes)[number]

export interface InventedDemandOptions {
  readonly shape: DemandShape
  /** How many sessions the last day has. The days before have from 15 % less to 15 % more. */
  readonly sessions: number
  /** Mean length of a session, which takes from half to one and a half times as long. Default: 1,200. */
  readonly sessionSeconds?: number
  /** Mean time until a server is standing by, which is from half to one and a half times as long. Default: 30. */
  readonly startSeconds?: number
  /** The last day. Default: `2026-01-30`, a Friday. */
  readonly day?: string
  /** How many days. Default: 9. */
  readonly days?: number
  /** Default 1. */
  readonly seed?: number
}

const minutesPerDay = dayMs / minuteMs
const maxSessions = 1_000_000

/** Throws `invalid`, naming the option. */
export function inventDemand(options: InventedDemandOptions): DemandRecording {
  checkOptions<InventedDemandOptions>('inventDemand', options, {
    shape: required(aString),
    sessions: required(aNumber),
    ...{ sessionSeconds: aNumber, startSeconds: aNumber, day: aString, days: aNumber, seed: aNumber },
  })
  const { shape, sessions, sessionSeconds = 1_200, startSeconds = 30, day = '2026-01-30', days = 9, seed = 1 } = options
  if (!demandShapes.includes(shape))
    throw invalid(`shape must be one of ${demandShapes.join(', ')}, but is ${shown(shape)}`)
  if (!Number.isInteger(sessions) || sessions < 1 || sessions > maxSessions)
    throw invalid(`sessions must be a whole number from 1 to ${maxSessions}, but is ${shown(sessions)}`)
  if (!Number.isInteger(days) || days < 1 || days > 31)
    throw invalid(`days must be from 1 to 31, but is ${shown(days)}`)
  if (!/^\d{4}-\d\d-\d\d$/.test(day) || !Number.isFinite(startOfDay(day)))
    throw invalid(`day must be a date such as 2026-01-30, but is ${shown(day)}`)
  const random = seededRandom(seed)
  const first = startOfDay(day) - (days - 1) * dayMs
  const counts = Array.from({ length: days }, (_, index) => new DemandCount(dayOf(first + index * dayMs)))
  const changes = new Map<number, number>()
  const change = (minute: number, by: number) => changes.set(minute, (changes.get(minute) ?? 0) + by)
  for (const [index, count] of counts.entries()) {
    const isLast = index === days - 1
    const total = isLast ? sessions : Math.round(sessions * pastShare(shape) * (0.85 + 0.3 * random()))
    for (const minute of minutesOf(total, weightsOf(shape, isLast), random)) {
      const lengthMs = sessionSeconds * 1_000 * (0.5 + random())
      count.asked(minute)
      count.waited(0)
      count.started(startSeconds * 1_000 * (0.5 + random()))
      const begin = index * minutesPerDay + minute
      const end = begin + Math.ceil(lengthMs / minuteMs)
      counts[Math.floor(end / minutesPerDay)]?.sessionEnded(end % minutesPerDay, lengthMs)
      change(begin, 1)
      change(end, -1)
    }
  }
  let inUse = 0
  for (let minute = 0; minute < days * minutesPerDay; minute++) {
    inUse += changes.get(minute) ?? 0
    counts[Math.floor(minute / minutesPerDay)]?.inUse(minute % minutesPerDay, inUse)
  }
  return { build: { namespace: 'default', name: shape }, days: counts.map((count) => count.read()) }
}

function invalid(message: string): FleetError {
  return new FleetError('invalid', `inventDemand: ${message}`)
}

function pastShare(shape: DemandShape): number {
  return shape === 'launch-day' ? 0.05 : 1
}

/** How many come in each minute of the day, in proportion. */
function weightsOf(shape: DemandShape, isLast: boolean): readonly number[] {
  return Array.from({ length: minutesPerDay }, (_, minute) => {
    const hour = minute / 60
    if (shape === 'flat') return 1
    if (shape === 'launch-day' && isLast) return 0.05 + (hour < 18 ? 0 : Math.exp(-(hour - 18) / 1.5))
    return evening(hour)
  }).map((weight, minute, all) => {
    if (shape !== 'tournament') return weight
    const isBegin = minute >= 18 * 60 && minute <= 22 * 60 && minute % 30 === 0
    const rest = all.reduce((sum, one) => sum + one, 0)
    return isBegin ? weight + rest / 2 / 9 : weight
  })
}

function evening(hour: number): number {
  return 0.06 + bell(hour, 20.5, 2.2) + 0.3 * bell(hour, 13, 2)
}

function bell(hour: number, centre: number, width: number): number {
  const distance = Math.min(Math.abs(hour - centre), 24 - Math.abs(hour - centre))
  return Math.exp(-((distance / width) ** 2))
}

/** The minute of each of `total` sessions, in order. */
function* minutesOf(total: number, weights: readonly number[], random: () => number): Generator<number> {
  const sum = weights.reduce((all, weight) => all + weight, 0)
  const shares = Array.from({ length: total }, () => random() * sum).toSorted((a, b) => a - b)
  let [minute, reached] = [0, weights[0] ?? 0]
  for (const share of shares) {
    while (share > reached && minute < weights.length - 1) reached += weights[++minute] ?? 0
    yield minute
  }
}
