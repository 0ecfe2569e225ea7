/**
 * The only door to time and chance. Everything above the adapters asks a Clock, so that a test or a simulation
 * decides what time it is and what is drawn; `systemClock` is the real one.
 */
import { randomBytes } from 'node:crypto'

export interface Clock {
  /** Wall time in milliseconds since 1970. For records and people: it may jump. */
  now(): number
  /** Milliseconds since some fixed moment. For limits and durations: it never goes back. */
  elapsed(): number
  /** Calls `fn` once, `ms` from now, unless the returned function is called before. */
  after(ms: number, fn: () => void): () => void
  /** `count` bytes that nobody can guess. */
  randomBytes(count: number): Uint8Array
}

const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after(ms: number, fn: () => void) {
    let timer: NodeJS.Timeout
    // setTimeout fires at once beyond its longest wait: a longer one takes several.
    const wait = (leftMs: number) => {
      timer =
        leftMs > longestTimerMs
          ? setTimeout(() => wait(leftMs - longestTimerMs), longestTimerMs)
          : setTimeout(fn, leftMs)
    }
    wait(ms)
    return () => clearTimeout(timer)
  },
  randomBytes: (count: number) => randomBytes(count),
})
