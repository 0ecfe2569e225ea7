/** The allocation API: one operation, which allocates a server to a session. */
import { FleetError } from '../../contracts/errors.js'
import type { AllocateOptions, Fleet } from '../../contracts/fleet.js'
import { defaultLimits } from '../../contracts/options.js'
import { internalsOf } from '../../fleet/internals.js'
import type { Allocation } from '../../rules/model/wire.js'
import { shown } from '../../rules/validation/problem.js'
import { eitherSignal } from '../../util/signals.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { guard, type GuardOptions } from '../access/guard.js'
import { allocationStatuses, errorResponse } from '../core/error-responses.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { readJson } from '../core/read-json.js'
import { defaultMaxBodyBytes } from '../core/request-body.js'
import { createRoutes, type Routes } from '../core/routes.js'

export interface AllocationRoutesOptions extends GuardOptions, CorsOptions {
  /** Larger bodies get 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

/** The part of a fleet that the allocation API uses. Requests are passed on unchecked: the fleet validates them. */
export interface AllocatingFleet {
  allocate(request: unknown, options?: AllocateOptions): ReturnType<Fleet['allocate']>
}

/** `POST /api/v1/allocate`. */
export function allocationRoutes(fleet: AllocatingFleet, options: AllocationRoutesOptions = {}): Routes {
  const closing = new AbortController()
  const groups = [allocationGroup(fleet, options, closing.signal)]
  return createRoutes(groups, { closing, cors: corsOf(options), maxWaitMs: maxWaitMsOf(fleet) })
}

export function allocationGroup(
  fleet: AllocatingFleet,
  options: AllocationRoutesOptions,
  closing: AbortSignal,
): RouteGroup {
  const { maxBodyBytes = defaultMaxBodyBytes } = options
  const maxWaitMs = maxWaitMsOf(fleet)
  const allocationGuard = guard(options)

  const allocate = async (exchange: Exchange) => {
    const waitMs = readWaitMs(exchange.query('wait'), maxWaitMs)
    const request = await readJson(exchange, maxBodyBytes)
    if (waitMs === 0) return json(200, await fleet.allocate(request))
    const wait = () => allocateWaiting(fleet, request, { waitMs, gone: exchange.signal(), closing })
    return json(200, await allocationGuard.inFlight.whileUncounted(wait))
  }

  return {
    paths: { '/api/v1/allocate': { POST: operation('allocate', allocate) } },
    errorResponse: (error) => errorResponse(error, allocationStatuses),
    guard: allocationGuard,
  }
}

export function maxWaitMsOf(fleet: AllocatingFleet): number {
  return internalsOf(fleet)?.maxWaitMs ?? defaultLimits.maxWaitMs
}

/** Parses `?wait=`, a number of seconds that may have a fraction. */
function readWaitMs(text: string | undefined, maxWaitMs: number): number {
  if (text === undefined) return 0
  const waitMs = /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * 1_000) : NaN
  if (waitMs <= maxWaitMs) return waitMs
  const message = `wait must be a number of seconds from 0 to ${maxWaitMs / 1_000}, but is ${shown(text)}`
  throw new FleetError('invalid', message)
}

interface WaitOptions {
  readonly waitMs: number
  /** Aborts when the caller disconnects. */
  readonly gone: AbortSignal
  /** Aborts when this host closes. */
  readonly closing: AbortSignal
}

async function allocateWaiting(
  fleet: AllocatingFleet,
  request: unknown,
  { waitMs, gone, closing }: WaitOptions,
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
