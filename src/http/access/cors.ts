/** CORS: allows web pages from other origins to call these routes. */
import { continueHeader, errorCodeHeader } from '../../rules/model/wire.js'
import type { Exchange, Handler } from '../core/exchange.js'

export interface CorsOptions {
  /**
   * Origins whose pages may call these routes, for example `https://console.example`. `*` allows all origins; use it only if
   * `authorize` checks a credential that browsers do not send automatically. Default: none.
   */
  readonly allowedOrigins?: readonly string[]
}

export interface Cors {
  readonly isAllowed: (origin: string) => boolean
}

/** Returns undefined if no origin is allowed. */
export function corsOf({ allowedOrigins = [] }: CorsOptions): Cors | undefined {
  if (allowedOrigins.length === 0) return undefined
  const allowed = new Set(allowedOrigins)
  return { isAllowed: allowed.has('*') ? () => true : (origin) => allowed.has(origin) }
}

const maxAgeSeconds = 600

/** Adds CORS headers to the handler's responses. `methods`: the methods that the path supports. */
export function crossOrigin({ isAllowed }: Cors, methods: readonly string[], handle: Handler): Handler {
  return async (exchange) => {
    const response = await handle(exchange)
    const origin = exchange.header('origin')
    const headers = { ...response.headers, Vary: 'Origin' }
    if (origin === undefined || !isAllowed(origin)) return { ...response, headers }
    return { ...response, headers: { ...headers, ...headersFor(origin, exchange, methods) } }
  }
}

function headersFor(origin: string, exchange: Exchange, methods: readonly string[]): Readonly<Record<string, string>> {
  const allowOrigin = { 'Access-Control-Allow-Origin': origin }
  if (exchange.method !== 'OPTIONS') {
    return { ...allowOrigin, 'Access-Control-Expose-Headers': `${errorCodeHeader}, ${continueHeader}, Retry-After` }
  }
  return {
    ...allowOrigin,
    'Access-Control-Allow-Methods': methods.join(', '),
    'Access-Control-Allow-Headers': 'Authorization, Content-Type, Last-Event-ID',
    'Access-Control-Max-Age': String(maxAgeSeconds),
  }
}
