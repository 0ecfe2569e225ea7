/** Who watches a backend. A listener that throws harms neither the backend nor the other listeners. */
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

  /** Returns what removes it. */
  add(listener: BackendListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  clear(): void {
    this.#listeners.clear()
  }

  tellAll(call: (listener: BackendListener) => void): void {
    for (const listener of this.#listeners) this.tell(listener, call)
  }

  /** Tells one of them, unless it has gone meanwhile. */
  tell(listener: BackendListener, call: (listener: BackendListener) => void): void {
    if (!this.#listeners.has(listener)) return
    try {
      call(listener)
    } catch (error) {
      this.#logger.error({ err: error }, `a listener of the ${this.#backend} backend has thrown`)
    }
  }
}
