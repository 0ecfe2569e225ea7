/** The management API: builds, game servers, their details, and events. */
import type { AuditedCallOptions } from '../../contracts/audit.js'
import { FleetError } from '../../contracts/errors.js'
import { accepted } from '../../contracts/invalid-input.js'
import type { Builds, Details, Fleet, ServerFilter, Servers } from '../../contracts/fleet.js'
import {
  aNumber,
  anObject,
  aString,
  checkFleet,
  checkOptions,
  type OptionTypes,
  strings,
} from '../../contracts/option-checks.js'
import { defaultLimits } from '../../contracts/options.js'
import type { Sessions } from '../../contracts/sessions.js'
import { internalsOf } from '../../fleet/internals.js'
import type { Ref } from '../../rules/model/resources.js'
import { readStdin } from '../../rules/validation/stdin.js'
import { callerOf } from '../access/caller.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { ConcurrencyLimit } from '../access/concurrency-limit.js'
import { guard, type GuardOptions, guardOptionTypes } from '../access/guard.js'
import { errorResponse, managementStatuses } from '../core/error-responses.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { type HttpResponse, json } from '../core/http-response.js'
import { jsonInSlices } from '../core/json-slices.js'
import { readJson } from '../core/read-json.js'
import { defaultMaxBodyBytes } from '../core/request-body.js'
import { createRoutes, type PrefixOption, prefixType, type Routes } from '../core/routes.js'
import { forwarding } from '../forwarding/forward.js'
import { maxWaitMsOf } from './allocation.js'
import { applyBuild, type ChangeableBuilds, updateBuild } from './build-changes.js'
import { type Compat, type Dialect, dialectOf } from './compat.js'
import { drainPaths } from './drains.js'
import { eventStream, type EventStreamOptions } from './event-stream.js'
import { fleetStatePaths, type ReportingFleet } from './fleet-state.js'
import { listResponse } from './lists.js'
import { refOf } from './parameters.js'
import { logStream } from './server-logs.js'
import { maintenancePaths, reservationPaths } from './server-marks.js'
import { sessionPaths, type Wait } from './sessions.js'
import { waiting } from './waiting.js'

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
  compat: aString,
  events: anObject,
  maxBodyBytes: aNumber,
  prefix: prefixType,
}

