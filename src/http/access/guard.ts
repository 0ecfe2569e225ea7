/** Checks that run before a handler: the limit on concurrent requests, then the host app's hooks. */
import { FleetError } from '../../contracts/errors.js'
import { type Logger, loggerOf } from '../../contracts/logger.js'
import { aFunction, aLogger, aNumber, type OptionTypes } from '../../contracts/option-checks.js'
import { counted, isObject } from '../../rules/validation/problem.js'
import type { ApiRequest, Exchange, Handler, Identity } from '../core/exchange.js'
import { HttpError, retryAfter } from '../core/responses.js'
import type { Operation } from '../operations.js'

/** `false`, and any value that is neither `true` nor an identity, rejects the request. */
export type Verdict = boolean | Identity

/**
 * Return true to allow the request, or `{ caller: name }` to also name the caller in the audit; any other value results in 403. Throw a FleetError `unauthenticated` if the caller is
 * unknown, which results in 401. Any other error, except `forbidden`, results in 500: it is logged but not sent to the
 * caller.
 */
export type Authorize = (request: ApiRequest, operation: Operation) => Verdict | Promise<Verdict>

/** Returns after how many ms the caller may retry, which results in 429; 0 or undefined allows the request. */
export type RateLimit = (request: ApiRequest, operation: Operation) => number | undefined | Promise<number | undefined>

/** Options shared by all functions that create routes. */
export interface GuardOptions {
  /** Called before every operation. Default: allows every caller. */
  readonly authorize?: Authorize
  /**
   * Called before `authorize`, so that it also slows down attempts to guess tokens. Default: no limit. See
   * `perClientRateLimit`.
   */
  readonly rateLimit?: RateLimit
  /**
   * Maximum number of requests processed at once; further requests get 503. Callers that wait for a game server do not
   * count: the fleet limits them separately (`limits.maxWaiting`). Default 10,000.
   */
  readonly maxInFlight?: number
  /** Logs errors thrown by hooks. Default: stderr; false: none. */
  readonly logger?: Logger | false
}

/** For the tables of functions whose options include these. */
export const guardOptionTypes: OptionTypes<GuardOptions> = {
  authorize: aFunction,
  rateLimit: aFunction,
  maxInFlight: aNumber,
  logger: aLogger,
}

export const defaultMaxInFlight = 10_000

export interface Guard {
  /** Shared by all operations in a group of routes. */
  readonly inFlight: ConcurrencyLimit
  /** Returns a handler that runs the hooks first, or `handle` itself if there are no hooks. */
  before(operation: Operation, handle: Handler): Handler
}

export function guard(options: GuardOptions): Guard {
  const { authorize, rateLimit, maxInFlight = defaultMaxInFlight } = options
  const logger = loggerOf(options.logger)
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
  const admit = (verdict: unknown, exchange: Exchange) => {
    if (isIdentity(verdict)) exchange.identity = verdict
    // A hook that returns another value, or nothing, has not allowed the request.
    else if (verdict !== true) throw new FleetError('forbidden', `the operation ${operation.name} is not allowed`)
  }
  return withHook(authorize, operation, { admit, failed, handle })
}

function isIdentity(verdict: unknown): verdict is Identity {
  return isObject(verdict) && typeof verdict['caller'] === 'string' && verdict['caller'] !== ''
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
  /** Throws if the hook's result refuses the request. */
  readonly admit: (result: T, exchange: Exchange) => void
  /** Returns the error to respond with if the hook throws. */
  readonly failed: (error: unknown) => unknown
  readonly handle: Handler
}

/** Returns a handler that runs the hook first. A synchronous hook adds no turn of the event loop. */
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
          admit(value, exchange)
          return handle(exchange)
        },
        (error: unknown) => {
          throw failed(error)
        },
      )
    }
    admit(result, exchange)
    return handle(exchange)
  }
}

function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && 'then' in value
}

/**
 * Passes on `unauthenticated` and `forbidden`. Logs and replaces any other error, which may contain details that the caller
 * must not see.
 */
function hookError(hook: string, message: string, logger: Logger): (error: unknown) => unknown {
  return (error) => {
    if (FleetError.is(error, 'unauthenticated') || FleetError.is(error, 'forbidden')) return error
    logger.error({ err: error, hook }, 'request hook failed')
    return new FleetError('internal', message)
  }
}

/** Limits how many requests are processed at once. */
export class ConcurrencyLimit {
  readonly #max: number
  #running = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Throws `overloaded` if the limit is reached. Otherwise the caller must call `leave` when the request ends. */
  enter(): void {
    if (this.#running >= this.#max) {
      const running = counted(this.#running, 'request is', 'requests are')
      throw new FleetError('overloaded', `${running} in flight, the limit of this host; retry later`)
    }
    this.#running++
  }

  leave(): void {
    this.#running--
  }

  /** Counts while `work` runs. Rejects with `overloaded` if the limit is reached. */
  async whileCounted<T>(work: () => Promise<T>): Promise<T> {
    this.enter()
    try {
      return await work()
    } finally {
      this.leave()
    }
  }

  /**
   * Does not count the request while `work` runs. Used while a caller waits for a server: the fleet limits the number of
   * waiting callers.
   */
  async whileUncounted<T>(work: () => Promise<T>): Promise<T> {
    this.#running--
    try {
      return await work()
    } finally {
      this.#running++
    }
  }
}
