/**
 * Measures elapsed time, minus the time during which the host could not receive heartbeats because it was suspended or its
 * event loop was blocked. Used for heartbeat timeouts, because heartbeats sent during such a time are processed only
 * afterwards.
 */
import type { Clock } from '../../contracts/clock.js'

export class ResponsiveClock {
  readonly #clock: Pick<Clock, 'elapsed'>
  #excludedMs = 0

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** Returns the time in ms from an arbitrary start. */
  now(): number {
    return this.#clock.elapsed() - this.#excludedMs
  }

  /** Records that the host was unresponsive for `ms`. */
  exclude(ms: number): void {
    this.#excludedMs += ms
  }
}
