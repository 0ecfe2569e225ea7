/** What one host takes on at most, over HTTP: defaults, and how they are checked. Shown in docs/reference/http-api.md. */
import { FleetError } from '../../contracts/errors.js'
import { defaultHttpServerLimits, type HttpServerLimits } from '../../platform/http-server.js'
import { shown } from '../../rules/validation/problem.js'
import { defaultMaxBodyBytes } from '../core/body.js'
import { defaultMaxInFlight, roomToWait } from '../access/guard.js'

export interface ServeLimits extends HttpServerLimits {
  /** A larger body is refused with 413. */
  readonly maxBodyBytes: number
  /** Requests in work at once, of each API; more are refused with 503. */
  readonly maxInFlight: number
  /** Callers that wait for a server at once; more are refused with 503. Default: four fifths of `maxInFlight`. */
  readonly maxWaiting: number
}

export const defaultServeLimits: ServeLimits = Object.freeze({
  ...defaultHttpServerLimits,
  maxBodyBytes: defaultMaxBodyBytes,
  maxInFlight: defaultMaxInFlight,
  maxWaiting: roomToWait(defaultMaxInFlight),
})

/** Throws `invalid`, naming the limit, when one is not known or not a whole number above 0. */
export function resolveServeLimits(given: Partial<ServeLimits> = {}): ServeLimits {
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(defaultServeLimits, name)) {
      const known = Object.keys(defaultServeLimits).join(', ')
      throw new FleetError('invalid', `limits.${name} is not a limit of serve; known are ${known}`)
    }
    if (!Number.isInteger(value) || value < 1) {
      throw new FleetError('invalid', `limits.${name} must be an integer ≥ 1, but is ${shown(value)}`)
    }
  }
  const { maxInFlight = defaultMaxInFlight } = given
  return Object.freeze({ ...defaultServeLimits, maxWaiting: roomToWait(maxInFlight), ...given })
}
