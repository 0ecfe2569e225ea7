/** The allocation API: one call that hands out a server. */
import type { Hono } from 'hono'
import { FleetError } from '../../contracts/errors.js'
import type { Fleet } from '../../contracts/fleet.js'
import { shown } from '../../rules/validation/problem.js'
import type { AllocationRequest } from '../../rules/model/resources.js'
import { readAllocationRequest } from '../../rules/validation/requests.js'
import type { Allocation } from '../../rules/model/wire.js'
import { defaultMaxBodyBytes } from '../core/body.js'
import { checked } from '../core/checked.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { eitherSignal } from '../core/either-signal.js'
import { type Exchange, json, HttpError } from '../core/exchange.js'
import { allocationStatuses, answerOf } from '../core/error-responses.js'
import { defaultMaxInFlight, guard, type GuardOptions, roomToWait, turnstile } from '../access/guard.js'
import { readJson } from '../core/read-json.js'
import { closer, operation, type Part, routes } from '../core/routing.js'

export interface AllocationRoutesOptions extends GuardOptions, CorsOptions {
  /** A larger body is refused with 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
  /**
   * Callers that wait for a server at once; more are refused with 503. Default: four fifths of `maxInFlight`.
   */
  readonly maxWaiting?: number
  /** Fires when this host closes: calls that wait for a server are answered with 503 at once. */
  readonly closing?: AbortSignal
}

/** The part of a fleet that the allocation API calls. */
export type AllocatingFleet = Pick<Fleet, 'allocate'>

/** A Hono app: mount it as it is, hand its `fetch` to a web-standard runtime, or wrap it in `nodeHandler`. */
export function allocationRoutes(fleet: AllocatingFleet, options: AllocationRoutesOptions = {}): Hono {
  const closing = closer(options.closing)
  return routes([allocationPart(fleet, options, closing.signal)], { closing, cors: corsOf(options) })
}

export function allocationPart(fleet: AllocatingFleet, options: AllocationRoutesOptions, closing: AbortSignal): Part {
  const { maxBodyBytes = defaultMaxBodyBytes } = options
  const { maxWaiting = roomToWait(options.maxInFlight ?? defaultMaxInFlight) } = options
  const enterRoom = turnstile(maxWaiting, 'callers wait for a server')

  const allocate = async (exchange: Exchange) => {
    const waitMs = readWaitMs(exchange.query('wait'))
    const request = checked(readAllocationRequest(await readJson(exchange, maxBodyBytes)))
    if (waitMs === 0) return json(200, await fleet.allocate(request))
    const leave = enterRoom()
    try {
      return json(200, await wait(fleet, request, waitMs, exchange.signal(), closing))
    } finally {
      leave()
    }
  }

  return {
    paths: { '/api/v1/allocate': { POST: operation('allocate', allocate) } },
    toAnswer: (error) => answerOf(error, allocationStatuses),
    guard: guard(options),
  }
}

const maxWaitSeconds = 60

/** Reads `?wait=`: seconds, fractions allowed. */
function readWaitMs(text: string | undefined): number {
  if (text === undefined) return 0
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN
  if (seconds <= maxWaitSeconds) return Math.round(seconds * 1_000)
  throw new HttpError(400, `wait must be a number of seconds from 0 to ${maxWaitSeconds}, but is ${shown(text)}`)
}

/** Waits until there is a server, the time is up, the caller has gone away or this host closes. */
async function wait(
  fleet: AllocatingFleet,
  request: AllocationRequest,
  waitMs: number,
  gone: AbortSignal,
  closing: AbortSignal,
): Promise<Allocation> {
  if (closing.aborted) throw new FleetError('closed', 'this host is closing')
  const either = eitherSignal(gone, closing)
  try {
    return await fleet.allocate(request, { waitMs, signal: either.signal })
  } catch (error) {
    if (!closing.aborted || gone.aborted || !FleetError.is(error, 'aborted')) throw error
    throw new FleetError('closed', 'this host is closing', { cause: error })
  } finally {
    either.release()
  }
}
