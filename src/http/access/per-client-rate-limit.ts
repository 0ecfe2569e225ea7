/** A ready-made `rateLimit` hook: a token bucket for each caller. */
import { isIPv6 } from 'node:net'
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import { aClock, aFunction, aNumber, checkOptions, type OptionTypes, required } from '../../contracts/option-checks.js'
import type { ApiRequest } from '../core/exchange.js'
import { type BearerToken, digestOf, tokenIn } from './bearer-tokens.js'
import type { RateLimit } from './guard.js'

export interface PerClientRateLimitOptions {
  /** Sustained calls per second. */
  readonly perSecond: number
  /** Maximum number of calls in a burst. Default: `perSecond`, at least 1. */
  readonly burst?: number
  /**
   * Identifies the caller. Default: the remote address, of which IPv6 counts by its first 64 bits (/64). Behind a proxy, that is
   * the proxy's address.
   */
  readonly callerOf?: (request: ApiRequest) => string
  /**
   * Requests with one of these tokens have a limit of their own, for each token and caller, so that nobody without a token can
   * use it up. All other requests of a caller share one limit. Default: none.
   */
  readonly tokens?: readonly Pick<BearerToken, 'token'>[]
  /** Maximum number of callers tracked at once; the least recently seen is forgotten first. Default 10,000. */
  readonly maxCallers?: number
  /** Default: the system clock. */
  readonly clock?: Clock
}

const optionTypes: OptionTypes<PerClientRateLimitOptions> = {
  perSecond: required(aNumber),
  burst: aNumber,
  callerOf: aFunction,
  tokens: { must: 'must be an array of tokens, as bearerTokens takes them', is: Array.isArray },
  maxCallers: aNumber,
  clock: aClock,
}

interface Bucket {
  tokens: number
  refilledAt: number
}

/** Throws `invalid` if a number is out of range. */
export function perClientRateLimit(options: PerClientRateLimitOptions): RateLimit {
  checkOptions('perClientRateLimit', options, optionTypes)
  const { perSecond, callerOf = networkOf, tokens = [], maxCallers = 10_000, clock = systemClock } = options
  const burst = options.burst ?? Math.max(1, perSecond)
  for (const [name, value] of Object.entries({ perSecond, burst, maxCallers })) {
    if (!(value > 0))
      throw new FleetError('invalid', `perClientRateLimit: ${name} must be a number above 0, but is ${value}`)
  }
  if (burst < 1) {
    throw new FleetError('invalid', `perClientRateLimit: burst must be at least 1, but is ${burst}; no call would pass`)
  }
  /** Ordered from the least to the most recently seen caller. */
  const buckets = new Map<string, Bucket>()
  const known = new Set(tokens.map(({ token }) => keyOf(token)))

  return (request) => {
    const caller = `${tokenKey(request, known)}${callerOf(request)}`
    const now = clock.elapsed()
    const bucket = buckets.get(caller) ?? { tokens: burst, refilledAt: now }
    buckets.delete(caller)
    buckets.set(caller, bucket)
    if (buckets.size > maxCallers) for (const oldest of buckets.keys()) if (buckets.delete(oldest)) break
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.refilledAt) / 1000) * perSecond)
    bucket.refilledAt = now
    if (bucket.tokens < 1) return ((1 - bucket.tokens) / perSecond) * 1000
    bucket.tokens--
    return undefined
  }
}

function networkOf(request: ApiRequest): string {
  return clientNetwork(request.remoteAddress ?? '')
}

/** Empty for a request without a valid token. */
function tokenKey(request: ApiRequest, known: ReadonlySet<string>): string {
  const token = known.size === 0 ? undefined : tokenIn(request)
  const key = token === undefined ? '' : keyOf(token)
  return known.has(key) ? `${key} ` : ''
}

/** The limiter keeps no tokens. */
function keyOf(token: string): string {
  return digestOf(token).toString('base64')
}

/**
 * Returns an IPv4 address unchanged, and the first 64 bits of an IPv6 address: a single client usually has all addresses
 * that begin with them. An IPv4 address in IPv6 form is an IPv4 address.
 */
export function clientNetwork(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const bare = address.split('%', 1)[0] ?? ''
  if (!isIPv6(bare)) return address
  const [head = '', tail] = bare.split('::')
  const first = groupsOf(head)
  const last = groupsOf(tail ?? '')
  const zeros = Array.from({ length: Math.max(0, 8 - first.length - last.length) }, () => '0')
  const groups = tail === undefined ? first : [...first, ...zeros, ...last]
  const network = groups.slice(0, 4).map((group) => parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

/** An IPv4 address at the end counts as two groups. Their values do not matter: they are outside the first 64 bits. */
function groupsOf(part: string): readonly string[] {
  return part === '' ? [] : part.split(':').flatMap((group) => (group.includes('.') ? ['0', '0'] : [group]))
}
