/**
 * Bounds how many calls are made a second and at once. Who comes first goes first, but for those that go ahead: they wait behind
 * none of the others, and some may be made when as many of the others as may be are under way.
 */
import type { Clock } from '../../../src/contracts/clock.js'

export interface RateLimits {
  readonly perSecond: number
  readonly atOnce: number
}

/** Of those that may be made at once: kept for calls that go ahead. */
const keptShare = 1 / 8

export class RateLimiter {
  readonly #clock: Clock
  readonly #limits: RateLimits
  /** Calls that may start now; a quiet second fills it. */
  #left: number
  #countedAt: number
  #underway = 0
  #isPlanned = false
  readonly #ahead = new Set<() => void>()
  readonly #waiting = new Set<() => void>()

  constructor(clock: Clock, limits: RateLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#left = limits.perSecond
    this.#countedAt = clock.elapsed()
  }

  /** True when the call may start at once; it must be followed by `done`. */
  tryStart(ahead: boolean): boolean {
    return this.#ahead.size === 0 && (ahead || this.#waiting.size === 0) && this.#start(ahead)
  }

  /** Calls `start` when the call may start, unless the returned function is called before. */
  wait(ahead: boolean, start: () => void): () => void {
    const queue = ahead ? this.#ahead : this.#waiting
    queue.add(start)
    this.#serve()
    return () => queue.delete(start)
  }

  done(): void {
    this.#underway--
    if (this.#waiting.size + this.#ahead.size > 0) this.#serve()
  }

  #hasRoom(ahead: boolean): boolean {
    const { atOnce } = this.#limits
    return this.#underway < (ahead ? atOnce : atOnce - Math.floor(atOnce * keptShare))
  }

  #start(ahead: boolean): boolean {
    if (!this.#hasRoom(ahead)) return false
    const { perSecond } = this.#limits
    if (this.#left < 1) {
      const now = this.#clock.elapsed()
      this.#left = Math.min(perSecond, this.#left + ((now - this.#countedAt) / 1_000) * perSecond)
      this.#countedAt = now
      if (this.#left < 1) return false
    }
    this.#left--
    this.#underway++
    return true
  }

  #serve(): void {
    this.#startSome(this.#ahead, true)
    if (this.#ahead.size === 0) this.#startSome(this.#waiting, false)
    const mayStartSoon =
      (this.#ahead.size > 0 && this.#hasRoom(true)) || (this.#waiting.size > 0 && this.#hasRoom(false))
    // Where it is room that lacks, whoever is done makes some.
    if (!mayStartSoon || this.#isPlanned) return
    this.#isPlanned = true
    this.#clock.after(Math.max(1, ((1 - this.#left) / this.#limits.perSecond) * 1_000), () => {
      this.#isPlanned = false
      this.#serve()
    })
  }

  #startSome(queue: Set<() => void>, ahead: boolean): void {
    for (const start of queue) {
      if (!this.#start(ahead)) return
      queue.delete(start)
      start()
    }
  }
}
