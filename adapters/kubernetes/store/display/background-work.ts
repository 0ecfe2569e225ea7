/** Runs writes that no caller waits for and logs their failures. `settled` waits for the writes in progress. */
import type { Logger } from '../../../../src/contracts/logger.js'

export class BackgroundWork {
  readonly #logger: Logger
  readonly #running = new Set<Promise<void>>()
  #closed = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  get closed(): boolean {
    return this.#closed
  }

  run(work: Promise<void>): void {
    const owned = work.catch((error: unknown) => {
      if (!this.#closed) this.#logger.debug({ err: error }, 'cannot write build counts or events for kubectl')
    })
    this.#running.add(owned)
    void owned.finally(() => this.#running.delete(owned))
  }

  close(): void {
    this.#closed = true
  }

  async settled(): Promise<void> {
    await Promise.all([...this.#running])
  }
}
