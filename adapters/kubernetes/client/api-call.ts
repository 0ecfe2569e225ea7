/** Types of one call of the Kubernetes API and of its response. */
import type { IncomingMessage } from 'node:http'

export interface ApiCall {
  /** The operation, for messages: `create pod arena-x2x4q`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** From `pathOf`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** Sent as JSON. */
  readonly body?: object
  /** Of a PATCH. Default `application/merge-patch+json`. */
  readonly contentType?: string
  /** Default: the API's `callTimeoutMs`. */
  readonly timeoutMs?: number
  /** Goes ahead of all queued calls without priority. */
  readonly priority?: boolean
  /** Bypasses the rate limiter and the connection limit: for leases and watches. */
  readonly unlimited?: boolean
  /** Is sent even when this host does not lead. */
  readonly unfenced?: boolean
  readonly signal?: AbortSignal | undefined
}

export interface ApiStream {
  /** Ends when the server ends it; fails when the connection breaks. */
  readonly body: IncomingMessage
  stop(): void
}

/** A complete response. */
export interface ApiResponse {
  readonly status: number
  readonly text: string
  readonly retryAfterMs: number
}
