/** How many writes with priority may run at a time, how long they take now, and so how many statuses can be written in time. */
import type { Clock } from '../../../../src/contracts/clock.js'

/** Part of the connections that statuses get behind the journal, even if allocations wait for all of them. */
const statusShare = 3 / 8
/** Half of the time that is left once an entry has waited for a pause, as callers write at the same time. */
const availableMs = 250
/** How much one write counts. A server that becomes slow is noticed sooner than one that becomes quick. */
const weight = { slower: 1 / 2, quicker: 1 / 8 }

export class WritePace {
  /** How many statuses are written at a time behind the journal. */
  readonly maxStatuses: number
  /** How many allocations are written by themselves at the same time, while statuses lag behind. */
  readonly maxDirect: number
  readonly #clock: Clock
  #averageMs = 10

  constructor(clock: Clock, connections: number) {
    this.#clock = clock
    this.maxStatuses = Math.max(1, Math.floor(connections * statusShare))
    this.maxDirect = connections
  }

  /** How many entries there may be. */
  get maxEntries(): number {
    return Math.floor((this.maxStatuses * availableMs) / Math.max(1, this.#averageMs))
  }

  async measure<T>(write: () => Promise<T>): Promise<T> {
    const since = this.#clock.elapsed()
    try {
      return await write()
    } finally {
      const more = this.#clock.elapsed() - since - this.#averageMs
      this.#averageMs += more * (more > 0 ? weight.slower : weight.quicker)
    }
  }
}
