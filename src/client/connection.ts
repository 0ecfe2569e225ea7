/** Sends the client's requests with a timeout, retries them if that is safe, and converts failures to a FleetError. */
import { FleetError, messageOf, throwIfAborted } from '../contracts/errors.js'
import { defaultConfirmMs } from '../rules/planning/allocation.js'
import { errorOf, isRetryable, retryAfterMs } from './failures.js'
import { pause, withTimeout } from './timing.js'

export interface ConnectionOptions {
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

export interface Call {
  readonly url: string
  /** Default GET. */
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** The call may be repeated even if the outcome of the first attempt is unknown. Default false. */
  readonly isIdempotent?: boolean
  /** Sent as `?wait=`. A retry sends only the remaining time. */
  readonly waitMs?: number | undefined
  /** Sent as `?confirm=true`. */
  readonly confirm?: boolean
  /** Added to the query, without those that are undefined. */
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly signal?: AbortSignal | undefined
}

export interface JsonAnswer<T> {
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
      throw new FleetError('internal', `${call.url} did not answer with JSON`, { cause: error })
    }
  }

  /** Resolves with a successful response, after retries. */
  async send(call: Call): Promise<Answer> {
    const { isIdempotent = false, waitMs, signal } = call
    const startedAt = performance.now()
    for (let attempt = 0; ; attempt++) {
      throwIfAborted(signal)
      const leftMs =
        attempt === 0 || waitMs === undefined ? waitMs : Math.max(0, waitMs - (performance.now() - startedAt))
      try {
        return await this.#attempt(call, leftMs)
      } catch (thrown) {
        throwIfAborted(signal)
        const error = asFleetError(thrown, call)
        if (attempt >= this.#retries || !isRetryable(error, isIdempotent)) throw error
        await pause(retryAfterMs(error) ?? initialPauseMs * 2 ** attempt, signal)
      }
    }
  }

  /** Sends one request. Resolves with a successful response whose body has not been read. `signal` ends the response. */
  async open(call: Call): Promise<Response> {
    try {
      // The timeout covers only the start of the response; the reader decides how long to keep reading.
      const response = await withTimeout(
        this.#timeoutMs,
        call.signal,
        (signal) => this.#fetchOnce(call, call.url, signal),
        true,
      )
      if (!response.ok) throw errorOf(response, await response.text())
      return response
    } catch (error) {
      throwIfAborted(call.signal)
      throw asFleetError(error, call)
    }
  }

  async #attempt(call: Call, waitMs: number | undefined): Promise<Answer> {
    const url = withQuery(call, waitMs)
    const answerMs = waitMs ?? (call.confirm ? defaultConfirmMs : 0)
    return withTimeout(this.#timeoutMs + answerMs, call.signal, async (signal) => {
      const response = await this.#fetchOnce(call, url, signal)
      const text = await response.text()
      if (!response.ok) throw errorOf(response, text)
      return { text, headers: response.headers }
    })
  }

  async #fetchOnce(call: Call, url: string, signal: AbortSignal): Promise<Response> {
    const headers = await this.#headersOf(call)
    const body = call.body === undefined ? {} : { body: JSON.stringify(call.body) }
    return this.#fetch(url, { method: call.method ?? 'GET', headers, ...body, signal })
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

function withQuery({ url, query: given = {}, confirm }: Call, waitMs: number | undefined): string {
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

function asFleetError(error: unknown, { url }: Call): FleetError {
  if (FleetError.is(error)) return error
  return new FleetError('unavailable', `${url} cannot be reached: ${messageOf(error)}`, { cause: error })
}
