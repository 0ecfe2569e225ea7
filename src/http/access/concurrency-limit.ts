/** Limits the requests that are processed at once. */
import { FleetError } from '../../contracts/errors.js'

export class ConcurrencyLimit {
  readonly #max: number
  #running = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Throws `overloaded` at the limit. Otherwise call `leave` when the request ends. */
  enter(): void {
    if (this.#running >= this.#max) {
      throw new FleetError('overloaded', `${this.#running} requests are in flight, the limit of this host; retry later`)
    }
    this.#running++
  }

  leave(): void {
    this.#running--
  }

  /** Does not count the request while `work` runs: for callers that only wait, whose number the fleet limits. */
  async whileUncounted<T>(work: () => Promise<T>): Promise<T> {
    this.#running--
    try {
      return await work()
    } finally {
      this.#running++
    }
  }
}
