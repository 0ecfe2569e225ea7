/** The management API: builds, game servers, their details, sessions, and events. */
import type { AuditedCallOptions } from '../../contracts/call-options.js'
import { systemClock } from '../../contracts/clock.js'
import { accepted, FleetError } from '../../contracts/errors.js'
import type { Builds, Details, Fleet, MaintenanceTarget, Servers } from '../../contracts/fleet.js'
import {
  anObject,
  aNumber,
  checkFleet,
  checkOptions,
  type OptionTypes,
  strings,
} from '../../contracts/option-checks.js'
import { defaultLimits, type DrainOptions, type DrainResult } from '../../contracts/options.js'
import type { Sessions } from '../../contracts/sessions.js'
import { internalsOf } from '../../fleet/internals.js'
import { sliceChars, turns } from '../../platform/turns.js'
import type { Ref } from '../../rules/model/resources.js'
import { counted, isObject, shown } from '../../rules/validation/problem.js'
import { drainRequest, maintenanceRequest, readReservation, readStdin } from '../../rules/validation/server-schema.js'
import {
  readJoinRequest,
  readRoomQuery,
  readSeatRelease,
  readSeatRequest,
} from '../../rules/validation/session-schema.js'
import { compile, type Validator } from '../../rules/validation/validator.js'
import { eitherSignal } from '../../util/signals.js'
import { within } from '../../util/with-timeout.js'
import type { CorsOptions } from '../access/browsers.js'
import { ConcurrencyLimit, guard, type GuardOptions, guardOptionTypes } from '../access/guard.js'
import { defaultMaxBodyBytes, readJson, readOptionalJson } from '../core/bodies.js'
import { callerOf, type Exchange, type Handler } from '../core/exchange.js'
import {
  errorResponse,
  type HttpResponse,
  json,
  jsonInSlices,
  managementStatuses,
  slowAnswer,
} from '../core/responses.js'
import { forwarding } from '../forwarding.js'
import { type Compat, compatType } from '../openapi/operation-docs.js'
import {
  createRoutes,
  type Handlers,
  type PrefixOption,
  prefixType,
  type RouteGroup,
  type Routes,
} from '../route-binding.js'
import {
  type AllocatingFleet,
  allocatingMembers,
  allocationGroups,
  allocationOptionTypes,
  type AllocationRoutesOptions,
  maxWaitMsOf,
  routesOptions,
} from './allocation.js'
import { type Dialect, dialectOf } from './compat.js'
import { eventStream, type EventStreamOptions } from './event-stream.js'
import {
  listResponse,
  readCount,
  readFlag,
  readWaitMs,
  refInPath,
  refuseMisspelled,
  refuseOptionsIn,
  waiting,
  waitOption,
} from './parameters.js'

