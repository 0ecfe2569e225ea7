/** Requests as this client makes them: with a limit in time, made again where that is safe, failing as a FleetError. */
import { FleetError, messageOf, throwIfAborted } from '../contracts/errors.js'
import { errorOf, isPassing, retryAfterMs } from './failures.js'
import { limited, pause } from './timing.js'

export interface ConnectionOptions {
  /** Sent as `Authorization: Bearer …`. A function is asked before each request. */
  readonly token?: string | (() => string | Promise<string>)
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** How long to wait for an answer, besides the time that `waitMs` asks for. Default 10 s. */
  readonly timeoutMs?: number
  /** How often a call that failed is made again, where that is safe and may help. Default 2. */
  readonly retries?: number
  /** Default: the global one. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
}

export interface Call {
  readonly url: string
  /** Default GET. */
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** May be made again though nobody knows what has become of it. Default false. */
  readonly isSafe?: boolean
  /** Sent as `?wait=`: less of it is left for every time that the call is made again. */
  readonly waitMs?: number
  readonly signal?: AbortSignal | undefined
}

export interface Connection {
  json<T>(call: Call): Promise<T>
  nothing(call: Call): Promise<void>
  /** A single request, whose answer has come and is a good one; its body is not read yet, and `signal` ends it. */
  open(call: Call): Promise<Response>
}

const firstPauseMs = 100

export function connection(options: ConnectionOptions): Connection {
  const { token, timeoutMs = 10_000, retries = 2 } = options
  const fetch = options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init))

  async function headersOf(call: Call): Promise<Record<string, string>> {
    const bearer = typeof token === 'function' ? await asked(token) : token
    return {
      Accept: 'application/json',
      ...(call.body !== undefined && { 'Content-Type': 'application/json' }),
      ...(bearer !== undefined && { Authorization: `Bearer ${bearer}` }),
      ...options.headers,
      ...call.headers,
    }
  }

  async function request(call: Call, url: string, signal: AbortSignal): Promise<Response> {
    const headers = await headersOf(call)
    const body = call.body === undefined ? {} : { body: JSON.stringify(call.body) }
    return fetch(url, { method: call.method ?? 'GET', headers, ...body, signal })
  }

  /** One request, and the text of its answer. */
  async function attempt(call: Call, waitMs: number): Promise<string> {
    const url = waitMs > 0 ? `${call.url}?wait=${(waitMs / 1000).toFixed(3)}` : call.url
    return limited(timeoutMs + waitMs, call.signal, async (signal) => {
      const response = await request(call, url, signal)
      const text = await response.text()
      if (!response.ok) throw errorOf(response, text)
      return text
    })
  }

  async function text(call: Call): Promise<string> {
    const { isSafe = false, waitMs = 0, signal } = call
    const startedAt = performance.now()
    for (let made = 0; ; made++) {
      throwIfAborted(signal)
      const leftMs = made === 0 ? waitMs : Math.max(0, waitMs - (performance.now() - startedAt))
      try {
        return await attempt(call, leftMs)
      } catch (thrown) {
        throwIfAborted(signal)
        const error = asFleetError(thrown, call)
        if (made >= retries || !isPassing(error, isSafe)) throw error
        await pause(retryAfterMs(error) ?? firstPauseMs * 2 ** made, signal)
      }
    }
  }

  return {
    async json<T>(call: Call): Promise<T> {
      const answer = await text(call)
      try {
        const value: T = JSON.parse(answer)
        return value
      } catch (error) {
        throw new FleetError('internal', `${call.url} answered with what is not JSON`, { cause: error })
      }
    },
    async nothing(call) {
      await text(call)
    },
    async open(call) {
      try {
        // How long the answer goes on is up to who reads it; that it begins is not.
        const response = await limited(timeoutMs, call.signal, (signal) => request(call, call.url, signal), true)
        if (!response.ok) throw errorOf(response, await response.text())
        return response
      } catch (error) {
        throwIfAborted(call.signal)
        throw asFleetError(error, call)
      }
    },
  }
}

async function asked(token: () => string | Promise<string>): Promise<string> {
  try {
    return await token()
  } catch (error) {
    throw new FleetError('unauthenticated', `the token could not be had: ${messageOf(error)}`, { cause: error })
  }
}

function asFleetError(error: unknown, { url }: Call): FleetError {
  if (FleetError.is(error)) return error
  return new FleetError('unavailable', `${url} cannot be reached: ${messageOf(error)}`, { cause: error })
}
