/**
 * Measures elapsed time, minus the time during which the host could not receive heartbeats because it was suspended or its
 * event loop was blocked. Used for heartbeat timeouts, because heartbeats sent during such a time are processed only
 * afterwards.
 */
import type { Clock } from '../../contracts/clock.js'

export const tickMs = 1_000
/** If a tick is late by more than this, the host was unresponsive. */
export const lateTickMs = 2_000

export class ResponsiveClock {
  readonly #clock: Pick<Clock, 'elapsed'>
  #excludedMs = 0
  #atLastTick = 0

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
    this.#atLastTick = clock.elapsed()
  }

  /** Returns the time in ms from an arbitrary start. */
  now(): number {
    return this.#clock.elapsed() - this.#excludedMs
  }

  /**
   * The time at the last tick. While a suspension has not been noticed yet, `now` includes it, but this does not: the heartbeats that
   * waited meanwhile may be handled before the tick.
   */
  get atLastTick(): number {
    return this.#atLastTick
  }

  /** Whether the next tick is late: the host has been suspended, and what it hears now may have waited. */
  get isLate(): boolean {
    return this.now() - this.#atLastTick > tickMs + lateTickMs
  }

  /** Records a tick before which the host was unresponsive for `excludedMs`. */
  tick(excludedMs: number): void {
    this.#excludedMs += excludedMs
    this.#atLastTick = this.now()
  }
}
