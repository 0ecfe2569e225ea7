/** Shows in `kubectl describe gs` why a server is still Pending, at a limited rate. */
import { FleetError } from '../../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../client/api.js'
import type { BackgroundWork } from './background-work.js'

export interface PendingMessages {
  /** Sets why a server is still Pending; every write of its record includes it. Returns false if its status says so already. */
  readonly setMessage: (ref: Ref, message: string | undefined) => boolean
  /** Writes it into the status of a server that is Pending. Rejects with `conflict` if the server changes meanwhile. */
  readonly writeMessage: (ref: Ref) => Promise<void>
}

export interface ServerMessagesDependencies {
  readonly api: KubernetesApi
  readonly work: BackgroundWork
  readonly messages: PendingMessages
}

const maxLength = 500
const pauseMs = 200
/** A server whose message changes more often than this shows some of them only. */
const maxWaiting = 1_000

export class ServerMessages {
  readonly #deps: ServerMessagesDependencies
  /** Servers whose messages are not written yet. */
  readonly #waiting = new Map<string, Ref>()
  readonly #closing = new AbortController()
  #isRunning = false

  constructor(deps: ServerMessagesDependencies) {
    this.#deps = deps
  }

  /** Undefined: no reason is known any more. */
  show(ref: Ref, message: string | undefined): void {
    const key = keyOf(ref)
    if (this.#closing.signal.aborted) return
    const isNews = this.#deps.messages.setMessage(ref, message === undefined ? undefined : cut(message))
    if (!isNews || (this.#waiting.size >= maxWaiting && !this.#waiting.has(key))) return
    this.#waiting.set(key, ref)
    if (this.#isRunning) return
    this.#isRunning = true
    this.#deps.work.run(this.#run())
  }

  stop(): void {
    this.#closing.abort()
    this.#waiting.clear()
  }

  async #run(): Promise<void> {
    const { api, work, messages } = this.#deps
    for (const [key, ref] of this.#waiting) {
      if (work.closed) break
      this.#waiting.delete(key)
      try {
        await messages.writeMessage(ref)
      } catch (error) {
        // The record was written meanwhile, and the server may have started.
        if (FleetError.is(error, 'conflict')) this.#waiting.set(key, ref)
      }
      await api.pause(pauseMs, this.#closing.signal)
    }
    this.#isRunning = false
  }
}

function cut(message: string): string {
  return message.length > maxLength ? `${message.slice(0, maxLength - 1)}…` : message
}
