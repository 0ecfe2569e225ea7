/**
 * The memory backend's listeners. They are notified one after another and never during the call that caused the notification,
 * as with a remote backend.
 */
import type { BackendListener } from '../../src/contracts/backend.js'

export class DeferredListeners {
  #registrations: readonly { readonly listener: BackendListener }[] = []
  #jobs: (() => void)[] = []

  /** Adds a listener and returns a function that removes it. */
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

  /** The listener that receives heartbeats: the one added last, as after a restart of the host. */
  get current(): BackendListener | undefined {
    return this.#registrations.at(-1)?.listener
  }

  /** Notifies all current listeners, each in a separate deferred job. */
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

/** Catches errors, so that a listener that throws affects neither the servers nor the other listeners. */
export function callSafely(call: () => void): void {
  try {
    call()
  } catch {
    // The call that caused the notification has already returned, so the error cannot be passed to a caller.
  }
}
