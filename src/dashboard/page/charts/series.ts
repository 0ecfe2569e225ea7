/** What charts draw, from the minutes that a host has kept. Pure. */
import type { ActivityMinute } from '../../../contracts/observer.js'

export interface Series {
  readonly name: string
  /** A variable of the style sheet. */
  readonly colour: string
  readonly isDashed?: boolean
  /** Undefined where there is nothing to say. */
  readonly pick: (minute: ActivityMinute) => number | undefined
}

const shownMinutes = 60
const minuteMs = 60_000

/** The last hour, one place for each minute: undefined for those that the host did not record. */
function slotsOf(minutes: readonly ActivityMinute[], now: number): readonly (ActivityMinute | undefined)[] {
  const recorded = new Map(minutes.map((minute) => [minute.at, minute]))
  return timesUntil(now).map((at) => recorded.get(at))
}

/** When each of the last 60 minutes began, wall time in ms. */
export function timesUntil(now: number): readonly number[] {
  const last = Math.floor(now / minuteMs) * minuteMs
  return Array.from({ length: shownMinutes }, (_, index) => last - (shownMinutes - 1 - index) * minuteMs)
}

/** For each series a number for each minute; null where nothing is known, which a chart leaves out. */
export function valuesOf(
  minutes: readonly ActivityMinute[],
  now: number,
  series: readonly Series[],
): readonly (readonly (number | null)[])[] {
  const slots = slotsOf(minutes, now)
  return series.map(({ pick }) => slots.map((minute) => (minute && pick(minute)) ?? null))
}

/** Each series on top of those before it. */
export function stacked(values: readonly (readonly (number | null)[])[]): readonly (readonly (number | null)[])[] {
  const sums: (number | null)[][] = []
  for (const one of values) {
    const below = sums.at(-1)
    sums.push(one.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0))))
  }
  return sums
}
