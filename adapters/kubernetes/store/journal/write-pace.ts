/** How many writes with priority may run at a time, how long they take now, and so how many statuses can be written in time. */
import type { Clock } from '../../../../src/contracts/clock.js'

/** Part of the connections that statuses get behind the journal, even if allocations wait for all of them. */
const statusShare = 3 / 8
/** Part of the 600 ms that are left of a second once an entry has waited for a pause, as callers write at the same time. */
const availableMs = 400
/** Those that a burst begins with, which run side by side: two allocations by themselves, and the journal. */
const firstOfBurst = 3
/** The middle one of so many writes counts, so that a moment in which all of `firstOfBurst` are held up changes nothing. */
const maxMeasured = 2 * firstOfBurst + 1
/** How long a measurement of statuses side by side counts. */
const statusesKeptMs = 30_000
/** While nothing has been measured. */
const assumedMs = 10

export class WritePace {
  /** How many statuses are written at a time behind the journal. */
  readonly maxStatuses: number
  /** How many allocations are written by themselves at the same time, while statuses lag behind. */
  readonly maxDirect: number
  readonly #clock: Clock
  readonly #maxBeside: number
  #running = 0
  #statusesRunning = 0
  /** Of all other writes that show how long one takes by itself. */
  readonly #last: Durations
  /** Of statuses while `maxStatuses` ran. A busy API server takes longer for each the more there are. */
  readonly #lastStatuses: Durations

  constructor(clock: Clock, connections: number) {
    this.#clock = clock
    this.#last = new Durations(clock, Infinity)
    this.#lastStatuses = new Durations(clock, statusesKeptMs)
    this.maxStatuses = Math.max(1, Math.floor(connections * statusShare))
    this.maxDirect = connections
    this.#maxBeside = Math.max(firstOfBurst, this.maxStatuses)
  }

  /** How many entries there may be. */
  get maxEntries(): number {
    const ms = Math.max(1, this.#usualMs, this.#lastStatuses.median ?? 0)
    return Math.floor((this.maxStatuses * availableMs) / ms)
  }

  get #usualMs(): number {
    return this.#last.median ?? assumedMs
  }

  /** `isStatus`: the write is a status that follows the journal, and no caller waits for it. */
  async measure<T>(write: () => Promise<T>, isStatus = false): Promise<T> {
    const since = this.#clock.elapsed()
    const begunBeside = ++this.#running
    const statusesThen = isStatus ? ++this.#statusesRunning : 0
    let hasFailed = true
    try {
      const result = await write()
      hasFailed = false
      return result
    } finally {
      const ms = this.#clock.elapsed() - since
      // Among more concurrent writes, a caller's is slow because of their number. A refusal may be quick even if the API server is slow.
      const isTypical = isStatus || Math.max(begunBeside, this.#running) <= this.#maxBeside
      const isFull = Math.min(statusesThen, this.#statusesRunning) >= this.maxStatuses
      if (isFull && !hasFailed) this.#lastStatuses.add(ms)
      else if (hasFailed ? ms > this.#usualMs : isTypical || ms < this.#usualMs) this.#last.add(ms)
      this.#running--
      if (isStatus) this.#statusesRunning--
    }
  }
}

/** How long the last few writes took, in ms. */
class Durations {
  readonly #clock: Clock
  readonly #keptMs: number
  #measured: readonly { readonly ms: number; readonly at: number }[] = []

  constructor(clock: Clock, keptMs: number) {
    this.#clock = clock
    this.#keptMs = keptMs
  }

  add(ms: number): void {
    this.#measured = [...this.#measured, { ms, at: this.#clock.elapsed() }].slice(-maxMeasured)
  }

  /** Undefined if there are none. Of two in the middle, the lower one. */
  get median(): number | undefined {
    const since = this.#clock.elapsed() - this.#keptMs
    const sorted = this.#measured.filter(({ at }) => at > since).toSorted((a, b) => a.ms - b.ms)
    return sorted[Math.floor((sorted.length - 1) / 2)]?.ms
  }
}
