/** The responses of handlers, independent of how they are sent: JSON, large and slow answers, and errors with their HTTP statuses. */
import { systemClock } from '../../contracts/clock.js'
import { type ErrorCode, errorCodes, type ErrorDetails, FleetError } from '../../contracts/errors.js'
import { sliceChars, turns } from '../../platform/turns.js'
import { isError } from '../../rules/model/values.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { errorCodeHeader } from '../../rules/model/wire.js'
import { isObject } from '../../rules/validation/problem.js'
import { within } from '../../util/with-timeout.js'

export interface HttpResponse {
  readonly status: number
  /** Sent as JSON, unless `headers` set another content type. If absent, the response has no content. */
  readonly body?: string | Buffer
  /** Sent instead of `body`: chunks of text, with the content type that `headers` set. */
  readonly stream?: AsyncIterable<string>
  /** For a stream: a reader that accepts no data for this long is disconnected. Default 30 s. */
  readonly stallMs?: number
  /** For a stream that is sent as fast as the reader accepts it: it may be compressed. */
  readonly isCompressible?: boolean
  readonly headers?: Readonly<Record<string, string>>
  /** Closes the connection after this response, so that a load balancer can choose another host for the next request. */
  readonly closesConnection?: boolean
}

export const defaultStallMs = 30_000
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

/** An error with its own status or headers. For all other errors, `errorResponse` derives the status from the code. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly response: HttpResponse

  constructor(status: number, code: ErrorCode, message: string, headers?: Readonly<Record<string, string>>) {
    super(message)
    this.response = failure(status, code, message, headers)
  }
}

/** The only place that maps error codes to HTTP statuses. */
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

/** In Agones, a build that does not exist is a label that no server has. */
export const allocatorStatuses: Statuses = Object.freeze({ ...allocationStatuses, 'not-found': 429, conflict: 409 })

/**
 * Converts anything a handler throws to a response with the messages of the error and its causes, but without a stack trace.
 * `bodyOf`: the body in another project's format. Default: gamekeeper's own.
 */
export function errorResponse(error: unknown, statuses: Statuses, bodyOf?: ErrorBody): HttpResponse {
  if (error instanceof HttpError) return withBody(error.response, error.message, bodyOf)
  const code = FleetError.is(error) ? error.code : 'internal'
  // An error from another version of this package may have a code that is unknown here.
  const status = statuses[code] ?? 500
  const details = FleetError.is(error) ? error.details : undefined
  const message = describe(error)
  const full = failure(status, code, message, headersOf(status), details)
  const response = withBody(full, message, bodyOf)
  return code === 'closed' || code === 'not-leader' ? { ...response, closesConnection: true } : response
}

type ErrorBody = (message: string, code: ErrorCode) => unknown

function withBody(response: HttpResponse, message: string, bodyOf: ErrorBody | undefined): HttpResponse {
  if (bodyOf === undefined) return response
  const code = outcomeOf(response)
  return { ...response, body: JSON.stringify(bodyOf(message, code === 'ok' ? 'internal' : code)) }
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

/**
 * Serializes large answers in slices, between which the event loop handles other work. A small answer is sent whole, with its
 * length.
 */
export function jsonInSlices(status: number, value: unknown, headers?: Readonly<Record<string, string>>): HttpResponse {
  const parts = jsonParts(value)
  const first = nextSlice(parts)
  if (first.isLast) return { status, body: first.text, ...(headers && { headers }) }
  const all = { ...headers, 'Content-Type': jsonType }
  return { status, stream: slices(first.text, parts), headers: all, isCompressible: true }
}

/** Yields the text of JSON.stringify in parts. Divides objects, and arrays into their items. */
export function* jsonParts(value: unknown): Generator<string, void> {
  if (Array.isArray(value)) {
    let before = '['
    for (const item of value) {
      yield before + (JSON.stringify(item) ?? 'null')
      before = ','
    }
    yield before === '[' ? '[]' : ']'
  } else if (isObject(value)) {
    let before = '{'
    for (const [key, part] of Object.entries(value)) {
      if (part === undefined) continue
      yield `${before}${JSON.stringify(key)}:`
      yield* jsonParts(part)
      before = ','
    }
    yield before === '{' ? '{}' : '}'
  } else yield JSON.stringify(value)
}

async function* slices(first: string, parts: Iterator<string, void>): AsyncGenerator<string> {
  yield first
  for (;;) {
    await turns.take()
    const { text, isLast } = nextSlice(parts)
    yield text
    if (isLast) return
  }
}

function nextSlice(parts: Iterator<string, void>): { readonly text: string; readonly isLast: boolean } {
  let text = ''
  while (text.length < sliceChars) {
    const part = parts.next()
    if (part.done === true) return { text, isLast: true }
    text += part.value
  }
  return { text, isLast: false }
}

/** A call that fails does so within this time, so that its answer has the right status. */
const beginMs = 1_000
const keepAliveMs = 15_000

/**
 * Answers a call that may take hours, such as a drain, over a connection that proxies would otherwise cut as idle. Answers like `json` if the result is there soon. Otherwise the answer starts with line breaks, which JSON allows, one every 15 s,
 * and ends with the result. If the call fails later, the connection is cut. Rejects if the call fails soon.
 */
export async function slowAnswer(call: Promise<unknown>): Promise<HttpResponse> {
  const result = call.then((value) => ({ value }))
  const soon = await within(beginMs, result, systemClock)
  if (soon) return json(200, soon.value)
  const headers = { 'Content-Type': jsonType, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' }
  return { status: 200, headers, stream: lineBreaksUntil(result) }
}

async function* lineBreaksUntil(result: Promise<{ readonly value: unknown }>): AsyncGenerator<string> {
  for (;;) {
    yield '\n'
    const settled = await within(keepAliveMs, result, systemClock)
    if (settled === undefined) continue
    yield JSON.stringify(settled.value)
    return
  }
}
