/** Sends the client's requests with a timeout, retries them if that is safe, and converts failures to a FleetError. */
import {
  type ErrorCode,
  errorCodes,
  type ErrorDetails,
  FleetError,
  messageOf,
  throwIfAborted,
} from '../contracts/errors.js'
import {
  isIdempotentOperation,
  type OperationName,
  operations,
  type PathParameter,
  type QueryParameterName,
} from '../http/operations.js'
import { errorCodeHeader } from '../rules/model/wire.js'
import { defaultConfirmMs } from '../rules/model/allocation-request.js'
import { isObject, shown } from '../rules/validation/problem.js'

export interface ConnectionOptions {
  /** Base URL for the allocation API, if it differs from `url`. `serve` returns both URLs. */
  readonly allocationUrl?: string
  /** Base URL for the management API and events, if it differs from `url`. */
  readonly managementUrl?: string
  /** Sent as `Authorization: Bearer …`. If it is a function, the client calls it before each request. */
  readonly token?: string | (() => string | Promise<string>)
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How long to wait for a response, in addition to the time that the call may wait at the host. Default 10 s. */
  readonly timeoutMs?: number
  /** How often a failed call is retried, if a retry is safe. Default 2. */
  readonly retries?: number
  /** Default: the global `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

/** An operation, and its path with the names of what it concerns. */
export interface Target {
  readonly operation: OperationName
  readonly path: string
}

type Names<N extends OperationName> = [PathParameter<N>] extends [never]
  ? []
  : [names: Readonly<Record<PathParameter<N>, string>>]

/** Throws `invalid` for a name that cannot be part of a path. */
export function to<N extends OperationName>(operation: N, ...[names]: Names<N>): Target {
  const segments = new Map<string, string>(Object.entries(names ?? {}))
  const path = operations[operation].path.replaceAll(/:(\w+)/g, (_, name: string) => segment(segments.get(name)))
  return { operation, path }
}

/**
 * A part of a path. A URL can contain neither an empty one nor one of dots, which would lead to another resource; nothing has such a
 * name.
 */
function segment(id: unknown): string {
  if (typeof id === 'string' && !/^\.{0,2}$|\p{Cs}/u.test(id)) return encodeURIComponent(id)
  throw new FleetError('invalid', `an id or name must be a string other than "", . and .., but is ${shown(id)}`)
}

export interface Call extends Target {
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as `?wait=`. A retry sends only the remaining time. */
  readonly waitMs?: number | undefined
  /** Sent as `?confirm=true`. */
  readonly confirm?: boolean
  /** Added to the query, without those that are undefined. */
  readonly query?: Readonly<Partial<Record<QueryParameterName, string | number | boolean | undefined>>>
  readonly signal?: AbortSignal | undefined
}

interface JsonAnswer<T> {
  readonly value: T
  readonly headers: Headers
}

interface Answer {
  readonly text: string
  readonly headers: Headers
}

const initialPauseMs = 100

export class Connection {
  readonly #options: ConnectionOptions
  readonly #timeoutMs: number
  readonly #retries: number
  readonly #fetch: (url: string, init: RequestInit) => Promise<Response>

  constructor(options: ConnectionOptions) {
    const { timeoutMs = 10_000, retries = 2 } = options
    this.#options = options
    this.#timeoutMs = timeoutMs
    this.#retries = retries
    this.#fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init))
  }

  /** Resolves with the response body, parsed as JSON. */
  async json<T>(call: Call): Promise<T> {
    return (await this.answer<T>(call)).value
  }

  /** Resolves with the response body, parsed as JSON, and the response headers. */
  async answer<T>(call: Call): Promise<JsonAnswer<T>> {
    const { text, headers } = await this.send(call)
    try {
      const value: T = JSON.parse(text)
      return { value, headers }
    } catch (error) {
      throw new FleetError('internal', `${this.urlOf(call)} did not answer with JSON`, { cause: error })
    }
  }

