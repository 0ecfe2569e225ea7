/** The allocation API: one operation, which allocates a server to a session. */
import { systemClock } from '../../contracts/clock.js'
import { accepted, type ErrorCode, FleetError } from '../../contracts/errors.js'
import type { AllocateManyOptions, AllocateOptions } from '../../contracts/fleet.js'
import { defaultLimits } from '../../contracts/options.js'
import {
  aNumber,
  checkFleet,
  checkOptions,
  type OptionType,
  type OptionTypes,
  strings,
} from '../../contracts/option-checks.js'
import { type FleetInternals, internalsOf } from '../../fleet/internals.js'
import { guidOf, isGuid } from '../../rules/model/names.js'
import type { Ref } from '../../rules/model/resources.js'
import type { GameServer } from '../../rules/model/wire.js'
import { guidAllocationRequest } from '../../rules/validation/allocation-schema.js'
import { isObject, shown } from '../../rules/validation/problem.js'
import { checkFieldNames, compile } from '../../rules/validation/validator.js'
import type { CorsOptions } from '../access/browsers.js'
import { ConcurrencyLimit, guard, type GuardOptions, guardOptionTypes } from '../access/guard.js'
import { defaultMaxBodyBytes, readJson } from '../core/bodies.js'
import { callerOf, callIDHeader, type Exchange, type Handler } from '../core/exchange.js'
import { allocationStatuses, allocatorStatuses, errorResponse, json } from '../core/responses.js'
import { forwarding } from '../forwarding.js'
import { type Compat, compatType, type SessionIDs } from '../openapi/operation-docs.js'
import {
  createRoutes,
  type PrefixOption,
  prefixType,
  type RouteGroup,
  type Routes,
  type RoutesOptions,
} from '../route-binding.js'
import type { OperationName } from '../operations.js'
import {
  allocationInputOf,
  allocatorAnswer,
  allocatorErrorBody,
  type BuildLookup,
  readAllocatorRequest,
} from './agones-allocator.js'
import { type AnsweredAllocation, dialectOf } from './compat.js'
import { readFlag, readWaitMs, refuseMisspelled, refuseOptionsIn, waiting, waitOption } from './parameters.js'

export const sessionIDsType: OptionType = {
  must: "must be 'guid' or 'any'",
  is: (value) => value === 'guid' || value === 'any',
}

