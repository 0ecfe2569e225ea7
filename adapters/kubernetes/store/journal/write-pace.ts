/** How many writes with priority may run at a time, how long they take now, and so how many statuses can be written in time. */
import type { Clock } from '../../../../src/contracts/clock.js'

/** Part of the connections that statuses get behind the journal, even if allocations wait for all of them. */
const statusShare = 3 / 8
/** Part of the 600 ms that are left of a second once an entry has waited for a pause. */
const availableMs = 400
/** The middle one of so many writes counts: two that were held up for a moment change nothing. */
const maxMeasured = 5
/** How long a measurement counts. */
const keptMs = 5_000
/** While there is none. */
const assumedMs = 10

export class WritePace {
  /** How many statuses are written at a time behind the journal. */
  readonly maxStatuses: number
  /** How many allocations are written by themselves at the same time, while statuses lag behind. */
  readonly maxDirect: number
  readonly #clock: Clock
  #running = 0
  #statusesRunning = 0
  /** Of writes that ran beside no more than there are statuses at a time. */
  readonly #last: Durations
  /** Of statuses that ran beside as many as there may be. A busy API server takes longer for each the more there are. */
  readonly #lastStatuses: Durations

  constructor(clock: Clock, connections: number) {
    this.#clock = clock
    this.#last = new Durations(clock)
    this.#lastStatuses = new Durations(clock)
    this.maxStatuses = Math.max(1, Math.floor(connections * statusShare))
    this.maxDirect = connections
  }

  /** How many entries there may be. */
  get maxEntries(): number {
    const ms = Math.max(1, this.#last.median ?? assumedMs, this.#lastStatuses.median ?? 0)
    return Math.floor((this.maxStatuses * availableMs) / ms)
  }

  /** `isStatus`: nobody waits for it, but it is overdue. */
  async measure<T>(write: () => Promise<T>, isStatus = false): Promise<T> {
    const since = this.#clock.elapsed()
    const begunBeside = ++this.#running
    const statusesThen = isStatus ? ++this.#statusesRunning : 0
    try {
      return await write()
    } finally {
      const ms = this.#clock.elapsed() - since
      if (isStatus || Math.max(begunBeside, this.#running) <= this.maxStatuses) this.#last.add(ms)
      if (Math.min(statusesThen, this.#statusesRunning) >= this.maxStatuses) this.#lastStatuses.add(ms)
      this.#running--
      if (isStatus) this.#statusesRunning--
    }
  }
}

/** How long the last few writes took, in ms. */
class Durations {
  readonly #clock: Clock
  #measured: readonly { readonly ms: number; readonly at: number }[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(ms: number): void {
    this.#measured = [...this.#measured, { ms, at: this.#clock.elapsed() }].slice(-maxMeasured)
  }

  /** Undefined if there are none. */
  get median(): number | undefined {
    const since = this.#clock.elapsed() - keptMs
    const sorted = this.#measured.filter(({ at }) => at > since).toSorted((a, b) => a.ms - b.ms)
    return sorted[Math.floor(sorted.length / 2)]?.ms
  }
}
