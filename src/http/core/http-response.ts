/** The responses of handlers, independent of how they are sent, and the common format of error responses. */
import type { ErrorCode } from '../../contracts/errors.js'
import { errorCodeHeader } from '../../rules/model/wire.js'

export interface HttpResponse {
  readonly status: number
  /** JSON, unless `headers` name another type. Absent: no content. */
  readonly body?: string
  /** Instead of a body: chunks of text, of the type that `headers` name. */
  readonly stream?: AsyncIterable<string>
  /** With a stream: a reader that accepts nothing for this long is disconnected. Default 30 s. */
  readonly stallMs?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Ends the connection after this response, so that a load balancer may choose another host for the next request. */
  readonly closesConnection?: boolean
}

export const jsonType = 'application/json'

export function json(status: number, value: unknown): HttpResponse {
  return { status, body: JSON.stringify(value) }
}

/** Every error response has this body, and its code in a header. */
export function failure(
  status: number,
  code: ErrorCode,
  message: string,
  headers?: Readonly<Record<string, string>>,
): HttpResponse {
  return { status, body: JSON.stringify({ error: message }), headers: { [errorCodeHeader]: code, ...headers } }
}

export function notFound(path: string): HttpResponse {
  return failure(404, 'not-found', `nothing is served at ${path}`)
}

/** Rounded up to whole seconds, the header's unit. */
export function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}

/** An error with a status or headers of its own. For all others, `error-responses.ts` derives the status from the code. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly response: HttpResponse

  constructor(status: number, code: ErrorCode, message: string, headers?: Readonly<Record<string, string>>) {
    super(message)
    this.response = failure(status, code, message, headers)
  }
}