export interface ManagementOptions extends GuardOptions, CorsOptions, PrefixOption {
  /** Uses another project's JSON format, for clients written for that project. Default: gamekeeper's own format. */
  readonly compat?: Compat
  readonly events?: EventStreamOptions
  /** Larger bodies get 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

export const managementOptionTypes: OptionTypes<ManagementOptions> = {
  ...guardOptionTypes,
  allowedOrigins: strings,
  compat: compatType,
  events: anObject,
  maxBodyBytes: aNumber,
  prefix: prefixType,
}

/**
 * The part of a fleet that the management API uses. Bodies are passed on unchecked: the fleet validates them. Paths are served only if the
 * fleet has their method.
 */
export interface ManagedFleet extends Partial<Pick<Fleet, 'explain' | 'stats' | 'activity' | 'problems' | 'health'>> {
  readonly builds: Omit<Builds, 'create' | 'apply' | 'patch' | 'update' | 'all'> & ChangeableBuilds
  readonly servers: Omit<Servers, 'all' | 'update'> & UpdatableServers
  readonly details: Details
  readonly sessions?: Sessions
  readonly events?: Fleet['events']
  /** If absent, `/api/v1/events?players=true` has no changes of players. */
  readonly on?: Fleet['on']
  readonly drain?: Fleet['drain']
}

interface ChangeableBuilds {
  create(build: unknown, options?: AuditedCallOptions): ReturnType<Builds['create']>
  apply(build: unknown, options?: AuditedCallOptions): ReturnType<Builds['apply']>
  patch(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Builds['patch']>
  update(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Builds['update']>
}

interface UpdatableServers {
  update(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Servers['update']>
}

/** The operations on builds, servers, sessions and the fleet; docs/reference/http-api.md lists them. */
export function managementRoutes(fleet: ManagedFleet, options: ManagementOptions = {}): Routes {
  checkFleet('managementRoutes', fleet, managedMembers)
  checkOptions('managementRoutes', options, managementOptionTypes)
  const { allowedOrigins, prefix, compat } = options
  const description = { compat, maxWaitMs: maxWaitMsOf(fleet) }
  return createRoutes((closing) => [managementGroup(fleet, options, closing)], {
    allowedOrigins,
    prefix,
    ...description,
  })
}

export interface FleetRoutesOptions extends AllocationRoutesOptions, ManagementOptions {}

/** The routes of `allocationRoutes` and `managementRoutes`, with a single OpenAPI document. */
export function fleetRoutes(fleet: AllocatingFleet & ManagedFleet, options: FleetRoutesOptions = {}): Routes {
  checkFleet('fleetRoutes', fleet, [...allocatingMembers, ...managedMembers])
  checkOptions('fleetRoutes', options, { ...allocationOptionTypes, ...managementOptionTypes })
  return createRoutes(
    (closing) => [...allocationGroups(fleet, options, closing), managementGroup(fleet, options, closing)],
    routesOptions(fleet, options),
  )
}

/** Those that it cannot do without. */
export const managedMembers = ['builds', 'servers', 'details'] as const

export function managementGroup(fleet: ManagedFleet, options: ManagementOptions, closing: AbortSignal): RouteGroup {
  const { events, sessions } = fleet
  const { link, observers, maxWaiting = defaultLimits.maxWaiting } = internalsOf(fleet) ?? {}
  const { compat, maxBodyBytes = defaultMaxBodyBytes } = options
  const managementGuard = guard(options)
  const held = new ConcurrencyLimit(maxWaiting)
  const uncounted = <T>(work: () => Promise<T>) =>
    held.whileCounted(() => managementGuard.inFlight.whileUncounted(work))
  const dialect = dialectOf(compat)
  const context: Context = { dialect, maxBodyBytes, closing }
  return {
    handlers: {
      ...buildHandlers(fleet, context),
      ...serverHandlers(fleet, context),
      ...(sessions &&
        sessionHandlers(sessions, {
          maxBodyBytes,
          maxWaitMs: maxWaitMsOf(fleet),
          wait: (exchange, work) => uncounted(() => waiting(exchange, closing, work)),
        })),
      ...fleetHandlers(fleet, context),
      readEvents: events && eventStream({ ...fleet, events }, options.events, closing),
    },
    errorResponse: (error) => errorResponse(error, managementStatuses, dialect.errorBody),
    guard: managementGuard,
    forward: link && forwarding({ link, closing, maxBodyBytes, uncounted }),
    observers,
  }
}

interface Context {
  readonly dialect: Dialect
  readonly maxBodyBytes: number
  readonly closing: AbortSignal
}

function buildHandlers({ builds, servers, details }: ManagedFleet, context: Context): Handlers {
  const { dialect, maxBodyBytes } = context
  return {
    listBuilds: (exchange) => listResponse(exchange, dialect.builds, builds, {}),
    async createBuild(exchange) {
      const input = dialect.input(await readJson(exchange, maxBodyBytes))
      return json(dialect.created, dialect.build(await builds.create(input, auditOf(exchange))))
    },
    getBuild: async (exchange) => json(200, dialect.build(await builds.get(refInPath(exchange)))),
    async applyBuild(exchange) {
      const input = withRef(dialect.input(await readJson(exchange, maxBodyBytes)), refInPath(exchange))
      const { result, build } = await builds.apply(input, auditOf(exchange))
      return json(200, { result, build: dialect.build(build) })
    },
    async patchBuild(exchange) {
      const change = dialect.change(await readJson(exchange, maxBodyBytes))
      return json(200, dialect.build(await builds.patch(refInPath(exchange), change, auditOf(exchange))))
    },
    async updateBuild(exchange) {
      const change = withoutNulls(await readJson(exchange, maxBodyBytes))
      return json(200, dialect.build(await builds.update(refInPath(exchange), change, auditOf(exchange))))
    },
    readDemand: async (exchange) => json(200, await builds.demand(refInPath(exchange))),
    drainBuild: draining(context, (exchange, options) => builds.drain(refInPath(exchange), options)),
    async resumeBuild(exchange) {
      await readOptionalJson(exchange, maxBodyBytes)
      return json(200, dialect.build(await builds.resume(refInPath(exchange), auditOf(exchange))))
    },
    async deleteBuild(exchange) {
      await builds.delete(refInPath(exchange), auditOf(exchange))
      return json(200, { message: 'Game server build deleted' })
    },
    listServersOfBuild: (exchange) =>
      ofBuild(dialect, () => listResponse(exchange, dialect.servers, servers, { build: refInPath(exchange) })),
    getBuildDetail: (exchange) =>
      ofBuild(dialect, async () => jsonInSlices(200, dialect.buildDetail(await details.ofBuild(refInPath(exchange))))),
  }
}

/** The body may leave out what the path says, and must not say anything else. */
function withRef(body: unknown, ref: Ref): unknown {
  if (!isObject(body)) return body
  const { metadata = {} } = body
  if (!isObject(metadata)) return body
  for (const field of ['namespace', 'name'] as const) {
    const value = metadata[field] ?? ref[field]
    if (value === ref[field]) continue
    throw new FleetError(
      'invalid',
      `metadata.${field} must be ${shown(ref[field])}, as in the path, but is ${shown(value)}`,
    )
  }
  return { ...body, metadata: { ...metadata, ...ref } }
}

/** In JSON, `null` removes an optional field. */
function withoutNulls(change: unknown): unknown {
  if (!isObject(change)) return change
  return Object.fromEntries(Object.entries(change).map(([field, value]) => [field, value ?? undefined]))
}

async function ofBuild({ ofMissingBuild }: Dialect, read: () => Promise<HttpResponse>): Promise<HttpResponse> {
  try {
    return await read()
  } catch (error) {
    if (ofMissingBuild === undefined || !FleetError.is(error, 'not-found')) throw error
    return json(200, ofMissingBuild)
  }
}

function serverHandlers({ servers, details, explain }: ManagedFleet, context: Context): Handlers {
  const { dialect, maxBodyBytes, closing } = context
  const announce = (targetOf: (exchange: Exchange) => MaintenanceTarget) => async (exchange: Exchange) => {
    const { at } = accepted(checkMaintenance(await readJson(exchange, maxBodyBytes)))
    return json(200, await servers.announceMaintenance(targetOf(exchange), new Date(at), auditOf(exchange)))
  }
  const withdraw = (targetOf: (exchange: Exchange) => MaintenanceTarget) => async (exchange: Exchange) =>
    json(200, await servers.withdrawMaintenance(targetOf(exchange), auditOf(exchange)))
  return {
    listServers: (exchange) => listResponse(exchange, dialect.servers, servers, {}),
    getServer: async (exchange) => json(200, await servers.get(refInPath(exchange))),
    async updateServer(exchange) {
      const change = await readJson(exchange, maxBodyBytes)
      return json(200, await servers.update(refInPath(exchange), change, auditOf(exchange)))
    },
    explainServer: explain && (async (exchange) => json(200, await explain(refInPath(exchange)))),
    readUsage: async (exchange) => json(200, await servers.usage(refInPath(exchange), { signal: exchange.signal })),
    readLogs: logStream(servers, closing),
    async writeStdin(exchange) {
      const { line } = accepted(readStdin(await readJson(exchange, maxBodyBytes)))
      await servers.writeStdin(refInPath(exchange), line, auditOf(exchange))
      return json(200, { message: 'Line sent' })
    },
    drainServer: draining(context, (exchange, options) => servers.drain(refInPath(exchange), options)),
    async deleteServer(exchange) {
      await servers.delete(refInPath(exchange), auditOf(exchange))
      return json(200, { message: 'Game server deleted' })
    },
    async reserveServer(exchange) {
      const { forMs } = accepted(readReservation(await readJson(exchange, maxBodyBytes)))
      return json(200, await servers.reserve(refInPath(exchange), { forMs, ...auditOf(exchange) }))
    },
    releaseServer: async (exchange) => json(200, await servers.release(refInPath(exchange), auditOf(exchange))),
    announceServerMaintenance: announce(refInPath),
    withdrawServerMaintenance: withdraw(refInPath),
    announceNodeMaintenance: announce(nodeOf),
    withdrawNodeMaintenance: withdraw(nodeOf),
    getServerDetail: async (exchange) => json(200, dialect.detail(await details.get(refInPath(exchange)))),
  }
}

const checkMaintenance: Validator<{ readonly at: string }> = compile(maintenanceRequest)

function nodeOf(exchange: Exchange): MaintenanceTarget {
  return { node: exchange.param('node') }
}

function fleetHandlers({ drain, stats, activity, problems, health }: ManagedFleet, context: Context): Handlers {
  return {
    drainFleet: drain && draining(context, (_, options) => drain(options)),
    readStats: stats && (() => Promise.resolve(json(200, stats()))),
    readActivity: activity && (async () => json(200, await activity())),
    readBuildActivity: activity && (async (exchange) => json(200, await activity({ build: refInPath(exchange) }))),
    readProblems: problems && (async ({ signal }) => json(200, await problems({ signal }))),
    readHealth: health && (async () => json(200, await health())),
  }
}

const checkDrain: Validator<Pick<DrainOptions, 'active' | 'deadlineMs'>> = compile(drainRequest)

/** Stops waiting when the caller disconnects or this host closes. The drain itself continues. */
function draining(
  { maxBodyBytes, closing }: Context,
  drain: (exchange: Exchange, options: DrainOptions) => Promise<DrainResult>,
): Handler {
  return async (exchange) => {
    const request = accepted(checkDrain(await readOptionalJson(exchange, maxBodyBytes)))
    const either = eitherSignal(exchange.signal, closing)
    const drained = drain(exchange, { ...request, signal: either.signal, ...auditOf(exchange) })
    return slowAnswer(drained.finally(() => either.release()))
  }
}

function auditOf(exchange: Exchange): AuditedCallOptions {
  return { caller: callerOf(exchange) }
}

interface SessionOptions {
  /** Larger bodies get 413. */
  readonly maxBodyBytes: number
  readonly maxWaitMs: number
  /** Runs work that waits, until its caller leaves or this host closes. */
  readonly wait: <T>(exchange: Exchange, work: (signal: AbortSignal) => Promise<T>) => Promise<T>
}

function sessionHandlers(sessions: Sessions, { maxBodyBytes, maxWaitMs, wait }: SessionOptions): Handlers {
  return {
    listSessions: async () => jsonInSlices(200, await sessions.list()),
    listSessionsOfBuild: async (exchange) => jsonInSlices(200, await sessions.list({ build: refInPath(exchange) })),
    /** With `?wait=`, answers when the session has ended, or after that time as it is then. */
    async getSession(exchange) {
      const sessionID = exchange.param('sessionID')
      const waitMs = readWaitMs(exchange, maxWaitMs)
      if (waitMs) {
        await wait(exchange, (signal) =>
          sessions.ended(sessionID, { waitMs, signal }).catch((error: unknown) => {
            if (signal.aborted || !FleetError.is(error, 'aborted')) throw error
          }),
        )
      }
      return json(200, await sessions.get(sessionID))
    },
    getSessionOfPlayer: async (exchange) => json(200, await sessions.ofPlayer(exchange.param('player'))),
    async endSession(exchange) {
      await sessions.end(exchange.param('sessionID'), { caller: callerOf(exchange) })
      return json(200, { message: 'Session ended' })
    },
    async reserveSeats(exchange) {
      const { players, holdMs } = accepted(readSeatRequest(await readJson(exchange, maxBodyBytes)))
      const options = { holdMs, caller: callerOf(exchange) }
      return json(200, await sessions.reserveSeats(exchange.param('sessionID'), players, options))
    },
    async releaseSeats(exchange) {
      const players = accepted(readSeatRelease(await readJson(exchange, maxBodyBytes)))
      const options = { caller: callerOf(exchange) }
      return json(200, await sessions.releaseSeats(exchange.param('sessionID'), players, options))
    },
    async findSessionsWithRoom(exchange) {
      const query = accepted(readRoomQuery(await readJson(exchange, maxBodyBytes)))
      return jsonInSlices(200, await sessions.withRoom(query))
    },
    async joinSession(exchange) {
      refuseMisspelled(exchange, 'joinSession')
      const waitMs = readWaitMs(exchange, maxWaitMs)
      const sent = await readJson(exchange, maxBodyBytes)
      refuseOptionsIn(sent, waitOption)
      const body = accepted(readJoinRequest(sent))
      const caller = callerOf(exchange)
      if (!waitMs) return json(200, await sessions.join(body, { caller }))
      return json(200, await wait(exchange, (signal) => sessions.join(body, { caller, waitMs, signal })))
    },
  }
}

// Sends a server's log: as text, one line per line, or as server-sent events to a reader that accepts them, with a comment now and
// then, so that a reader notices a lost connection.

interface Format {
  readonly mediaType: string
  readonly line: (line: string) => string
  /** Sent when nothing else is, if the format allows it. */
  readonly keepAlive: string | undefined
}

const plainText: Format = { mediaType: 'text/plain; charset=utf-8', line: (line) => `${line}\n`, keepAlive: undefined }
const events: Format = {
  mediaType: 'text/event-stream',
  // As JSON, because a line may contain a carriage return.
  line: (line) => `data: ${JSON.stringify(line)}\n\n`,
  keepAlive: ':\n\n',
}

/** A log that does not exist is reported within this time, so that its answer has the right status. */
const beginMs = 1_000
const keepAliveMs = 15_000
/** Each reader may keep a file or a connection to the backend open. */
const maxReaders = 200

function logStream(
  servers: Pick<Servers, 'logs'>,
  closing: AbortSignal,
): (exchange: Exchange) => Promise<HttpResponse> {
  let readers = 0
  return async (exchange) => {
    if (readers >= maxReaders) {
      throw new FleetError(
        'overloaded',
        `${counted(readers, 'log is', 'logs are')} being read, the limit of this host; retry later`,
      )
    }
    const format = (exchange.header('accept') ?? '').includes(events.mediaType) ? events : plainText
    const tail = readCount(exchange, 'tail')
    const stop = eitherSignal(exchange.signal, closing)
    const [follow, origin] = [readFlag(exchange, 'follow'), readFlag(exchange, 'origin')]
    const options = { follow, origin, ...(tail !== undefined && { tail }), signal: stop.signal }
    const lines = servers.logs(refInPath(exchange), options)
    readers++
    const close = once(() => {
      readers--
      stop.abort()
      stop.release()
      // Waits for the read in progress, which the signal ends.
      lines.return?.().catch(() => undefined)
    })
    const first = lines.next()
    try {
      await within(beginMs, first, systemClock)
    } catch (error) {
      close()
      throw error
    }
    // The stream of a reader that has left is never read.
    if (stop.signal.aborted || exchange.method === 'HEAD') close()
    else stop.signal.addEventListener('abort', close, { once: true })
    const headers = { 'Content-Type': format.mediaType, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' }
    return { status: 200, headers, ...(exchange.method !== 'HEAD' && { stream: text(lines, first, format, close) }) }
  }
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) {
      isDone = true
      work()
    }
  }
}

async function* text(
  lines: AsyncIterableIterator<string>,
  first: Promise<IteratorResult<string>>,
  format: Format,
  close: () => void,
): AsyncGenerator<string> {
  let next = first
  try {
    for (;;) {
      let result = await within(keepAliveMs, next, systemClock)
      if (result === undefined) {
        if (format.keepAlive !== undefined) yield format.keepAlive
        continue
      }
      let slice = ''
      // Lines that are there already are sent together.
      while (result !== undefined && result.done !== true) {
        slice += format.line(result.value)
        next = lines.next()
        result = slice.length < sliceChars ? await within(0, next, systemClock) : undefined
      }
      if (slice !== '') {
        await turns.take()
        yield slice
      }
      if (result?.done === true) return
    }
  } finally {
    close()
  }
}
