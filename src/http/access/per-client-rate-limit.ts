/** A ready-made `rateLimit`: so many calls a second for each caller, and some more at once. */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { ApiRequest } from '../core/exchange.js'
import type { RateLimit } from './guard.js'

export interface PerClientRateLimitOptions {
  /** Calls a second in the long run. */
  readonly perSecond: number
  /** Calls that may come at once. Default: those of one second, at least 1. */
  readonly burst?: number
  /** Whose call it is. Default: the address it comes from, which behind a proxy is the proxy's. */
  readonly callerOf?: (request: ApiRequest) => string
  /** Callers remembered at once; whoever has been quiet for longest is forgotten first. Default 10,000. */
  readonly maxCallers?: number
  /** Default: the real one. */
  readonly clock?: Clock
}

interface Bucket {
  left: number
  at: number
}

/** Throws `invalid` for numbers that are none. */
export function perClientRateLimit(options: PerClientRateLimitOptions): RateLimit {
  const { perSecond, callerOf = addressOf, maxCallers = 10_000, clock = systemClock } = options
  const burst = options.burst ?? Math.max(1, perSecond)
  for (const [name, value] of Object.entries({ perSecond, burst, maxCallers })) {
    if (!(value > 0)) throw new FleetError('invalid', `perClientRateLimit: ${name} must be a number above 0`)
  }
  if (burst < 1)
    throw new FleetError('invalid', 'perClientRateLimit: burst must be at least 1, or nobody ever gets through')
  /** In the order of their last calls. */
  const buckets = new Map<string, Bucket>()

  return (request) => {
    const caller = callerOf(request)
    const now = clock.elapsed()
    const bucket = buckets.get(caller) ?? { left: burst, at: now }
    buckets.delete(caller)
    buckets.set(caller, bucket)
    if (buckets.size > maxCallers) for (const oldest of buckets.keys()) if (buckets.delete(oldest)) break
    bucket.left = Math.min(burst, bucket.left + ((now - bucket.at) / 1000) * perSecond)
    bucket.at = now
    if (bucket.left < 1) return ((1 - bucket.left) / perSecond) * 1000
    bucket.left--
    return undefined
  }
}

function addressOf(request: ApiRequest): string {
  return request.remoteAddress ?? ''
}