export interface AllocationRoutesOptions extends GuardOptions, CorsOptions, PrefixOption {
  /** Answers clients that were written for another project. Default: gamekeeper's own format alone. */
  readonly compat?: Compat
  /** Which sessionIDs are accepted. Default: `any`, or `guid` with `compat: 'thundernetes'`. */
  readonly sessionIDs?: SessionIDs
  /** Larger bodies get 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

export const allocationOptionTypes: OptionTypes<AllocationRoutesOptions> = {
  ...guardOptionTypes,
  allowedOrigins: strings,
  compat: compatType,
  maxBodyBytes: aNumber,
  prefix: prefixType,
  sessionIDs: sessionIDsType,
}

/** The part of a fleet that the allocation API uses. Requests are passed on unchecked: the fleet validates them. */
export interface AllocatingFleet {
  allocate(request: unknown, options?: AllocateOptions): Promise<AnsweredAllocation>
  /** Absent: the API has no batches. */
  allocateMany?(requests: unknown, options?: AllocateManyOptions): Promise<readonly AnsweredResult[]>
  /** Required for `compat: 'agones'`. */
  readonly builds?: BuildLookup
  /** Required for `compat: 'agones'`. */
  readonly servers?: { get(ref: Ref): Promise<GameServer> }
}

/** Those that it cannot do without. */
export const allocatingMembers = ['allocate'] as const

/** `POST /api/v1/allocate` and `POST /api/v1/allocate-many`, and with `compat: 'agones'` also `POST /gameserverallocation`. */
export function allocationRoutes(fleet: AllocatingFleet, options: AllocationRoutesOptions = {}): Routes {
  checkOptions('allocationRoutes', options, allocationOptionTypes)
  const needed = options.compat === 'agones' ? [...allocatingMembers, 'builds', 'servers'] : allocatingMembers
  checkFleet('allocationRoutes', fleet, needed)
  return createRoutes((closing) => allocationGroups(fleet, options, closing), routesOptions(fleet, options))
}

/** The options of routes that include allocations. */
export function routesOptions(fleet: AllocatingFleet, options: RoutesOptions): RoutesOptions {
  const { allowedOrigins, prefix, compat } = options
  return { allowedOrigins, prefix, compat, sessionIDs: sessionIDsOf(options), maxWaitMs: maxWaitMsOf(fleet) }
}

export function allocationGroups(
  fleet: AllocatingFleet,
  options: AllocationRoutesOptions,
  closing: AbortSignal,
): readonly RouteGroup[] {
  const { compat, maxBodyBytes = defaultMaxBodyBytes } = options
  const maxWaitMs = maxWaitMsOf(fleet)
  const allocationGuard = guard(options)
  const dialect = dialectOf(compat)
  const needsGuid = sessionIDsOf(options) === 'guid'
  const answer = (allocation: AnsweredAllocation) => json(200, dialect.allocation(allocation))
  const { inRequest, link, observers, maxWaiting = defaultLimits.maxWaiting } = internalsOf(fleet) ?? {}
  const held = new ConcurrencyLimit(maxWaiting)
  const { inFlight } = allocationGuard

  const parametersOf = (exchange: Exchange, operation: OperationName = 'allocate') => {
    if (compat !== 'thundernetes') refuseMisspelled(exchange, operation)
    return { waitMs: readWaitMs(exchange, maxWaitMs), confirm: readFlag(exchange, 'confirm') }
  }
  const requestIn = (body: unknown) => {
    const request = dialect.request(body)
    refuseOptionsIn(request, queryOptions)
    if (needsGuid) requireGuid(request)
    return request
  }
  const readMany = async (exchange: Exchange) => {
    refuseMisspelled(exchange, 'allocateMany')
    const waitMs = readWaitMs(exchange, maxWaitMs)
    const batch = readBatchBody(await readJson(exchange, maxBodyBytes))
    if (needsGuid && Array.isArray(batch.requests)) batch.requests.forEach(requireGuid)
    return { waitMs, batch }
  }
  const allocated = (exchange: Exchange, request: unknown, { waitMs, confirm }: ReturnType<typeof parametersOf>) => {
    const caller = callerOf(exchange)
    if (!confirm && !waitMs) return fleet.allocate(request, { caller })
    const allocateOptions = { caller, ...(waitMs !== undefined && { waitMs }), ...(confirm && { confirm }) }
    const work = (signal: AbortSignal) => fleet.allocate(request, { ...allocateOptions, signal })
    return inFlight.whileUncounted(() => waiting(exchange, closing, work))
  }
  const allocate: Handler = async (exchange) => {
    const parameters = parametersOf(exchange)
    const request = requestIn(await readJson(exchange, maxBodyBytes))
    return answer(await allocated(exchange, request, parameters))
  }
  const allocateBatch = fleet.allocateMany?.bind(fleet)
  const allocateMany: Handler | undefined =
    allocateBatch &&
    (async (exchange) => {
      const { waitMs, batch } = await readMany(exchange)
      const { requests, ...rest } = batch
      const batchOptions = { ...rest, caller: callerOf(exchange), ...(waitMs !== undefined && { waitMs }) }
      const work = (signal?: AbortSignal) => allocateBatch(requests, { ...batchOptions, ...(signal && { signal }) })
      const results = await (waitMs ? inFlight.whileUncounted(() => waiting(exchange, closing, work)) : work())
      return json(200, { results: results.map(resultBody) })
    })
  const inTrace = (handler: Handler) => (inRequest ? traced(inRequest, handler) : handler)

  const readAsAgones = async (exchange: Exchange) => {
    const parameters = parametersOf(exchange, 'allocateAsAgones')
    const asked = readAllocatorRequest(await readJson(exchange, maxBodyBytes))
    const sessionID = asked.request.sessionID ?? callIDOf(exchange)
    if (needsGuid) requireGuid({ sessionID })
    return { parameters, asked, sessionID }
  }
  const allocateAsAgones: Handler = async (exchange) => {
    const { builds, servers } = fleet
    if (!builds || !servers) throw new FleetError('unsupported', 'this fleet does not look up builds and servers')
    const { parameters, asked, sessionID } = await readAsAgones(exchange)
    const allocation = await allocated(exchange, await allocationInputOf(asked, sessionID, builds), parameters)
    // The allocation stands even if the details of its server cannot be read.
    const server = allocation.server && (await servers.get(allocation.server).catch(() => undefined))
    return json(200, allocatorAnswer(allocation, server))
  }

  const own: RouteGroup = {
    handlers: { allocate: inTrace(allocate), allocateMany: allocateMany && inTrace(allocateMany) },
    errorResponse: (error) => errorResponse(error, allocationStatuses, dialect.errorBody),
    guard: allocationGuard,
    forward:
      link &&
      forwarding({
        link,
        closing,
        maxBodyBytes,
        async check(exchange, { name }) {
          if (name === 'allocateMany') return readMany(exchange)
          if (name === 'allocateAsAgones') return readAsAgones(exchange)
          parametersOf(exchange)
          return requestIn(await readJson(exchange, maxBodyBytes))
        },
        uncounted: (work) => held.whileCounted(() => inFlight.whileUncounted(work)),
      }),
    observers,
  }
  if (compat !== 'agones') return [own]
  const asAgones: RouteGroup = {
    ...own,
    handlers: { allocateAsAgones: inTrace(allocateAsAgones) },
    errorResponse: (error) => errorResponse(error, allocatorStatuses, allocatorErrorBody),
    forward: (operation, handle) => waitingAsPreferred(own.forward?.(operation, handle) ?? handle, maxWaitMs),
  }
  return [own, asAgones]
}

/** The session of a caller that repeats a call with the same header, and else a new one. */
function callIDOf(exchange: Exchange): string {
  // The draft of the header has quotes around its value, and most callers leave them out.
  const given = exchange.header(callIDHeader)?.replace(/^"(.*)"$/, '$1')
  return (exchange.callID ??= given ?? guidOf(systemClock.randomBytes(16)))
}

/** Reads `Prefer: wait=<seconds>` as `?wait=`, for callers that cannot change the URL. Of a longer wait, what is possible. */
function waitingAsPreferred(handle: Handler, maxWaitMs: number): Handler {
  return (exchange) => {
    const [, seconds] =
      /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:$|[,;])/i.exec(exchange.header('prefer') ?? '') ?? []
    if (seconds !== undefined && exchange.query('wait') === undefined) {
      exchange.limitWait(Math.min(Number(seconds) * 1_000, maxWaitMs))
    }
    return handle(exchange)
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

/** The clients of Thundernetes expect GUIDs. */
function sessionIDsOf({ compat, sessionIDs = compat === 'thundernetes' ? 'guid' : 'any' }: RoutesOptions): SessionIDs {
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

/** The options of the call in process that are query parameters here. */
const queryOptions = { ...waitOption, confirm: 'confirm' } as const

/** What `fleet.allocateMany` resolves with. */
type AnsweredResult =
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
function resultBody({ sessionID, allocation, error }: AnsweredResult): unknown {
  if (allocation) return { sessionID, allocation: dialectOf(undefined).allocation(allocation) }
  return { sessionID, error: errorBody(error) }
}

function errorBody({ code, message, details }: FleetError): { readonly code: ErrorCode; readonly message: string } {
  return { code, message, ...(details && { details }) }
}
