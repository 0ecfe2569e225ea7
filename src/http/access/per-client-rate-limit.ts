/** A ready-made `rateLimit` hook: a token bucket for each caller. */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { ApiRequest } from '../core/exchange.js'
import type { RateLimit } from './guard.js'

export interface PerClientRateLimitOptions {
  /** Sustained calls per second. */
  readonly perSecond: number
  /** Maximum number of calls in a burst. Default: `perSecond`, at least 1. */
  readonly burst?: number
  /** Identifies the caller. Default: the remote address, which is the proxy's address if the host is behind a proxy. */
  readonly callerOf?: (request: ApiRequest) => string
  /** Maximum number of callers tracked at once; the least recently seen is forgotten first. Default 10,000. */
  readonly maxCallers?: number
  /** Default: the system clock. */
  readonly clock?: Clock
}

interface Bucket {
  tokens: number
  refilledAt: number
}

/** Throws `invalid` if a number is out of range. */
export function perClientRateLimit(options: PerClientRateLimitOptions): RateLimit {
  const { perSecond, callerOf = addressOf, maxCallers = 10_000, clock = systemClock } = options
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

  return (request) => {
    const caller = callerOf(request)
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

function addressOf(request: ApiRequest): string {
  return request.remoteAddress ?? ''
}
