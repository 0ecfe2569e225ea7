/** Converts an error response to a FleetError, and decides which errors are worth retrying. */
import { type ErrorCode, errorCodes, type ErrorDetails, FleetError } from '../contracts/errors.js'
import { errorCodeHeader } from '../rules/model/wire.js'
import { isObject } from '../rules/validation/problem.js'

/** For responses without an error code, which come from a proxy or the host app's own middleware. */
const codeOfStatus: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid',
  401: 'unauthenticated',
  403: 'forbidden',
  404: 'not-found',
  405: 'unsupported',
  408: 'unavailable',
  413: 'invalid',
  415: 'invalid',
  422: 'invalid',
  429: 'rate-limited',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
}

const retryAfters = new WeakMap<FleetError, number>()

export function errorOf({ status, statusText, headers }: Response, text: string): FleetError {
  const { message, code: given, details } = errorIn(text)
  const code = known(given) ?? known(headers.get(errorCodeHeader)) ?? codeOfStatus[status] ?? 'internal'
  const error = new FleetError(code, message ?? `answered with status ${`${status} ${statusText}`.trim()}`, { details })
  const seconds = headers.get('retry-after')
  if (seconds !== null && /^\d{1,4}$/.test(seconds)) retryAfters.set(error, Number(seconds) * 1000)
  return error
}

function known(code: string | null | undefined): ErrorCode | undefined {
  return errorCodes.find((one) => one === code)
}

/** The delay from the response's `Retry-After` header, if it had one. */
export function retryAfterMs(error: FleetError): number | undefined {
  return retryAfters.get(error)
}

/** The host rejected the call before doing any work, so repeating it is safe. */
const rejectedEarly: ReadonlySet<ErrorCode> = new Set(['rate-limited', 'overloaded'])
/** Another host, or the same host later, may succeed. To wait for a free server, callers use `waitMs` instead of retries. */
const transient: ReadonlySet<ErrorCode> = new Set([...rejectedEarly, 'unavailable', 'not-leader', 'closed', 'conflict'])

const maxPauseMs = 10_000

/** Whether repeating the call soon is safe and may succeed. */
export function isRetryable(error: FleetError, isIdempotent: boolean): boolean {
  return (isIdempotent ? transient : rejectedEarly).has(error.code) && (retryAfterMs(error) ?? 0) <= maxPauseMs
}

/** A host with a compatibility format sends the code only in a header, and a proxy may remove headers that it does not know. */
function errorIn(text: string): { readonly message?: string; readonly code?: string; readonly details?: ErrorDetails } {
  try {
    const body: unknown = JSON.parse(text)
    if (!isObject(body) || typeof body['error'] !== 'string') return {}
    const { error, code, details } = body
    return { message: error, ...(typeof code === 'string' && { code }), ...(isObject(details) && { details }) }
  } catch {
    // The body is probably a proxy's error page, so only the status is used.
    return {}
  }
}
