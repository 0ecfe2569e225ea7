/**
 * Limits calls per second and concurrent calls. Calls start in order of arrival, with two exceptions: priority calls go first
 * and have part of the concurrency reserved for them, and one group of hanging calls cannot use up the concurrency.
 */
import type { Clock } from '../../../src/contracts/clock.js'

interface RateLimits {
  readonly perSecond: number
  readonly maxConcurrent: number
}

/** What determines when a call starts. */
export interface LimitedCall {
  /** Takes precedence over all queued calls without priority. */
  readonly priority?: boolean
  /** With `priority`: nobody waits for it. It does not end a pause between calls with priority. */
  readonly unattended?: boolean
  /**
   * Group of calls that may hang together, such as those for one build. A group can use only part of the concurrency, so
   * that the others continue. Ignored if the call has priority. Default: none.
   */
  readonly group?: string | undefined
}

interface Waiting {
  readonly call: LimitedCall
  readonly arrival: number
  readonly start: () => void
}

/** Share of `maxConcurrent` reserved for calls with priority. */
const reservedShare = 1 / 8
/** Share of the rest reserved for calls without a group. */
const ungroupedShare = 1 / 4

export class RateLimiter {
  readonly #clock: Clock
  readonly #limits: RateLimits
  readonly #normalLimit: number
  readonly #groupedLimit: number
  /** The calls that may start now, limited to one second's worth. */
  readonly #tokens: TokenBucket
  #running = 0
  #priorityRunning = 0
  #priorityEndedAt = -Infinity
  #groupedRunning = 0
  /** Number of running calls by group; contains no zeros. */
  readonly #runningByGroup = new Map<string, number>()
  #isScheduled = false
  #arrivals = 0
  readonly #priorityQueue = new Set<Waiting>()
  /** Number of calls in it for which somebody waits. */
  #attendedWaiting = 0
  /** Waiting calls without priority, by group; contains no empty queues. */
  readonly #queues = new Map<string | undefined, Set<Waiting>>()

  constructor(clock: Clock, limits: RateLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#normalLimit = shareOf(limits.maxConcurrent, 1 - reservedShare)
    this.#groupedLimit = shareOf(this.#normalLimit, 1 - ungroupedShare)
    const { perSecond } = limits
    this.#tokens = new TokenBucket({ burst: perSecond, perSecond }, clock.elapsed())
  }

  /** Returns true if the call may start immediately; the caller must then call `done` when it ends. */
  tryStart(call: LimitedCall): boolean {
    // Calls that wait only for a token must not be overtaken.
    if (this.#priorityQueue.size > 0 || (!call.priority && this.#nextWaiting())) return false
    return this.#start(call)
  }

  /**
   * Calls `start` once the call may start; the caller must call `done` when it ends. The returned function removes the call
   * from the queue.
   */
  enqueue(call: LimitedCall, start: () => void): () => void {
    const waiting = { call, arrival: ++this.#arrivals, start }
    const queue = call.priority ? this.#priorityQueue : (this.#queues.get(call.group) ?? new Set())
    queue.add(waiting)
    if (isAttended(call)) this.#attendedWaiting++
    if (!call.priority) this.#queues.set(call.group, queue)
    this.#startQueued()
    return () => this.#dequeue(waiting)
  }

  /** Call when a call has ended. */
  done(call: LimitedCall): void {
    this.#count(call, -1)
    if (this.#queues.size + this.#priorityQueue.size > 0) this.#startQueued()
  }

  /** How long no call with priority for which somebody waits has been running or waiting, in ms. */
  get priorityPauseMs(): number {
    if (this.#priorityRunning + this.#attendedWaiting > 0) return 0
    return this.#clock.elapsed() - this.#priorityEndedAt
  }

  #count(call: LimitedCall, change: 1 | -1): void {
    const { priority, group } = call
    this.#running += change
    if (isAttended(call)) {
      this.#priorityRunning += change
      this.#priorityEndedAt = this.#clock.elapsed()
    }
    if (priority || group === undefined) return
    this.#groupedRunning += change
    const running = (this.#runningByGroup.get(group) ?? 0) + change
    if (running > 0) this.#runningByGroup.set(group, running)
    else this.#runningByGroup.delete(group)
  }

  #hasCapacity({ priority, group }: LimitedCall): boolean {
    if (priority) return this.#running < this.#limits.maxConcurrent
    if (this.#running >= this.#normalLimit) return false
    if (group === undefined) return true
    // A group gets at most half of what the other groups leave, so a few groups of hanging calls cannot use up everything.
    return (this.#runningByGroup.get(group) ?? 0) < this.#groupedLimit - this.#groupedRunning
  }

  #start(call: LimitedCall): boolean {
    if (!this.#hasCapacity(call) || !this.#tokens.take(this.#clock.elapsed())) return false
    this.#count(call, 1)
    return true
  }

  #startQueued(): void {
    let next = this.#nextWaiting()
    for (; next && this.#start(next.call); next = this.#nextWaiting()) {
      this.#dequeue(next)
      next.start()
    }
    // If calls are waiting for capacity instead of a token, `done` starts them.
    if (!next || this.#isScheduled) return
    this.#isScheduled = true
    this.#clock.after(Math.max(1, this.#tokens.msUntilNext), () => {
      this.#isScheduled = false
      this.#startQueued()
    })
  }

  /** The call to start next, or undefined if none has the capacity. */
  #nextWaiting(): Waiting | undefined {
    const [urgent] = this.#priorityQueue
    if (urgent) return this.#hasCapacity(urgent.call) ? urgent : undefined
    let next: Waiting | undefined
    for (const [first] of this.#queues.values()) {
      const isEarlier = first && (!next || first.arrival < next.arrival)
      if (isEarlier && this.#hasCapacity(first.call)) next = first
    }
    return next
  }

  #dequeue(waiting: Waiting): void {
    const { priority, group } = waiting.call
    if (priority) {
      if (this.#priorityQueue.delete(waiting) && isAttended(waiting.call)) this.#attendedWaiting--
      return
    }
    const queue = this.#queues.get(group)
    queue?.delete(waiting)
    if (queue?.size === 0) this.#queues.delete(group)
  }
}

/** At most `burst` tokens, of which `perSecond` are added in a second. `now` is in elapsed ms. */
export class TokenBucket {
  readonly #limits: TokenLimits
  #tokens: number
  #refilledAt: number

  constructor(limits: TokenLimits, now: number) {
    this.#limits = limits
    this.#tokens = limits.burst
    this.#refilledAt = now
  }

  has(now: number): boolean {
    this.#refill(now)
    return this.#tokens >= 1
  }

  take(now: number): boolean {
    if (!this.has(now)) return false
    this.#tokens--
    return true
  }

  isFull(now: number): boolean {
    this.#refill(now)
    return this.#tokens === this.#limits.burst
  }

  /** As of the last look at it. */
  get msUntilNext(): number {
    return ((1 - this.#tokens) / this.#limits.perSecond) * 1_000
  }

  #refill(now: number): void {
    const { burst, perSecond } = this.#limits
    this.#tokens = Math.min(burst, this.#tokens + ((now - this.#refilledAt) / 1_000) * perSecond)
    this.#refilledAt = now
  }
}

interface TokenLimits {
  readonly burst: number
  readonly perSecond: number
}

function isAttended({ priority, unattended }: LimitedCall): boolean {
  return priority === true && !unattended
}

function shareOf(limit: number, share: number): number {
  return Math.max(1, Math.ceil(limit * share))
}
