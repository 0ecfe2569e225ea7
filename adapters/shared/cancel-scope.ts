/** Tracks calls, streams and sleeps that must end when their owner closes. */
import type { Clock } from '../../src/contracts/clock.js'

export class CancelScope {
  readonly #cancels = new Set<() => void>()
  #closed = false

  get closed(): boolean {
    return this.#closed
  }

  /** Calls `cancel` on close, unless it is deleted first. */
  add(cancel: () => void): void {
    this.#cancels.add(cancel)
  }

  delete(cancel: () => void): void {
    this.#cancels.delete(cancel)
  }

  /**
   * Resolves after `ms`, or immediately when the signal fires or the scope closes. Never rejects; the caller's next call
   * does.
   */
  sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
    if (this.#closed || signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        cancelTimer()
        signal?.removeEventListener('abort', wake)
        this.#cancels.delete(wake)
        resolve()
      }
      const cancelTimer = clock.after(ms, wake)
      signal?.addEventListener('abort', wake, { once: true })
      this.#cancels.add(wake)
    })
  }

  close(): void {
    this.#closed = true
    for (const cancel of [...this.#cancels]) cancel()
  }
}
