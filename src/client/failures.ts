/** Turns an error answer into a FleetError, and decides which errors are worth a retry. */
import { type ErrorCode, errorCodes, FleetError } from '../contracts/errors.js'
import { errorCodeHeader } from '../rules/model/wire.js'
import { isObject } from '../rules/validation/problem.js'

/** For answers without an error code: those of a proxy, or of the host app's own middleware. */
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
  const named = headers.get(errorCodeHeader)
  const code = errorCodes.find((known) => known === named) ?? codeOfStatus[status] ?? 'internal'
  const error = new FleetError(code, errorMessageIn(text) ?? `answered with status ${`${status} ${statusText}`.trim()}`)
  const seconds = headers.get('retry-after')
  if (seconds !== null && /^\d{1,4}$/.test(seconds)) retryAfters.set(error, Number(seconds) * 1000)
  return error
}

/** The answer's `Retry-After`, if it had one. */
export function retryAfterMs(error: FleetError): number | undefined {
  return retryAfters.get(error)
}

/** Rejected before any work was done: safe to repeat. */
const rejectedEarly: ReadonlySet<ErrorCode> = new Set(['rate-limited', 'overloaded'])
/** Another host, or the same one later, may succeed. Waiting for a server is not a matter of retries but of `waitMs`. */
const transient: ReadonlySet<ErrorCode> = new Set([...rejectedEarly, 'unavailable', 'not-leader', 'closed', 'conflict'])

const maxPauseMs = 10_000

/** Whether repeating the call soon is safe and may succeed. */
export function isRetryable(error: FleetError, isIdempotent: boolean): boolean {
  return (isIdempotent ? transient : rejectedEarly).has(error.code) && (retryAfterMs(error) ?? 0) <= maxPauseMs
}

function errorMessageIn(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return isObject(body) && typeof body['error'] === 'string' ? body['error'] : undefined
  } catch {
    // Probably a proxy's error page: the status has to do.
    return undefined
  }
}
