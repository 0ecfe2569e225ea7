/**
 * Shows in `kubectl describe gs` why a server is still Pending, at a limited rate. The server's next record has no message any more, so none
 * has to be removed.
 */
import { FleetError } from '../../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../client/api.js'
import type { BackgroundWork } from './background-work.js'

export interface ServerMessagesDependencies {
  readonly api: KubernetesApi
  readonly work: BackgroundWork
  /** Writes the message into the status of a server that is Pending and has another one. Rejects with `conflict` if it changes meanwhile. */
  readonly write: (ref: Ref, message: string) => Promise<void>
}

const maxLength = 500
const pauseMs = 200
/** A server whose message changes more often than this shows some of them only. */
const maxWaiting = 1_000

export class ServerMessages {
  readonly #deps: ServerMessagesDependencies
  /** Latest messages that are not written yet. */
  readonly #waiting = new Map<string, { readonly ref: Ref; readonly message: string }>()
  readonly #closing = new AbortController()
  #isRunning = false

  constructor(deps: ServerMessagesDependencies) {
    this.#deps = deps
  }

  show(ref: Ref, message: string): void {
    const key = keyOf(ref)
    if (this.#closing.signal.aborted || (this.#waiting.size >= maxWaiting && !this.#waiting.has(key))) return
    this.#waiting.set(key, {
      ref,
      message: message.length > maxLength ? `${message.slice(0, maxLength - 1)}…` : message,
    })
    if (this.#isRunning) return
    this.#isRunning = true
    this.#deps.work.run(this.#run())
  }

  stop(): void {
    this.#closing.abort()
    this.#waiting.clear()
  }

  async #run(): Promise<void> {
    const { api, work, write } = this.#deps
    for (const [key, next] of this.#waiting) {
      if (work.closed) break
      this.#waiting.delete(key)
      try {
        await write(next.ref, next.message)
      } catch (error) {
        // The record was written meanwhile, and the server may have started.
        if (FleetError.is(error, 'conflict') && !this.#waiting.has(key)) this.#waiting.set(key, next)
      }
      await api.pause(pauseMs, this.#closing.signal)
    }
    this.#isRunning = false
  }
}
