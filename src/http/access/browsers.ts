/** What pages in browsers may do: the Host header and CORS. */
import { isIP } from 'node:net'
import { FleetError } from '../../contracts/errors.js'
import { strings } from '../../contracts/option-checks.js'
import { continueHeader, errorCodeHeader } from '../../rules/model/wire.js'
import { shown } from '../../rules/validation/problem.js'
import type { Exchange, Handler } from '../core/exchange.js'
import type { Authorize } from './guard.js'

/**
 * An `authorize` hook that rejects requests for unknown host names. Allows `localhost`, `*.localhost`, IP addresses,
 * `names`, and requests without a `Host` header, which browsers never send.
 */
export function allowedHosts(names: readonly string[] = []): Authorize {
  if (!strings.is(names)) {
    throw new FleetError('invalid', `allowedHosts takes an array of host names, but got ${shown(names)}`)
  }
  const allowed = new Set(['localhost', ...names.map((name) => name.toLowerCase())])
  const isAllowed = (host: string) => allowed.has(host) || host.endsWith('.localhost') || isIP(host) !== 0
  /** Caches the last allowed header, since most callers always use the same name. */
  let lastAllowed: string | undefined
  return (request) => {
    const header = request.header('host')
    if (header === undefined || header === lastAllowed) return true
    const host = header.toLowerCase().replace(/:\d+$/, '')
    if (!isAllowed(host.replace(/^\[(.*)\]$/, '$1'))) {
      const hint = 'use localhost or an IP address, or add the name to allowedHosts'
      throw new FleetError('forbidden', `host name ${shown(host)} is not allowed; ${hint}`)
    }
    lastAllowed = header
    return true
  }
}

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
