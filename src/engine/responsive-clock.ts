/**
 * Measures elapsed time, minus the time during which the host could not receive heartbeats because it was suspended, its event
 * loop was blocked, or it was behind with its work. Used for heartbeat timeouts, because heartbeats sent during such a time are processed only
 * afterwards.
 */
import type { Clock } from '../contracts/clock.js'

export const tickMs = 1_000
/** If a tick is late by more than this, the host was unresponsive. */
export const lateTickMs = 2_000
/** If a tick is late by more than this, the host is behind: heartbeats may wait unread, on connections or to be accepted. */
export const behindMs = 250

export class ResponsiveClock {
  readonly #clock: Pick<Clock, 'elapsed'>
  #excludedMs = 0
  #atLastTick = 0
  #wasBehind = false

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

  /**
   * Records a tick that is late by `lateMs`. While the host is behind, and in the tick after that, no time counts: heartbeats then wait for
   * several turns of the event loop, in each of which the host looks responsive for a while.
   */
  tick(lateMs: number): void {
    const isBehind = lateMs > behindMs
    this.#excludedMs += isBehind || this.#wasBehind ? tickMs + lateMs : lateMs
    this.#wasBehind = isBehind
    this.#atLastTick = this.now()
  }
}
