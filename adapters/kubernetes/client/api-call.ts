/** One call of the Kubernetes API, and what it is answered with. */
import type { IncomingMessage } from 'node:http'

export interface ApiCall {
  /** What is being done, for messages: `create pod arena-x2x4q`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** From `pathOf`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** Sent as JSON. */
  readonly body?: object
  /** Of a PATCH. Default `application/merge-patch+json`. */
  readonly contentType?: string
  readonly limitMs?: number
  /** Waits behind no other call that does not say so as well. */
  readonly ahead?: boolean
  /** Neither waits behind other calls nor counts among them: for leases and the like. */
  readonly urgent?: boolean
  /** Changes nothing that only the leader may change: the fence is not asked. */
  readonly unfenced?: boolean
  readonly signal?: AbortSignal | undefined
}

export interface OpenAnswer {
  /** Ends when the server ends it, and breaks with an error when the connection does. */
  readonly body: IncomingMessage
  stop(): void
}

/** Of a call that has ended. */
export interface Answer {
  readonly status: number
  readonly text: string
  readonly retryAfterMs: number
}
