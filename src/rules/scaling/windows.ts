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
 * Whether the window is open at a time: whether its end comes before its next start. A time that a clock change skips counts as the first
 * one after it, and one that occurs twice as the first of the two.
 */
export function windowAt({ start, end }: CronWindow, timeZone: string, now: number): WindowState {
  const starts = nextTime(start, timeZone, now)
  const ends = nextTime(end, timeZone, now)
  return { isOpen: ends < starts, until: Math.min(starts, ends) }
}

/** Returns what is wrong with the expression, or undefined. */
export function cronProblem(expression: string): string | undefined {
  try {
    return Number.isFinite(nextTime(expression, 'UTC', 0)) ? undefined : 'names a time that never comes'
  } catch (error) {
    return `must be a cron expression with five fields, such as "0 18 * * *": ${reasonOf(error)}`
  }
}

/** Returns what is wrong with the time zone, or undefined. */
export function timeZoneProblem(timeZone: string): string | undefined {
  try {
    nextTime('0 0 * * *', timeZone, 0)
    return undefined
  } catch {
    return 'must be the name of a time zone, such as "Europe/Berlin" or "UTC"'
  }
}

function nextTime(expression: string, timezone: string, now: number): number {
  const cron = new Cron(expression, { mode: '5-part', paused: true, timezone })
  return cron.nextRun(new Date(now))?.getTime() ?? Infinity
}

function reasonOf(error: unknown): string {
  return String(error).replace(/^.*CronPattern: |\.$/g, '')
}
