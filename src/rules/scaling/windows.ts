/**
 * Windows of time, each from the times of one cron expression to those of another, in a time zone. Pure: cron expressions, time zones and
 * the nights of clock changes are the library's work.
 */
import { Cron } from 'croner'

/** Open from each time of `start` to the next of `end`. Cron expressions with five fields: minute, hour, day, month, day of the week. */
export interface CronWindow {
  readonly start: string
  readonly end: string
}

export interface WindowState {
  readonly isOpen: boolean
  /** Wall time in ms until which it stays so. Infinity if it never changes. */
  readonly until: number
}

/**
 * Whether the window is open at a time: whether its last start came after its last end. With the same expression for both, it always is. A time
 * that a clock change skips counts as the first one after it, and one that occurs twice as the first of the two.
 */
export function windowAt({ start, end }: CronWindow, timeZone: string, now: number): WindowState {
  const [starts, ends] = [timesAround(start, timeZone, now), timesAround(end, timeZone, now)]
  return { isOpen: starts.last > ends.last || start === end, until: Math.min(starts.next, ends.next) }
}

const form = 'must be a cron expression with five fields, such as "0 18 * * *"'

/** Returns what is wrong with the expression, or undefined. */
export function cronProblem(expression: string): string | undefined {
  try {
    // The library takes a date, too.
    if (expression.trim().split(/\s+/).length !== 5) return `${form}: it must have five fields`
    return Number.isFinite(timesAround(expression, 'UTC', 0).next) ? undefined : 'names a time that never comes'
  } catch (error) {
    return `${form}: ${reasonOf(error)}`
  }
}

/** Returns what is wrong with the time zone, or undefined. */
export function timeZoneProblem(timeZone: string): string | undefined {
  try {
    timesAround('0 0 * * *', timeZone, 0)
    return undefined
  } catch {
    return 'must be the name of a time zone, such as "Europe/Berlin" or "UTC"'
  }
}

/** The last time until now, and the next one. */
function timesAround(
  expression: string,
  timezone: string,
  now: number,
): { readonly last: number; readonly next: number } {
  const cron = new Cron(expression, { mode: '5-part', paused: true, timezone })
  // The library counts whole seconds, and its last time is before the one that it is given.
  const last = cron.previousRuns(2, new Date(now + 1_000)).find((time) => time.getTime() <= now)
  const next = cron.nextRun(new Date(now))
  return { last: last?.getTime() ?? -Infinity, next: next?.getTime() ?? Infinity }
}

function reasonOf(error: unknown): string {
  return String(error).replace(/^.*CronPattern: |\.$/g, '')
}
