/** Maps errors to responses. The only place that maps error codes to HTTP statuses. */
import { type ErrorCode, FleetError } from '../../contracts/errors.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { failure, HttpError, type HttpResponse, retryAfter } from './http-response.js'
import { isError } from '../../rules/model/realms.js'

type Statuses = Readonly<Record<ErrorCode, number>>

export const managementStatuses: Statuses = Object.freeze({
  invalid: 400,
  exists: 400,
  'not-found': 404,
  conflict: 500,
  'none-standing-by': 429,
  'max-reached': 429,
  'not-confirmed': 500,
  'out-of-range': 409,
  'no-room': 409,
  'no-stdin': 409,
  'in-use': 409,
  unavailable: 500,
  'not-leader': 503,
  closed: 500,
  draining: 500,
  unsupported: 500,
  aborted: 500,
  'ports-exhausted': 500,
  'port-in-use': 500,
  'directory-in-use': 500,
  'directory-unusable': 500,
  unauthenticated: 401,
  forbidden: 403,
  'rate-limited': 429,
  overloaded: 503,
  internal: 500,
})

/** 429: retry later, when a server may be standing by. 503: retry on this host or another. */
export const allocationStatuses: Statuses = Object.freeze({
  ...managementStatuses,
  conflict: 503,
  'not-confirmed': 503,
  'out-of-range': 500,
  'no-room': 500,
  'no-stdin': 500,
  'in-use': 500,
  unavailable: 503,
  closed: 503,
  draining: 503,
  aborted: 503,
  'ports-exhausted': 503,
})

/**
 * Converts anything a handler throws to a response with the messages of the error and its causes, but without a stack trace.
 * `isStrict`: the body has only the field `error`, for clients that accept nothing else.
 */
export function errorResponse(error: unknown, statuses: Statuses, isStrict = false): HttpResponse {
  if (error instanceof HttpError) return isStrict ? strict(error.response, error.message) : error.response
  const code = FleetError.is(error) ? error.code : 'internal'
  // An error from another version of this package may have a code that is unknown here.
  const status = statuses[code] ?? 500
  const details = FleetError.is(error) ? error.details : undefined
  const message = describe(error)
  const full = failure(status, code, message, headersOf(status), details)
  const response = isStrict ? strict(full, message) : full
  return code === 'closed' || code === 'not-leader' ? { ...response, closesConnection: true } : response
}

function strict(response: HttpResponse, error: string): HttpResponse {
  return { ...response, body: JSON.stringify({ error }) }
}

function headersOf(status: number): Readonly<Record<string, string>> | undefined {
  if (status === 429 || status === 503) return retryAfter(1_000)
  return status === 401 ? { 'WWW-Authenticate': 'Bearer' } : undefined
}

/** The error's message, followed by the messages of its causes that it does not already quote. */
function describe(error: unknown): string {
  let text = messageOf(error)
  let cause = causeOf(error)
  for (let depth = 0; cause !== undefined && depth < 3; depth++) {
    const message = messageOf(cause)
    if (!text.includes(message)) text += `: ${message}`
    cause = causeOf(cause)
  }
  return cutMessage(text)
}

function messageOf(error: unknown): string {
  if (!isError(error)) return String(error)
  // If a connection is refused, Node throws an AggregateError with a code but no message.
  const code = 'code' in error ? String(error.code) : ''
  return error.message || code || error.name
}

function causeOf(error: unknown): unknown {
  return isError(error) ? error.cause : undefined
}
