/** Why this host can neither lead nor find out who does. It is reported once it has lasted for a minute. */
import type { Clock } from '../../contracts/clock.js'
import type { Logger } from '../../contracts/logger.js'

const reportMs = 60_000

export class Obstacle {
  readonly #clock: Clock
  readonly #logger: Logger
  #cause: string | undefined
  #hasLasted = false
  #cancel = () => {}
  #isStopped = false

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock
    this.#logger = logger
  }

  /** The present cause, or undefined if there is none. */
  get cause(): string | undefined {
    return this.#cause
  }

  /** The cause if it has lasted for a minute. */
  get lasting(): string | undefined {
    return this.#hasLasted ? this.#cause : undefined
  }

  set(cause: string | undefined): void {
    if (this.#isStopped) return
    const isNew = this.#cause === undefined
    this.#cause = cause
    if (cause === undefined) this.#clear()
    else if (isNew) this.#cancel = this.#clock.after(reportMs, () => this.#report())
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #clear(): void {
    this.#cancel()
    if (this.#hasLasted) this.#logger.info({}, 'this host can lead again')
    this.#hasLasted = false
  }

  #report(): void {
    this.#hasLasted = true
    this.#logger.error({ cause: this.#cause }, 'this host cannot lead')
  }
}