  /** Resolves with a successful response, after retries. */
  async send(call: Call): Promise<Answer> {
    const { operation, waitMs, signal } = call
    const url = this.urlOf(call)
    const startedAt = performance.now()
    for (let attempt = 0; ; attempt++) {
      throwIfAborted(signal)
      const leftMs =
        attempt === 0 || waitMs === undefined ? waitMs : Math.max(0, waitMs - (performance.now() - startedAt))
      try {
        return await this.#attempt(call, url, leftMs)
      } catch (thrown) {
        throwIfAborted(signal)
        const error = asFleetError(thrown, url)
        if (attempt >= this.#retries || !isRetryable(error, isIdempotentOperation(operation))) throw error
        await pause(retryAfterMs(error) ?? initialPauseMs * 2 ** attempt, signal)
      }
    }
  }

  /** Sends one request. Resolves with a successful response whose body has not been read. `signal` ends the response. */
  async open(call: Call): Promise<Response> {
    const url = this.urlOf(call)
    try {
      // The timeout covers only the start of the response; the reader decides how long to keep reading.
      const response = await withTimeout(
        this.#timeoutMs,
        call.signal,
        (signal) => this.#fetchOnce(call, withQuery(url, call, undefined), signal),
        true,
      )
      if (!response.ok) throw errorOf(response, await response.text())
      return response
    } catch (error) {
      throwIfAborted(call.signal)
      throw asFleetError(error, url)
    }
  }

  /** Without the query. Throws `invalid` if the client has no URL of the operation's API. */
  urlOf({ operation, path }: Target): string {
    const option = operations[operation].api === 'allocation' ? 'allocationUrl' : 'managementUrl'
    const { [option]: base } = this.#options
    if (base === undefined) throw new FleetError('invalid', `fleetClient needs ${option} for this call`)
    return `${base.replace(/\/+$/, '')}${path}`
  }

  async #attempt(call: Call, url: string, waitMs: number | undefined): Promise<Answer> {
    const answerMs = waitMs ?? (call.confirm ? defaultConfirmMs : 0)
    return withTimeout(this.#timeoutMs + answerMs, call.signal, async (signal) => {
      const response = await this.#fetchOnce(call, withQuery(url, call, waitMs), signal)
      const text = await response.text()
      if (!response.ok) throw errorOf(response, text)
      return { text, headers: response.headers }
    })
  }

  async #fetchOnce(call: Call, url: string, signal: AbortSignal): Promise<Response> {
    const headers = await this.#headersOf(call)
    const body = call.body === undefined ? {} : { body: JSON.stringify(call.body) }
    return this.#fetch(url, { method: operations[call.operation].method, headers, ...body, signal })
  }

  async #headersOf(call: Call): Promise<Record<string, string>> {
    const { token, headers } = this.#options
    const bearer = typeof token === 'function' ? await readToken(token) : token
    // `fetch` would quote the token in its error.
    if (bearer !== undefined && !/^[\x21-\x7e]+$/.test(bearer)) {
      throw new FleetError('invalid', 'the token must be one line of visible ASCII characters without spaces')
    }
    return {
      Accept: 'application/json',
      ...(call.body !== undefined && { 'Content-Type': 'application/json' }),
      ...(bearer !== undefined && { Authorization: `Bearer ${bearer}` }),
      ...headers,
      ...call.headers,
    }
  }
}

function withQuery(url: string, { query: given = {}, confirm }: Call, waitMs: number | undefined): string {
  const query = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  )
  // With `confirm`, `wait=0` differs from no `wait`.
  if (waitMs !== undefined && (waitMs > 0 || confirm)) query.push(`wait=${Math.round(waitMs) / 1000}`)
  if (confirm) query.push('confirm=true')
  return query.length === 0 ? url : `${url}?${query.join('&')}`
}

async function readToken(token: () => string | Promise<string>): Promise<string> {
  try {
    return await token()
  } catch (error) {
    throw new FleetError('unauthenticated', `the token option failed: ${messageOf(error)}`, { cause: error })
  }
}

function asFleetError(error: unknown, url: string): FleetError {
  if (FleetError.is(error)) return error
  return new FleetError('unavailable', `${url} cannot be reached: ${messageOf(error)}`, { cause: error })
}

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

/**
 * Runs `work` with a signal that fires after `ms` or together with the caller's signal. Listens to the caller's signal until
 * `work` settles. With `followsForever` it keeps listening, for a result that continues afterwards, such as a stream.
 */
async function withTimeout<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
  followsForever = false,
): Promise<T> {
  const stop = new AbortController()
  const onAbort = () => stop.abort(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort, { once: true })
  const timedOut = new FleetError('unavailable', `no answer within ${ms} ms`)
  const timer = setTimeout(() => stop.abort(timedOut), ms)
  try {
    return await work(stop.signal)
  } catch (error) {
    throw stop.signal.reason === timedOut ? timedOut : error
  } finally {
    clearTimeout(timer)
    if (!followsForever) signal?.removeEventListener('abort', onAbort)
  }
}

/**
 * Resolves after `ms` plus a random delay of up to half of `ms`, so that clients do not retry at the same time. Throws
 * `aborted`.
 */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms * (1 + Math.random() / 2))
    function done() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    if (signal?.aborted) done()
    signal?.addEventListener('abort', done, { once: true })
  })
  throwIfAborted(signal)
}
