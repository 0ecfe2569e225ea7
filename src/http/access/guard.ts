/** Checks that run before a handler: the limit of requests in flight, then the host's hooks. */
import { FleetError } from '../../contracts/errors.js'
import { type Logger, silentLogger } from '../../contracts/logger.js'
import type { Operation } from '../api/operations.js'
import type { ApiRequest, Handler } from '../core/exchange.js'
import { HttpError, retryAfter } from '../core/http-response.js'
import { ConcurrencyLimit } from './concurrency-limit.js'

/**
 * True allows the request; any other value is 403. Throw a FleetError `unauthenticated` for an unknown caller, which is
 * 401. Any other error is 500: the logger gets it, the caller does not.
 */
export type Authorize = (request: ApiRequest, operation: Operation) => boolean | Promise<boolean>

/** Returns in how many ms this caller may retry, which makes the response 429; 0 or undefined allows the request. */
export type RateLimit = (request: ApiRequest, operation: Operation) => number | undefined | Promise<number | undefined>

/** Options of every factory of routes. */
export interface GuardOptions {
  /** Called before every operation. Default: every caller may do everything. */
  readonly authorize?: Authorize
  /** Called before `authorize`, so that guessing tokens is slow. Default: no limit. See `perClientRateLimit`. */
  readonly rateLimit?: RateLimit
  /**
   * Requests processed at once; more are refused with 503. Callers that wait for a game server do not count: the fleet
   * limits them (`limits.maxWaiting`). Default 10,000.
   */
  readonly maxInFlight?: number
  /** Gets the errors of hooks. Default: silent. */
  readonly logger?: Logger
}

export const defaultMaxInFlight = 10_000

export interface Guard {
  /** Shared by all operations of a group of routes. */
  readonly inFlight: ConcurrencyLimit
  /** Returns the handler with the hooks in front of it; the handler itself if there are none. */
  before(operation: Operation, handle: Handler): Handler
}

export function guard(options: GuardOptions): Guard {
  const { authorize, rateLimit, logger = silentLogger, maxInFlight = defaultMaxInFlight } = options
  return {
    inFlight: new ConcurrencyLimit(maxInFlight),
    before(operation, handle) {
      const authorized = authorize === undefined ? handle : withAuthorize(authorize, operation, handle, logger)
      return rateLimit === undefined ? authorized : withRateLimit(rateLimit, operation, authorized, logger)
    },
  }
}

function withAuthorize(authorize: Authorize, operation: Operation, handle: Handler, logger: Logger): Handler {
  const failed = hookError('authorize', 'authorization check failed', logger)
  const admit = (verdict: unknown) => {
    // Only true: a hook that returns any other value, or nothing, has not allowed the request.
    if (verdict !== true) throw new FleetError('forbidden', `the operation ${operation.name} is not allowed`)
  }
  return withHook(authorize, operation, { admit, failed, handle })
}

function withRateLimit(rateLimit: RateLimit, operation: Operation, handle: Handler, logger: Logger): Handler {
  const failed = hookError('rateLimit', 'rate limit check failed', logger)
  const admit = (pauseMs: number | undefined) => {
    if (pauseMs === undefined || !(pauseMs > 0)) return
    const message = `too many requests; retry in ${Math.ceil(pauseMs / 1000)} s`
    throw new HttpError(429, 'rate-limited', message, retryAfter(pauseMs))
  }
  return withHook(rateLimit, operation, { admit, failed, handle })
}

type Hook<T> = (request: ApiRequest, operation: Operation) => T | PromiseLike<T>

interface HookOptions<T> {
  /** Throws to refuse the request. */
  readonly admit: (result: T) => void
  /** The error to answer with when the hook has thrown. */
  readonly failed: (error: unknown) => unknown
  readonly handle: Handler
}

/** Returns the handler with a hook in front of it. A synchronous hook costs no turn of the event loop. */
function withHook<T>(hook: Hook<T>, operation: Operation, { admit, failed, handle }: HookOptions<T>): Handler {
  return (exchange) => {
    let result: T | PromiseLike<T>
    try {
      result = hook(exchange, operation)
    } catch (error) {
      throw failed(error)
    }
    if (isPromise(result)) {
      return Promise.resolve(result).then(
        (value) => {
          admit(value)
          return handle(exchange)
        },
        (error: unknown) => {
          throw failed(error)
        },
      )
    }
    admit(result)
    return handle(exchange)
  }
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value
}

/** Hides other errors of a hook, which may contain what the caller must not see. */
function hookError(hook: string, message: string, logger: Logger): (error: unknown) => unknown {
  return (error) => {
    if (FleetError.is(error, 'unauthenticated') || FleetError.is(error, 'forbidden')) return error
    logger.error({ err: error, hook }, 'a request hook failed')
    return new FleetError('internal', message)
  }
}