/** The part of a fleet that the management API uses. Bodies are passed on unchecked: the fleet validates them. */
export interface ManagedFleet extends ReportingFleet {
  readonly builds: Omit<Builds, 'create' | 'apply' | 'patch' | 'update' | 'all'> &
    ChangeableBuilds & {
      create(build: unknown, options?: AuditedCallOptions): ReturnType<Builds['create']>
      patch(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Builds['patch']>
    }
  readonly servers: Omit<Servers, 'all' | 'update'> & UpdatableServers
  readonly details: Details
  /** If absent, `/api/v1/sessions` is not served. */
  readonly sessions?: Sessions
  /** If absent, `/api/v1/events` is not served. */
  readonly events?: Fleet['events']
  /** If absent, `/api/v1/events?players=true` has no changes of players. */
  readonly on?: Fleet['on']
  /** If absent, `/api/v1/drain` is not served. */
  readonly drain?: Fleet['drain']
}

/** Bodies are passed on unchecked: the fleet validates them. */
interface UpdatableServers {
  update(ref: Ref, change: unknown, options?: AuditedCallOptions): ReturnType<Servers['update']>
}

/** `/api/v1/gameserverbuilds`, `/api/v1/gameservers`, `/api/v1/gameserverdetails` and `/api/v1/events`. */
export function managementRoutes(fleet: ManagedFleet, options: ManagementOptions = {}): Routes {
  checkFleet('managementRoutes', fleet, managedMembers)
  checkOptions('managementRoutes', options, managementOptionTypes)
  const closing = new AbortController()
  const group = managementGroup(fleet, options, closing.signal)
  return createRoutes([group], { closing, cors: corsOf(options), prefix: options.prefix, compat: options.compat })
}

/** Those that it cannot do without. */
export const managedMembers = ['builds', 'servers', 'details'] as const

export function managementGroup(fleet: ManagedFleet, options: ManagementOptions, closing: AbortSignal): RouteGroup {
  const { builds, servers, details, events } = fleet
  const { link, observers, maxWaiting = defaultLimits.maxWaiting } = internalsOf(fleet) ?? {}
  const maxBytes = options.maxBodyBytes ?? defaultMaxBodyBytes
  const dialect = dialectOf(options.compat)
  const build = '/api/v1/gameserverbuilds/:namespace/:name'
  const bodyOf = (exchange: Exchange) => readJson(exchange, maxBytes)
  const listOfServers = (exchange: Exchange, filter: ServerFilter = {}) =>
    listResponse(exchange, dialect.servers, {
      list: () => servers.list(filter),
      page: (page) => servers.page({ ...page, ...filter }),
    })

  const managementGuard = guard(options)
  const maxWaitMs = maxWaitMsOf(fleet)
  const held = new ConcurrencyLimit(maxWaiting)
  const uncounted = <T>(work: () => Promise<T>) =>
    held.whileCounted(() => managementGuard.inFlight.whileUncounted(work))
  const wait: Wait = (exchange, work) => uncounted(() => waiting(work, { gone: exchange.signal(), closing }))

  return {
    paths: {
      '/api/v1/gameserverbuilds': {
        GET: operation('listBuilds', (exchange) =>
          listResponse(exchange, dialect.builds, { list: () => builds.list(), page: (page) => builds.page(page) }),
        ),
        POST: operation('createBuild', async (exchange) => {
          const input = dialect.input(await bodyOf(exchange))
          return json(dialect.created, dialect.build(await builds.create(input, auditOf(exchange))))
        }),
      },
      [build]: {
        GET: operation('getBuild', async (exchange) => json(200, dialect.build(await builds.get(refOf(exchange))))),
        PUT: operation('applyBuild', applyBuild(builds, dialect, bodyOf)),
        PATCH: operation('patchBuild', async (exchange) => {
          const change = dialect.change(await bodyOf(exchange))
          return json(200, dialect.build(await builds.patch(refOf(exchange), change, auditOf(exchange))))
        }),
        DELETE: operation('deleteBuild', async (exchange) => {
          await builds.delete(refOf(exchange), auditOf(exchange))
          return json(200, { message: 'Game server build deleted' })
        }),
      },
      [`${build}/spec`]: { PATCH: operation('updateBuild', updateBuild(builds, dialect, bodyOf)) },
      ...drainPaths(fleet, { maxBodyBytes: maxBytes, dialect, closing }),
      [`${build}/gameservers`]: {
        GET: operation('listServersOfBuild', (exchange) =>
          ofBuild(dialect, () => listOfServers(exchange, { build: refOf(exchange) })),
        ),
      },
      [`${build}/gameserverdetails`]: {
        GET: operation('getBuildDetail', (exchange) =>
          ofBuild(dialect, async () => jsonInSlices(200, dialect.buildDetail(await details.ofBuild(refOf(exchange))))),
        ),
      },
      '/api/v1/gameservers': {
        GET: operation('listServers', (exchange) => listOfServers(exchange)),
      },
      '/api/v1/gameservers/:namespace/:name': {
        GET: operation('getServer', async (exchange) => json(200, await servers.get(refOf(exchange)))),
        PATCH: operation('updateServer', async (exchange) =>
          json(200, await servers.update(refOf(exchange), await bodyOf(exchange), auditOf(exchange))),
        ),
        DELETE: operation('deleteServer', async (exchange) => {
          await servers.delete(refOf(exchange), auditOf(exchange))
          return json(200, { message: 'Game server deleted' })
        }),
      },
      '/api/v1/gameservers/:namespace/:name/logs': { GET: operation('readLogs', logStream(servers, closing)) },
      '/api/v1/gameservers/:namespace/:name/stdin': {
        POST: operation('writeStdin', async (exchange) => {
          const { line } = accepted(readStdin(await bodyOf(exchange)))
          await servers.writeStdin(refOf(exchange), line, auditOf(exchange))
          return json(200, { message: 'Line sent' })
        }),
      },
      ...maintenancePaths(servers, maxBytes),
      ...reservationPaths(servers, maxBytes),
      ...(fleet.sessions && sessionPaths(fleet.sessions, { maxBodyBytes: maxBytes, maxWaitMs, wait })),
      ...fleetStatePaths(fleet),
      '/api/v1/gameserverdetails/:namespace/:name': {
        GET: operation('getServerDetail', async (exchange) =>
          json(200, dialect.detail(await details.get(refOf(exchange)))),
        ),
      },
      ...(events && {
        '/api/v1/events': { GET: operation('readEvents', eventStream({ ...fleet, events }, options.events, closing)) },
      }),
    },
    errorResponse: (error) => errorResponse(error, managementStatuses, options.compat !== undefined),
    guard: managementGuard,
    forward: link && forwarding({ link, closing, maxBodyBytes: maxBytes, uncounted }),
    observers,
  }
}

async function ofBuild({ ofMissingBuild }: Dialect, read: () => Promise<HttpResponse>): Promise<HttpResponse> {
  try {
    return await read()
  } catch (error) {
    if (ofMissingBuild === undefined || !FleetError.is(error, 'not-found')) throw error
    return json(200, ofMissingBuild)
  }
}

function auditOf(exchange: Exchange): AuditedCallOptions {
  return { caller: callerOf(exchange) }
}
