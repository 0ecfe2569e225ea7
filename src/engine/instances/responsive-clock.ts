/**
 * Elapsed time minus the time in which the host could not receive heartbeats, because it was suspended or its event loop was
 * blocked. Heartbeat timeouts use it, because heartbeats sent during that time are processed only afterwards.
 */
import type { Clock } from '../../contracts/clock.js'

export class ResponsiveClock {
  readonly #clock: Pick<Clock, 'elapsed'>
  #excludedMs = 0

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  /** In ms, from an arbitrary start. */
  now(): number {
    return this.#clock.elapsed() - this.#excludedMs
  }

  /** Records that the host was unresponsive for `ms`. */
  exclude(ms: number): void {
    this.#excludedMs += ms
  }
}
