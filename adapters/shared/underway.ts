/** What is under way and has to end when its owner is closed: calls, streams and pauses. */
import type { Clock } from '../../src/contracts/clock.js'

export class Underway {
  readonly #ends = new Set<() => void>()
  #closed = false

  get closed(): boolean {
    return this.#closed
  }

  /** `end` is called when this is closed, unless it is deleted before. */
  add(end: () => void): void {
    this.#ends.add(end)
  }

  delete(end: () => void): void {
    this.#ends.delete(end)
  }

  /** Resolves after so long, or at once when the signal fires or this is closed: whoever goes on finds out by itself. */
  pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
    if (this.#closed || signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const end = () => {
        cancel()
        signal?.removeEventListener('abort', end)
        this.#ends.delete(end)
        resolve()
      }
      const cancel = clock.after(ms, end)
      signal?.addEventListener('abort', end, { once: true })
      this.#ends.add(end)
    })
  }

  close(): void {
    this.#closed = true
    for (const end of [...this.#ends]) end()
  }
}
