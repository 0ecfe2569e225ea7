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
/** A bar of a chart is not wider than a fifth of it. */
const fewestMinutes = 5
const minuteMs = 60_000

/** One place for each minute: undefined for those that the host did not record. */
function slotsOf(minutes: readonly ActivityMinute[], now: number): readonly (ActivityMinute | undefined)[] {
  const recorded = new Map(minutes.map((minute) => [minute.at, minute]))
  return timesUntil(now, minutes[0]?.at).map((at) => recorded.get(at))
}

/** When each minute began, wall time in ms: those of the last hour, from the first that is recorded on. */
export function timesUntil(now: number, first = 0): readonly number[] {
  const last = Math.floor(now / minuteMs) * minuteMs
  const length = Math.min(shownMinutes, Math.max(fewestMinutes, (last - first) / minuteMs + 1))
  return Array.from({ length }, (_, index) => last - (length - 1 - index) * minuteMs)
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
