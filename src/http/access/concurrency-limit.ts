/** Limits how many requests are processed at once. */
import { FleetError } from '../../contracts/errors.js'
import { counted } from '../../rules/model/counted.js'

export class ConcurrencyLimit {
  readonly #max: number
  #running = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Throws `overloaded` if the limit is reached. Otherwise the caller must call `leave` when the request ends. */
  enter(): void {
    if (this.#running >= this.#max) {
      const running = counted(this.#running, 'request is', 'requests are')
      throw new FleetError('overloaded', `${running} in flight, the limit of this host; retry later`)
    }
    this.#running++
  }

  leave(): void {
    this.#running--
  }

  /** Counts while `work` runs. Rejects with `overloaded` if the limit is reached. */
  async whileCounted<T>(work: () => Promise<T>): Promise<T> {
    this.enter()
    try {
      return await work()
    } finally {
      this.leave()
    }
  }

  /**
   * Does not count the request while `work` runs. Used while a caller waits for a server: the fleet limits the number of
   * waiting callers.
   */
  async whileUncounted<T>(work: () => Promise<T>): Promise<T> {
    this.#running--
    try {
      return await work()
    } finally {
      this.#running++
    }
  }
}
