/**
 * Limits calls per second and concurrent calls. First come, first served, except that calls with priority overtake all
 * others and have some of the concurrency reserved for them.
 */
import type { Clock } from '../../../src/contracts/clock.js'

export interface RateLimits {
  readonly perSecond: number
  readonly maxConcurrent: number
}

/** Share of `maxConcurrent` that only calls with priority may use. */
const reservedShare = 1 / 8

export class RateLimiter {
  readonly #clock: Clock
  readonly #limits: RateLimits
  /** Token bucket: calls that may start now. It holds at most one second's worth. */
  #tokens: number
  #refilledAt: number
  #running = 0
  #isScheduled = false
  readonly #priorityQueue = new Set<() => void>()
  readonly #queue = new Set<() => void>()

  constructor(clock: Clock, limits: RateLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#tokens = limits.perSecond
    this.#refilledAt = clock.elapsed()
  }

  /** True when the call may start at once; `done` must follow. */
  tryStart(priority: boolean): boolean {
    return this.#priorityQueue.size === 0 && (priority || this.#queue.size === 0) && this.#start(priority)
  }

  /** Calls `start` once the call may start; `done` must follow. The returned function removes it from the queue. */
  enqueue(priority: boolean, start: () => void): () => void {
    const queue = priority ? this.#priorityQueue : this.#queue
    queue.add(start)
    this.#startQueued()
    return () => queue.delete(start)
  }

  done(): void {
    this.#running--
    if (this.#queue.size + this.#priorityQueue.size > 0) this.#startQueued()
  }

  #hasCapacity(priority: boolean): boolean {
    const { maxConcurrent } = this.#limits
    return this.#running < (priority ? maxConcurrent : maxConcurrent - Math.floor(maxConcurrent * reservedShare))
  }

  #start(priority: boolean): boolean {
    if (!this.#hasCapacity(priority)) return false
    const { perSecond } = this.#limits
    if (this.#tokens < 1) {
      const now = this.#clock.elapsed()
      this.#tokens = Math.min(perSecond, this.#tokens + ((now - this.#refilledAt) / 1_000) * perSecond)
      this.#refilledAt = now
      if (this.#tokens < 1) return false
    }
    this.#tokens--
    this.#running++
    return true
  }

  #startQueued(): void {
    this.#startFrom(this.#priorityQueue, true)
    if (this.#priorityQueue.size === 0) this.#startFrom(this.#queue, false)
    const waitsForToken =
      (this.#priorityQueue.size > 0 && this.#hasCapacity(true)) || (this.#queue.size > 0 && this.#hasCapacity(false))
    // A call that waits for capacity is started by `done`.
    if (!waitsForToken || this.#isScheduled) return
    this.#isScheduled = true
    this.#clock.after(Math.max(1, ((1 - this.#tokens) / this.#limits.perSecond) * 1_000), () => {
      this.#isScheduled = false
      this.#startQueued()
    })
  }

  #startFrom(queue: Set<() => void>, priority: boolean): void {
    for (const start of queue) {
      if (!this.#start(priority)) return
      queue.delete(start)
      start()
    }
  }
}
