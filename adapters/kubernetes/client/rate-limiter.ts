/**
 * Limits calls per second and concurrent calls. Calls start in order of arrival, except that priority calls start before all
 * others and have some of the concurrency reserved for them.
 */
import type { Clock } from '../../../src/contracts/clock.js'

export interface RateLimits {
  readonly perSecond: number
  readonly maxConcurrent: number
}

/** Share of `maxConcurrent` reserved for calls with priority. */
const reservedShare = 1 / 8

export class RateLimiter {
  readonly #clock: Clock
  readonly #limits: RateLimits
  /** Token bucket: the number of calls that may start now, limited to one second's worth. */
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

  /** Returns true if the call may start immediately; the caller must then call `done` when it ends. */
  tryStart(priority: boolean): boolean {
    return this.#priorityQueue.size === 0 && (priority || this.#queue.size === 0) && this.#start(priority)
  }

  /**
   * Calls `start` once the call may start; the caller must call `done` when it ends. The returned function removes the call
   * from the queue.
   */
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
    // If the call is waiting for capacity instead, `done` starts it.
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
