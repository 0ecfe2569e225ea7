/** Work that no caller waits for: failures are logged, and closing waits for what is in progress. */
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
      if (!this.#closed) this.#logger.debug({ err: error }, 'cannot write what kubectl shows')
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
