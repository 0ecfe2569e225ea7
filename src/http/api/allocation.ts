/** The allocation API: one operation, which allocates a server to a session. */
import { type ErrorCode, FleetError } from '../../contracts/errors.js'
import { accepted } from '../../contracts/invalid-input.js'
import type { AllocateManyOptions, AllocateOptions } from '../../contracts/fleet.js'
import { defaultLimits } from '../../contracts/options.js'
import {
  aNumber,
  aString,
  checkFleet,
  checkOptions,
  type OptionType,
  type OptionTypes,
  strings,
} from '../../contracts/option-checks.js'
import { type FleetInternals, internalsOf } from '../../fleet/internals.js'
import { isGuid } from '../../rules/model/session-ids.js'
import { guidAllocationRequest } from '../../rules/schemas/allocation.js'
import { isObject, shown } from '../../rules/validation/problem.js'
import { checkFieldNames, compile } from '../../rules/validation/validator.js'
import { callerOf } from '../access/caller.js'
import { ConcurrencyLimit } from '../access/concurrency-limit.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { guard, type GuardOptions, guardOptionTypes } from '../access/guard.js'
import { allocationStatuses, errorResponse } from '../core/error-responses.js'
import type { Exchange, Handler } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { type HttpResponse, json } from '../core/http-response.js'
import { readJson } from '../core/read-json.js'
import { defaultMaxBodyBytes } from '../core/request-body.js'
import { createRoutes, type PrefixOption, prefixType, type Routes } from '../core/routes.js'
import { forwarding } from '../forwarding/forward.js'
import type { DescriptionOptions } from '../openapi/operation-docs.js'
import { type AnsweredAllocation, type Compat, dialectOf } from './compat.js'
import { readFlag, refuseMisspelled, refuseOptionsIn } from './parameters.js'
import { readWaitMs, waiting, waitOption, waitParameter } from './waiting.js'

/** `guid`: GUIDs only, as in the service description. `any`: 1 to 128 visible characters. */
export type SessionIDs = 'guid' | 'any'

export const sessionIDsType: OptionType = {
  must: "must be 'guid' or 'any'",
  is: (value) => value === 'guid' || value === 'any',
}

