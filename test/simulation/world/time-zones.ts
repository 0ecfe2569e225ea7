/** The time zones of the simulation and the nights of their clock changes, from a table of its own instead of the library that the fleet uses. */

const minuteMs = 60_000
const dayMs = 1_440 * minuteMs

/** A moment at which the clocks of a time zone are put forward or back. */
export interface ClockChange {
  readonly timeZone: string
  readonly atMs: number
  /** How far the clocks are ahead of UTC until then and from then on. */
  readonly beforeMs: number
  readonly afterMs: number
}

export const timeZones = ['UTC', 'Europe/Berlin', 'America/St_Johns'] as const

const berlin = { timeZone: 'Europe/Berlin', winterMs: 60 * minuteMs, summerMs: 120 * minuteMs }
const stJohns = { timeZone: 'America/St_Johns', winterMs: -210 * minuteMs, summerMs: -150 * minuteMs }

export const clockChanges = {
  forward: [putForward(berlin, '2024-03-31T01:00Z'), putForward(stJohns, '2024-03-10T05:30Z')],
  back: [putBack(berlin, '2024-10-27T01:00Z'), putBack(stJohns, '2024-11-03T04:30Z')],
} as const

/** In the order of time. */
const all = [...clockChanges.forward, ...clockChanges.back].toSorted((a, b) => a.atMs - b.atMs)

/** How far the clocks of a time zone are ahead of UTC. */
export function offsetMs(timeZone: string, wallMs: number): number {
  const changes = all.filter((change) => change.timeZone === timeZone)
  return changes.findLast(({ atMs }) => atMs <= wallMs)?.afterMs ?? changes[0]?.beforeMs ?? 0
}

/** When clocks of a time zone last showed this time of day, in minutes. Of two times that day the first counts; a skipped one is that of the change. */
export function lastTime(timeZone: string, minuteOfDay: number, wallMs: number): number {
  const today = Math.floor((wallMs + offsetMs(timeZone, wallMs)) / dayMs)
  const times = [today, today - 1, today - 2].map((day) => timeShowing(timeZone, day * dayMs + minuteOfDay * minuteMs))
  return times.find((ms) => ms <= wallMs) ?? -Infinity
}

/** `shownMs`: the time that clocks show, as if they were in UTC. */
function timeShowing(timeZone: string, shownMs: number): number {
  const changes = all.filter((change) => change.timeZone === timeZone)
  const offsets = changes.flatMap(({ beforeMs, afterMs }) => [beforeMs, afterMs])
  const times = (changes.length === 0 ? [0] : offsets).map((offset) => shownMs - offset)
  const shown = times.filter((ms) => ms + offsetMs(timeZone, ms) === shownMs)
  if (shown.length > 0) return Math.min(...shown)
  const skipping = changes.find(({ atMs, beforeMs, afterMs }) => atMs + beforeMs <= shownMs && shownMs < atMs + afterMs)
  return skipping?.atMs ?? Infinity
}

function putForward({ timeZone, winterMs, summerMs }: typeof berlin, at: string): ClockChange {
  return { timeZone, atMs: Date.parse(at), beforeMs: winterMs, afterMs: summerMs }
}

function putBack({ timeZone, winterMs, summerMs }: typeof berlin, at: string): ClockChange {
  return { timeZone, atMs: Date.parse(at), beforeMs: summerMs, afterMs: winterMs }
}
