/** The responses of handlers, independent of how they are sent, and the common format of error responses. */
import { type ErrorCode, errorCodes, type ErrorDetails } from '../../contracts/errors.js'
import { errorCodeHeader } from '../../rules/model/wire.js'

export interface HttpResponse {
  readonly status: number
  /** Sent as JSON, unless `headers` set another content type. If absent, the response has no content. */
  readonly body?: string | Buffer
  /** Sent instead of `body`: chunks of text, with the content type that `headers` set. */
  readonly stream?: AsyncIterable<string>
  /** For a stream: a reader that accepts no data for this long is disconnected. Default 30 s. */
  readonly stallMs?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Closes the connection after this response, so that a load balancer can choose another host for the next request. */
  readonly closesConnection?: boolean
}

export const jsonType = 'application/json'

export function json(status: number, value: unknown): HttpResponse {
  return { status, body: JSON.stringify(value) }
}

/** Every error response has this body. A header has its code, too. */
export function failure(
  status: number,
  code: ErrorCode,
  message: string,
  headers?: Readonly<Record<string, string>>,
  details?: ErrorDetails,
): HttpResponse {
  const body = JSON.stringify({ error: message, code, details })
  return { status, body, headers: { [errorCodeHeader]: code, ...headers } }
}

/** `ok`, or the error code. A host of another version may have answered with a code that is unknown here. */
export function outcomeOf({ headers, status }: HttpResponse): 'ok' | ErrorCode {
  const named = headers?.[errorCodeHeader]
  return errorCodes.find((code) => code === named) ?? (status < 400 ? 'ok' : 'internal')
}

export function notFound(path: string): HttpResponse {
  return failure(404, 'not-found', `nothing is served at ${path}`)
}

/** Rounds up to whole seconds, the unit of the header. */
export function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}

/** An error with its own status or headers. For all other errors, `error-responses.ts` derives the status from the code. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly response: HttpResponse

  constructor(status: number, code: ErrorCode, message: string, headers?: Readonly<Record<string, string>>) {
    super(message)
    this.response = failure(status, code, message, headers)
  }
}
