/** How long writes with priority take now, and so how many statuses can be written in time. */
import type { Clock } from '../../../../src/contracts/clock.js'

/** How many statuses are written at a time behind the journal. */
export const maxConcurrent = 8
/** In half of the time that is left once an entry has waited for a pause, as callers write at the same time. */
const availableMs = 250
/** How much one write counts. A server that becomes slow is noticed sooner than one that becomes quick. */
const share = { slower: 1 / 2, quicker: 1 / 8 }

export class WritePace {
  readonly #clock: Clock
  #averageMs = 10

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many entries there may be. */
  get maxEntries(): number {
    return Math.floor((maxConcurrent * availableMs) / Math.max(1, this.#averageMs))
  }

  async measure<T>(write: () => Promise<T>): Promise<T> {
    const since = this.#clock.elapsed()
    try {
      return await write()
    } finally {
      const more = this.#clock.elapsed() - since - this.#averageMs
      this.#averageMs += more * (more > 0 ? share.slower : share.quicker)
    }
  }
}
