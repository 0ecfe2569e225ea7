/**
 * Who may come in: what stands between a request and its handler, in the order in which it is asked. Nothing does where a
 * host asks for nothing.
 */
import { FleetError, messageOf } from '../../contracts/errors.js'
import { type Logger, silentLogger } from '../../contracts/logger.js'
import { type ApiRequest, type Handler, HttpError, retryAfter } from '../core/exchange.js'
import type { Operation } from '../api/operations.js'

/**
 * True lets the caller in; anything else is 403. Throws a FleetError `unauthenticated` where nobody knows who is calling,
 * which is 401. Whatever else it throws is 500, and told to the logger only.
 */
export type Authorize = (request: ApiRequest, operation: Operation) => boolean | Promise<boolean>

/** In how many ms this caller may come again, which is 429; 0 or undefined lets the call through. */
export type RateLimit = (request: ApiRequest, operation: Operation) => number | undefined | Promise<number | undefined>

/** What every factory of routes takes. */
export interface GuardOptions {
  /** Asked before every operation. Default: everybody may do everything. */
  readonly authorize?: Authorize
  /** Asked before `authorize`, so that guessing is slow. Default: none. See `perClientRateLimit`. */
  readonly rateLimit?: RateLimit
  /** Requests in work at once; more are refused with 503. Default 10,000. */
  readonly maxInFlight?: number
  /** Hears what a hook has thrown. Default: silent. */
  readonly logger?: Logger
}

export const defaultMaxInFlight = 10_000

/** How many may wait, so that those who do never keep out those who do not. */
export function roomToWait(maxInFlight: number): number {
  return Math.ceil(maxInFlight * 0.8)
}

export interface Guard {
  /** Counts a request in, or throws `overloaded`. Its end is told by calling what this returns. */
  enter(): () => void
  /** The handler with the host's hooks before it; itself where there are none. */
  before(operation: Operation, handle: Handler): Handler
}

/** One guard for all operations of a factory: what is in flight is counted over all of them. */
export function guard(options: GuardOptions): Guard {
  const { authorize, rateLimit, logger = silentLogger, maxInFlight = defaultMaxInFlight } = options
  return {
    enter: turnstile(maxInFlight, 'requests are in work'),
    before(operation, handle) {
      const admitted = authorize === undefined ? handle : withAuthorize(authorize, operation, handle, logger)
      return rateLimit === undefined ? admitted : withRateLimit(rateLimit, operation, admitted, logger)
    },
  }
}

/** Lets `most` in at once, and refuses more with 503. Each who comes in calls what it got when it leaves. */
export function turnstile(most: number, what: string): () => () => void {
  let inside = 0
  const leave = () => {
    inside--
  }
  return () => {
    if (inside >= most) {
      throw new FleetError('overloaded', `${inside} ${what}, and this host takes no more at once; come again`)
    }
    inside++
    return leave
  }
}

function withAuthorize(authorize: Authorize, operation: Operation, handle: Handler, logger: Logger): Handler {
  return async (exchange) => {
    const verdict: unknown = await asked('authorize', logger, () => authorize(exchange, operation))
    // Not `!verdict`: a hook that was forgotten to say yes has not said yes.
    if (verdict !== true) throw new FleetError('forbidden', `you may not ask for ${operation.name} here`)
    return handle(exchange)
  }
}

function withRateLimit(rateLimit: RateLimit, operation: Operation, handle: Handler, logger: Logger): Handler {
  return async (exchange) => {
    const pauseMs = await asked('rateLimit', logger, () => rateLimit(exchange, operation))
    if (pauseMs !== undefined && pauseMs > 0) {
      const message = `too many requests from this caller; come again in ${Math.ceil(pauseMs / 1000)} s`
      throw new HttpError(429, message, retryAfter(pauseMs))
    }
    return handle(exchange)
  }
}

/** What a hook throws may hold what its caller must not see: only errors that it makes for the caller pass. */
async function asked<T>(hook: string, logger: Logger, ask: () => T | Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (FleetError.is(error, 'unauthenticated') || FleetError.is(error, 'forbidden')) throw error
    logger.error({ error: messageOf(error) }, `the ${hook} hook has failed, and the request with it`)
    throw new FleetError('internal', `whether you may ask for this could not be found out`)
  }
}
