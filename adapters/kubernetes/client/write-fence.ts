/**
 * Blocks writes once this host's lease has expired. The lease is checked against the clock immediately before each write is
 * sent. A timer alone is not enough: after being suspended, a process may handle responses before its timers fire.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'

/**
 * A point in time on both clocks. Both are needed: on some systems the monotonic clock stops during suspend, and the wall
 * clock may be set back.
 */
export interface TimePoint {
  readonly elapsed: number
  readonly now: number
}

export class WriteFence {
  readonly #clock: Clock
  /** When the lease ends. Undefined if no lease is used and something else elects the leader. */
  #end: TimePoint | undefined
  #onExpired = () => {}
  #term = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Another number each time that writes are allowed again after the fence was closed. */
  get term(): number {
    return this.#term
  }

  timePoint(): TimePoint {
    return { elapsed: this.#clock.elapsed(), now: this.#clock.now() }
  }

  /** How much of `ms`, counted from `start`, remains. */
  remainingMs(start: TimePoint, ms: number): number {
    const { elapsed, now } = this.timePoint()
    return ms - Math.max(elapsed - start.elapsed, now - start.now)
  }

  /** Allows writes until `ms` after `start`. The first check after that time calls `onExpired`. */
  open(start: TimePoint, ms: number, onExpired: () => void): void {
    if (this.#end === undefined || this.#end.elapsed === -Infinity) this.#term++
    this.#end = { elapsed: start.elapsed + ms, now: start.now + ms }
    this.#onExpired = onExpired
  }

  close(): void {
    this.#end = { elapsed: -Infinity, now: -Infinity }
    this.#onExpired = () => {}
  }

  /** Returns the error with which to reject a write, or undefined if writes are allowed. */
  check(): FleetError | undefined {
    if (!this.#end) return undefined
    if (this.#clock.elapsed() < this.#end.elapsed && this.#clock.now() < this.#end.now) return undefined
    const onExpired = this.#onExpired
    this.close()
    onExpired()
    return new FleetError('not-leader', 'this host does not lead the fleet: it does not hold the lease')
  }
}
