/** The listeners of a backend. A listener that throws affects neither the backend nor the other listeners. */
import type { BackendListener } from '../../src/contracts/backend.js'
import type { Logger } from '../../src/contracts/logger.js'

export class Listeners {
  readonly #backend: string
  readonly #logger: Logger
  readonly #listeners = new Set<BackendListener>()

  constructor(backend: string, logger: Logger) {
    this.#backend = backend
    this.#logger = logger
  }

  /** Adds a listener and returns a function that removes it. */
  add(listener: BackendListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  clear(): void {
    this.#listeners.clear()
  }

  notifyAll(call: (listener: BackendListener) => void): void {
    for (const listener of this.#listeners) this.notify(listener, call)
  }

  /** Notifies one listener, unless it has been removed. */
  notify(listener: BackendListener, call: (listener: BackendListener) => void): void {
    if (!this.#listeners.has(listener)) return
    try {
      call(listener)
    } catch (error) {
      this.#logger.error({ err: error, backend: this.#backend }, 'backend listener threw')
    }
  }
}
