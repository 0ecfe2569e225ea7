/**
 * Shows in `kubectl describe gs` why a server is still Pending, at a limited rate. Not for servers that start within a second or two, as
 * most do: two requests for each of them would say no more than that they were starting.
 */
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../../client/api.js'
import type { BackgroundWork } from './background-work.js'

export interface PendingMessages {
  /** Sets why a server is still Pending; every write of its record includes it. Returns false if its status says so already. */
  readonly setMessage: (ref: Ref, message: string | undefined) => boolean
  /** Writes it into the status of a server that is Pending, unless its status says so already. Rejects with `conflict` if the server changes meanwhile. */
  readonly writeMessage: (ref: Ref) => Promise<void>
}

export interface ServerMessagesDependencies {
  readonly api: Pick<KubernetesApi, 'pause'>
  readonly clock: Clock
  readonly work: BackgroundWork
  readonly messages: PendingMessages
}

const maxLength = 500
const pauseMs = 200
/** How long a message waits before it is written. By then, most servers have started. */
const delayMs = 1_500
/** A server whose message changes more often than this shows some of them only. */
const maxWaiting = 1_000

interface Waiting {
  readonly ref: Ref
  /** Elapsed ms at which the message is written. */
  readonly dueAt: number
}

export class ServerMessages {
  readonly #deps: ServerMessagesDependencies
  /** Servers whose messages are not written yet. */
  readonly #waiting = new Map<string, Waiting>()
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
    const dueAt = this.#deps.clock.elapsed() + delayMs
    this.#waiting.set(key, this.#waiting.get(key) ?? { ref, dueAt })
    if (this.#isRunning) return
    this.#isRunning = true
    this.#deps.work.run(this.#run())
  }

  stop(): void {
    this.#closing.abort()
    this.#waiting.clear()
  }

  async #run(): Promise<void> {
    const { api, clock, work, messages } = this.#deps
    const { signal } = this.#closing
    // In the order in which they are due. One that is added during the iteration comes last.
    for (const [key, { ref, dueAt }] of this.#waiting) {
      const waitMs = dueAt - clock.elapsed()
      if (waitMs > 0) await api.pause(waitMs, signal)
      if (work.closed || signal.aborted) break
      this.#waiting.delete(key)
      try {
        await messages.writeMessage(ref)
      } catch (error) {
        // The record was written meanwhile, and the server may have started.
        if (FleetError.is(error, 'conflict')) this.#waiting.set(key, { ref, dueAt })
      }
      await api.pause(pauseMs, signal)
    }
    this.#isRunning = false
  }
}

function cut(message: string): string {
  return message.length > maxLength ? `${message.slice(0, maxLength - 1)}…` : message
}
