/**
 * The listeners of the memory backend. They are notified one after another and never within the call that caused it, as with a
 * remote backend.
 */
import type { BackendListener } from '../../src/contracts/backend.js'

export class DeferredListeners {
  #registrations: readonly { readonly listener: BackendListener }[] = []
  #jobs: (() => void)[] = []

  /** Returns what removes it. */
  add(listener: BackendListener): () => void {
    const registration = { listener }
    this.#registrations = [...this.#registrations, registration]
    return () => {
      this.#registrations = this.#registrations.filter((other) => other !== registration)
    }
  }

  clear(): void {
    this.#registrations = []
  }

  /** The listener that gets heartbeats: the latest, as after a restart of the host. */
  get current(): BackendListener | undefined {
    return this.#registrations.at(-1)?.listener
  }

  /** Notifies all current listeners, each in a later job. */
  notifyAll(call: (listener: BackendListener) => void): void {
    for (const registration of this.#registrations) {
      this.defer(() => {
        if (this.#registrations.includes(registration)) callSafely(() => call(registration.listener))
      })
    }
  }

  /** Runs the job later, after all earlier jobs. */
  defer(job: () => void): void {
    if (this.#jobs.length === 0) {
      queueMicrotask(() => {
        const jobs = this.#jobs
        this.#jobs = []
        for (const next of jobs) next()
      })
    }
    this.#jobs.push(job)
  }
}

/** A listener that throws affects neither the servers nor the other listeners. */
export function callSafely(call: () => void): void {
  try {
    call()
  } catch {
    // The call that caused the notification has already returned, so there is no caller to reject.
  }
}
