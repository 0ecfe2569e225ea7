/** Lets pages of other origins call these routes from a browser: CORS. */
import { errorCodeHeader } from '../../rules/model/wire.js'
import type { Answer, Exchange, Handler } from '../core/exchange.js'

export interface CorsOptions {
  /**
   * Origins whose pages may call from a browser, as `https://console.example`; `*` is any, and only fit where
   * `authorize` asks for more than what a browser sends by itself. Default: none.
   */
  readonly allowedOrigins?: readonly string[]
}

export interface Cors {
  readonly isAllowed: (origin: string) => boolean
}

/** Undefined where no origin is allowed. */
export function corsOf({ allowedOrigins = [] }: CorsOptions): Cors | undefined {
  if (allowedOrigins.length === 0) return undefined
  const allowed = new Set(allowedOrigins)
  return { isAllowed: allowed.has('*') ? () => true : (origin) => allowed.has(origin) }
}

const rememberSeconds = 600

/** The handler, with the headers that a browser wants to see; `methods` are those of its path. */
export function crossOrigin({ isAllowed }: Cors, methods: readonly string[], handle: Handler): Handler {
  return async (exchange) => {
    const answer = await handle(exchange)
    const origin = exchange.header('origin')
    const headers = { ...answer.headers, Vary: 'Origin' }
    if (origin === undefined || !isAllowed(origin)) return { ...answer, headers }
    return { ...answer, headers: { ...headers, ...headersFor(origin, exchange, methods) } }
  }
}

function headersFor(origin: string, exchange: Exchange, methods: readonly string[]): NonNullable<Answer['headers']> {
  const own = { 'Access-Control-Allow-Origin': origin }
  if (exchange.method !== 'OPTIONS') {
    return { ...own, 'Access-Control-Expose-Headers': `${errorCodeHeader}, Retry-After` }
  }
  return {
    ...own,
    'Access-Control-Allow-Methods': methods.join(', '),
    'Access-Control-Allow-Headers': 'Authorization, Content-Type, Last-Event-ID',
    'Access-Control-Max-Age': String(rememberSeconds),
  }
}
