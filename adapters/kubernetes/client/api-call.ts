/** Types for a Kubernetes API call and its response. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

export interface ApiCall {
  /** The operation, as named in messages: `create pod arena-x2x4q`. */
  readonly what: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Built with `pathOf`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** Sent as JSON. */
  readonly body?: object
  /** Content type of a PATCH. Default `application/merge-patch+json`. */
  readonly contentType?: string
  /** Default: the API's `callTimeoutMs`. */
  readonly timeoutMs?: number
  /** Takes precedence over all queued calls without priority. */
  readonly priority?: boolean
  /** With `priority`: nobody waits for it. It does not end a pause between calls with priority. */
  readonly unattended?: boolean
  /**
   * Group of calls that may hang together, such as those for one build. A group can use only part of the concurrency, so
   * that the others continue. Default: none.
   */
  readonly group?: string | undefined
  /** Bypasses the rate limiter and the connection limit; used for leases and watches. */
  readonly unlimited?: boolean
  /** Sends the write even if this host is not the leader. */
  readonly unfenced?: boolean
  /** Further headers, which take precedence over the usual ones. */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

export interface ApiStream {
  /** Ends when the server ends the response; fails if the connection breaks. */
  readonly body: IncomingMessage
  /** The connection, if the server has switched to another protocol. */
  readonly socket?: Duplex
  stop(): void
}

/** A complete response. */
export interface ApiResponse {
  readonly status: number
  readonly text: string
  readonly retryAfterMs: number
}
