/**
 * Clock: the only source of time and randomness. All code except the adapters uses a Clock, so that a test or simulation can
 * control both. `systemClock` is the real one.
 */
import { randomBytes } from 'node:crypto'

export interface Clock {
  /** Wall-clock time in ms since 1970, for records and displays. May jump forwards or backwards. */
  now(): number
  /** Monotonic time in ms from an arbitrary start, for durations and timeouts. */
  elapsed(): number
  /** Calls `fn` once after `ms`. The returned function cancels the timer. */
  after(ms: number, fn: () => void): () => void
  /** Returns `count` cryptographically secure random bytes. */
  randomBytes(count: number): Uint8Array
}

const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = realTime((timer) => timer)

/** The system clock, except that its timers do not keep the process from exiting. */
export const backgroundClock: Clock = realTime((timer) => timer.unref())

function realTime(started: (timer: NodeJS.Timeout) => NodeJS.Timeout): Clock {
  return Object.freeze({
    now: () => Date.now(),
    elapsed: () => performance.now(),
    after(ms: number, fn: () => void) {
      let timer: NodeJS.Timeout
      // setTimeout fires immediately if the delay exceeds its maximum, so longer delays are split.
      const wait = (leftMs: number) => {
        timer = started(
          leftMs > longestTimerMs
            ? setTimeout(() => wait(leftMs - longestTimerMs), longestTimerMs)
            : setTimeout(fn, leftMs),
        )
      }
      wait(ms)
      return () => clearTimeout(timer)
    },
    randomBytes: (count: number) => randomBytes(count),
  })
}
