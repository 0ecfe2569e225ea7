/** Counts and logs the failed attempts of a host to acquire or renew the lease. */
import type { Clock } from '../../../src/contracts/clock.js'
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'

/** A failure that persists is logged this often. */
const logMs = 60_000

export class AttemptFailures {
  readonly #clock: Clock
  readonly #logger: Logger
  #count = 0
  /** The last failure that was logged. */
  #logged = { message: '', at: -Infinity }

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock
    this.#logger = logger
  }

  /** Number of attempts that failed in a row. */
  get count(): number {
    return this.#count
  }

  succeeded(): void {
    this.#count = 0
  }

  /** Logs the failure when its cause changes, and once a minute. */
  failed(error: unknown, leads: boolean): void {
    this.#count++
    const message = leads ? 'cannot renew the leader lease' : 'cannot acquire the leader lease'
    const cause = `${message}: ${messageOf(error)}`
    if (cause === this.#logged.message && this.#clock.elapsed() < this.#logged.at + logMs) return
    this.#logged = { message: cause, at: this.#clock.elapsed() }
    this.#logger.warn({ err: error, failures: this.#count }, message)
  }
}
