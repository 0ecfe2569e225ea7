/** Bounds how many calls are made a second and at once. Who comes first goes first. */
import type { Clock } from '../../src/clock.js'

export interface PaceLimits {
  readonly perSecond: number
  readonly atOnce: number
}

export class Pace {
  readonly #clock: Clock
  readonly #limits: PaceLimits
  /** Calls that may start now; a quiet second fills it. */
  #left: number
  #countedAt: number
  #underway = 0
  #isPlanned = false
  readonly #waiting = new Set<() => void>()

  constructor(clock: Clock, limits: PaceLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#left = limits.perSecond
    this.#countedAt = clock.elapsed()
  }

  /** True when the call may start at once; it must be followed by `done`. */
  tryStart(): boolean {
    return this.#waiting.size === 0 && this.#start()
  }

  /** Calls `start` when the call may start, unless the returned function is called before. */
  wait(start: () => void): () => void {
    this.#waiting.add(start)
    this.#serve()
    return () => this.#waiting.delete(start)
  }

  done(): void {
    this.#underway--
    if (this.#waiting.size > 0) this.#serve()
  }

  #start(): boolean {
    if (this.#underway >= this.#limits.atOnce) return false
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
    for (const start of this.#waiting) {
      if (!this.#start()) break
      this.#waiting.delete(start)
      start()
    }
    if (this.#waiting.size === 0 || this.#isPlanned || this.#underway >= this.#limits.atOnce) return
    this.#isPlanned = true
    this.#clock.after(Math.max(1, ((1 - this.#left) / this.#limits.perSecond) * 1_000), () => {
      this.#isPlanned = false
      this.#serve()
    })
  }
}