export interface AllocationRoutesOptions extends GuardOptions, CorsOptions, PrefixOption {
  /** Uses another project's JSON format, for clients written for that project. Default: gamekeeper's own format. */
  readonly compat?: Compat
  /** Which sessionIDs are accepted. Default: `any`, or `guid` with `compat`. */
  readonly sessionIDs?: SessionIDs
  /** Larger bodies get 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

export const allocationOptionTypes: OptionTypes<AllocationRoutesOptions> = {
  ...guardOptionTypes,
  allowedOrigins: strings,
  compat: aString,
  maxBodyBytes: aNumber,
  prefix: prefixType,
  sessionIDs: sessionIDsType,
}

/** The part of a fleet that the allocation API uses. Requests are passed on unchecked: the fleet validates them. */
export interface AllocatingFleet {
  allocate(request: unknown, options?: AllocateOptions): Promise<AnsweredAllocation>
  /** Absent: the API has no batches. */
  allocateMany?(requests: unknown, options?: AllocateManyOptions): Promise<readonly AnsweredResult[]>
}

/** Those that it cannot do without. */
export const allocatingMembers = ['allocate'] as const

/** `POST /api/v1/allocate` and `POST /api/v1/allocate-many`. */
export function allocationRoutes(fleet: AllocatingFleet, options: AllocationRoutesOptions = {}): Routes {
  checkFleet('allocationRoutes', fleet, allocatingMembers)
  checkOptions('allocationRoutes', options, allocationOptionTypes)
  const closing = new AbortController()
  const groups = [allocationGroup(fleet, options, closing.signal)]
  return createRoutes(groups, {
    closing,
    cors: corsOf(options),
    prefix: options.prefix,
    ...descriptionOf(fleet, options),
  })
}

/** What the OpenAPI document says about allocations. */
export function descriptionOf(fleet: AllocatingFleet, options: SessionIDOptions): DescriptionOptions {
  return { compat: options.compat, sessionIDs: sessionIDsOf(options), maxWaitMs: maxWaitMsOf(fleet) }
}

export function allocationGroup(
  fleet: AllocatingFleet,
  options: AllocationRoutesOptions,
  closing: AbortSignal,
): RouteGroup {
  const { maxBodyBytes = defaultMaxBodyBytes } = options
  const maxWaitMs = maxWaitMsOf(fleet)
  const allocationGuard = guard(options)
  const dialect = dialectOf(options.compat)
  const needsGuid = sessionIDsOf(options) === 'guid'
  const answer = (allocation: AnsweredAllocation) => json(200, dialect.allocation(allocation))
  const { inRequest, link, observers, maxWaiting = defaultLimits.maxWaiting } = internalsOf(fleet) ?? {}
  const held = new ConcurrencyLimit(maxWaiting)
  const uncounted = <T>(work: () => Promise<T>) =>
    held.whileCounted(() => allocationGuard.inFlight.whileUncounted(work))

  const isStrict = options.compat === undefined
  const read = async (exchange: Exchange) => {
    if (isStrict) refuseMisspelled(exchange, parameters)
    const waitMs = readWaitMs(exchange.query('wait'), maxWaitMs)
    const confirm = readFlag(exchange, 'confirm')
    const request = dialect.request(await readJson(exchange, maxBodyBytes))
    refuseOptionsIn(request, parameterOf)
    if (needsGuid) requireGuid(request)
    return { waitMs, confirm, request }
  }
  const readMany = async (exchange: Exchange) => {
    refuseMisspelled(exchange, waitParameter)
    const waitMs = readWaitMs(exchange.query('wait'), maxWaitMs)
    const batch = readBatchBody(await readJson(exchange, maxBodyBytes))
    if (needsGuid && Array.isArray(batch.requests)) batch.requests.forEach(requireGuid)
    return { waitMs, batch }
  }
  const allocate = async (exchange: Exchange) => {
    const { waitMs, confirm, request } = await read(exchange)
    const caller = callerOf(exchange)
    if (!confirm && !waitMs) return answer(await fleet.allocate(request, { caller }))
    const allocateOptions = { caller, ...(waitMs !== undefined && { waitMs }), ...(confirm && { confirm }) }
    const work = (signal: AbortSignal) => fleet.allocate(request, { ...allocateOptions, signal })
    const wait = () => waiting(work, { gone: exchange.signal(), closing })
    return answer(await allocationGuard.inFlight.whileUncounted(wait))
  }
  const allocateMany = async (exchange: Exchange) => {
    const { waitMs, batch } = await readMany(exchange)
    const { requests, ...rest } = batch
    const batchOptions = { ...rest, caller: callerOf(exchange), ...(waitMs !== undefined && { waitMs }) }
    const work = async (signal?: AbortSignal) =>
      batchAnswer((await fleet.allocateMany?.(requests, { ...batchOptions, ...(signal && { signal }) })) ?? [])
    if (!waitMs) return work()
    return allocationGuard.inFlight.whileUncounted(() => waiting(work, { gone: exchange.signal(), closing }))
  }
  const inTrace = (handler: Handler) => (inRequest ? traced(inRequest, handler) : handler)
  const check = (exchange: Exchange): Promise<unknown> =>
    exchange.path === manyPath ? readMany(exchange) : read(exchange)

  return {
    paths: {
      '/api/v1/allocate': { POST: operation('allocate', inTrace(allocate)) },
      ...(fleet.allocateMany && { [manyPath]: { POST: operation('allocateMany', inTrace(allocateMany)) } }),
    },
    errorResponse: (error) => errorResponse(error, allocationStatuses, options.compat !== undefined),
    guard: allocationGuard,
    forward: link && forwarding({ link, closing, maxBodyBytes, check, uncounted }),
    observers,
  }
}

function traced(inRequest: NonNullable<FleetInternals['inRequest']>, handler: Handler): Handler {
  return (exchange) =>
    inRequest(
      (name) => exchange.header(name),
      () => handler(exchange),
    )
}

export function maxWaitMsOf(fleet: object): number {
  return internalsOf(fleet)?.maxWaitMs ?? defaultLimits.maxWaitMs
}

interface SessionIDOptions {
  readonly compat?: Compat | undefined
  readonly sessionIDs?: SessionIDs | undefined
}

/** A compatibility format implies GUIDs, which its clients expect. */
function sessionIDsOf({ compat, sessionIDs = compat === undefined ? 'any' : 'guid' }: SessionIDOptions): SessionIDs {
  return sessionIDs
}

const checkGuidRequest = compile(guidAllocationRequest)

/** Throws `invalid` if the request has a sessionID that is no GUID. The fleet checks everything else. */
function requireGuid(request: unknown): void {
  if (isObject(request) && typeof request['sessionID'] === 'string' && isGuid(request['sessionID'])) return
  const checked = checkGuidRequest(request)
  if (checked.ok) return
  const { field, message } = checked.problem
  const hint =
    field === 'sessionID' ? "; with SESSION_IDS=any (sessionIDs: 'any'), any text of 1 to 128 characters is one" : ''
  throw new FleetError('invalid', `${field} ${message}${hint}`)
}

const parameters = [...waitParameter, 'confirm'] as const
const parameterOf = { ...waitOption, confirm: 'confirm' } as const

const manyPath = '/api/v1/allocate-many'

/** What `fleet.allocateMany` resolves with. */
export type AnsweredResult =
  | { readonly sessionID: string; readonly allocation: AnsweredAllocation; readonly error?: never }
  | { readonly sessionID: string; readonly allocation?: never; readonly error: FleetError }

interface BatchBody {
  /** Not validated: the fleet does that. */
  readonly requests: unknown
  readonly atomic?: boolean
}

function readBatchBody(body: unknown): BatchBody {
  if (!isObject(body)) {
    throw new FleetError('invalid', `body must be an object with requests, but is ${shown(body)}`)
  }
  refuseOptionsIn(body, waitOption)
  accepted(checkFieldNames(body, ['requests', 'atomic']))
  const { requests, atomic } = body
  if (atomic === undefined) return { requests }
  if (typeof atomic === 'boolean') return { requests, atomic }
  throw new FleetError('invalid', `atomic must be true or false, but is ${shown(atomic)}`)
}

/** Always in gamekeeper's own format: no other project has batches. */
function batchAnswer(results: readonly AnsweredResult[]): HttpResponse {
  const { allocation: bodyOf } = dialectOf(undefined)
  return json(200, {
    results: results.map(({ sessionID, allocation, error }) =>
      allocation ? { sessionID, allocation: bodyOf(allocation) } : { sessionID, error: errorBody(error) },
    ),
  })
}

function errorBody({ code, message, details }: FleetError): { readonly code: ErrorCode; readonly message: string } {
  return { code, message, ...(details && { details }) }
}
