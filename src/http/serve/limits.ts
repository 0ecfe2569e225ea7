/** The limits that `serve` accepts, listed in docs/reference/http-api.md: defaults and validation. */
import { FleetError } from '../../contracts/errors.js'
import { defaultHttpServerLimits, type HttpServerLimits } from '../../platform/http-server.js'
import { shown } from '../../rules/validation/problem.js'
import { defaultMaxInFlight } from '../access/guard.js'
import { defaultMaxBodyBytes } from '../core/bodies.js'

export interface ServeLimits extends HttpServerLimits {
  /** Larger bodies get 413. */
  readonly maxBodyBytes: number
  /**
   * Maximum number of requests that each API processes at once; further requests get 503. Callers that wait for a server do
   * not count.
   */
  readonly maxInFlight: number
}

export const defaultServeLimits: ServeLimits = Object.freeze({
  ...defaultHttpServerLimits,
  maxBodyBytes: defaultMaxBodyBytes,
  maxInFlight: defaultMaxInFlight,
})

/**
 * While a caller waits for a server, its connection may be silent for up to `maxWaitMs`. The stall timeout is longer than
 * that by at least this margin.
 */
const stallMarginMs = 60_000

/** Throws `invalid`, naming the limit, if a limit is unknown or its value is not an integer ≥ 1. */
export function resolveServeLimits(overrides: Partial<ServeLimits> = {}, maxWaitMs = 0): ServeLimits {
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(defaultServeLimits, name)) {
      const names = Object.keys(defaultServeLimits).join(', ')
      throw new FleetError('invalid', `limits.${name} is not a limit of serve; known are ${names}`)
    }
    if (!Number.isInteger(value) || value < 1) {
      throw new FleetError('invalid', `limits.${name} must be an integer ≥ 1, but is ${shown(value)}`)
    }
  }
  const stallTimeoutMs = Math.max(defaultServeLimits.stallTimeoutMs, maxWaitMs + stallMarginMs)
  return Object.freeze({ ...defaultServeLimits, stallTimeoutMs, ...overrides })
}
