/**
 * Blocks writes once this host's lease has expired. Checked against the clock right before each write is sent: a process that
 * was suspended may read responses before its timers fire, so a timer alone cannot stop it.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'

/**
 * A point in time by both clocks: the monotonic clock stops during suspend on some systems, and the wall clock may be set
 * back.
 */
export interface TimePoint {
  readonly elapsed: number
  readonly now: number
}

export class WriteFence {
  readonly #clock: Clock
  /** Undefined: no lease is in use, and something else elects the leader. */
  #end: TimePoint | undefined
  #onExpired = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  timePoint(): TimePoint {
    return { elapsed: this.#clock.elapsed(), now: this.#clock.now() }
  }

  /** What is left of `ms` counted from `start`. */
  remainingMs(start: TimePoint, ms: number): number {
    const { elapsed, now } = this.timePoint()
    return ms - Math.max(elapsed - start.elapsed, now - start.now)
  }

  /** Allows writes until `ms` after `start`. The first check after that calls `onExpired`. */
  open(start: TimePoint, ms: number, onExpired: () => void): void {
    this.#end = { elapsed: start.elapsed + ms, now: start.now + ms }
    this.#onExpired = onExpired
  }

  close(): void {
    this.#end = { elapsed: -Infinity, now: -Infinity }
    this.#onExpired = () => {}
  }

  /** The error to reject a write with; undefined when writes are allowed. */
  check(): FleetError | undefined {
    if (!this.#end) return undefined
    if (this.#clock.elapsed() < this.#end.elapsed && this.#clock.now() < this.#end.now) return undefined
    const onExpired = this.#onExpired
    this.close()
    onExpired()
    return new FleetError('not-leader', 'this host does not lead the fleet: it does not hold the lease')
  }
}
