/** What an answer that is no success says, as a FleetError, and which of them may pass. */
import { type ErrorCode, errorCodes, FleetError } from '../contracts/errors.js'
import { isObject } from '../rules/validation/problem.js'
import { errorCodeHeader } from '../rules/model/wire.js'

/** For answers that do not name their code: those of a proxy, or of a host's own middleware. */
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
  const error = new FleetError(code, sentenceOf(text) ?? `the answer was ${`${status} ${statusText}`.trim()}`)
  const seconds = headers.get('retry-after')
  if (seconds !== null && /^\d{1,4}$/.test(seconds)) retryAfters.set(error, Number(seconds) * 1000)
  return error
}

/** How long whoever answered wants to be left alone. */
export function retryAfterMs(error: FleetError): number | undefined {
  return retryAfters.get(error)
}

/** It was refused before anything was done. */
const untouched: ReadonlySet<ErrorCode> = new Set(['rate-limited', 'overloaded'])
/** Another host, or the same one soon, may well do it. What waits for a server to be ready is the caller's `waitMs`. */
const passing: ReadonlySet<ErrorCode> = new Set([...untouched, 'unavailable', 'not-leader', 'closed', 'conflict'])

const longestPauseMs = 10_000

/** Whether the same call may be made again soon, and may then succeed. */
export function isPassing(error: FleetError, isSafe: boolean): boolean {
  return (isSafe ? passing : untouched).has(error.code) && (retryAfterMs(error) ?? 0) <= longestPauseMs
}

function sentenceOf(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return isObject(body) && typeof body['error'] === 'string' ? body['error'] : undefined
  } catch {
    // A page of a proxy, most likely: its status must do.
    return undefined
  }
}
