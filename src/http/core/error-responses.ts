/** Which HTTP status a failed call of the fleet has. The only place where statuses and error codes meet. */
import { type ErrorCode, FleetError } from '../../contracts/errors.js'
import { errorCodeHeader } from '../../rules/model/wire.js'
import { type Answer, failure, HttpError, retryAfter } from './exchange.js'

type Statuses = Readonly<Record<ErrorCode, number>>

/** The service description knows 400, 404 and 500 here; the others come from who guards the door, and of a host that does not lead. */
export const managementStatuses: Statuses = Object.freeze({
  invalid: 400,
  exists: 400,
  'not-found': 404,
  conflict: 500,
  'none-standing-by': 500,
  'max-reached': 500,
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

/** 429: ask again, a server may stand by then. 503: ask again, here or at another host. */
export const allocationStatuses: Statuses = Object.freeze({
  ...managementStatuses,
  conflict: 503,
  'none-standing-by': 429,
  'max-reached': 429,
  unavailable: 503,
  closed: 503,
  draining: 503,
  aborted: 503,
  'ports-exhausted': 503,
})

/** The answer for whatever a handler threw. Names the cause, shows no stack. */
export function answerOf(error: unknown, statuses: Statuses): Answer {
  if (error instanceof HttpError) return error.answer
  const code = FleetError.is(error) ? error.code : 'internal'
  // A code that is not known here comes from another version of this package.
  const status = statuses[code] ?? 500
  const answer = failure(status, describe(error), { [errorCodeHeader]: code, ...headersOf(status) })
  // Whoever stands in front of several hosts gives a new connection to another one.
  return code === 'closed' || code === 'not-leader' ? { ...answer, isLast: true } : answer
}

function headersOf(status: number): Readonly<Record<string, string>> | undefined {
  if (status === 429 || status === 503) return retryAfter(1_000)
  return status === 401 ? { 'WWW-Authenticate': 'Bearer' } : undefined
}

/** The message with those of its causes that it does not quote already. */
export function describe(error: unknown): string {
  let text = wordsOf(error)
  let cause = causeOf(error)
  for (let depth = 0; cause !== undefined && depth < 3; depth++) {
    const words = wordsOf(cause)
    if (!text.includes(words)) text += `: ${words}`
    cause = causeOf(cause)
  }
  return text
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // Node's AggregateError for a refused connection has a code and no message.
  const code = 'code' in error ? String(error.code) : ''
  return error.message || code || error.name
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined
}
