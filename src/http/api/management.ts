/** The management API: builds, game servers, their details, and events. */
import { FleetError } from '../../contracts/errors.js'
import type { Builds, Details, Fleet, Servers } from '../../contracts/fleet.js'
import type { Ref } from '../../rules/model/resources.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { guard, type GuardOptions } from '../access/guard.js'
import { errorResponse, managementStatuses } from '../core/error-responses.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { type HttpResponse, json } from '../core/http-response.js'
import { readJson } from '../core/read-json.js'
import { defaultMaxBodyBytes } from '../core/request-body.js'
import { createRoutes, type Routes } from '../core/routes.js'
import { type Compat, type Dialect, dialectOf } from './compat.js'
import { eventStream, type EventStreamOptions } from './event-stream.js'

export interface ManagementOptions extends GuardOptions, CorsOptions {
  /** Uses another project's JSON format, for clients written for that project. Default: gamekeeper's own format. */
  readonly compat?: Compat
  readonly events?: EventStreamOptions
  /** Larger bodies get 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

/** The part of a fleet that the management API uses. Bodies are passed on unchecked: the fleet validates them. */
export interface ManagedFleet {
  readonly builds: Pick<Builds, 'list' | 'get' | 'delete'> & {
    create(build: unknown): ReturnType<Builds['create']>
    patch(ref: Ref, change: unknown): ReturnType<Builds['patch']>
  }
  readonly servers: Pick<Servers, 'list' | 'get' | 'delete'>
  readonly details: Details
  /** If absent, `/api/v1/events` is not served. */
  readonly events?: Fleet['events']
}

/** `/api/v1/gameserverbuilds`, `/api/v1/gameservers`, `/api/v1/gameserverdetails` and `/api/v1/events`. */
export function managementRoutes(fleet: ManagedFleet, options: ManagementOptions = {}): Routes {
  const closing = new AbortController()
  const group = managementGroup(fleet, options, closing.signal)
  return createRoutes([group], { closing, cors: corsOf(options), compat: options.compat })
}

export function managementGroup(fleet: ManagedFleet, options: ManagementOptions, closing: AbortSignal): RouteGroup {
  const { builds, servers, details, events } = fleet
  const maxBytes = options.maxBodyBytes ?? defaultMaxBodyBytes
  const dialect = dialectOf(options.compat)
  const build = '/api/v1/gameserverbuilds/:namespace/:name'
  const bodyOf = (exchange: Exchange) => readJson(exchange, maxBytes)

  return {
    paths: {
      '/api/v1/gameserverbuilds': {
        GET: operation('listBuilds', async () => json(200, dialect.builds(await builds.list()))),
        POST: operation('createBuild', async (exchange) => {
          const input = dialect.input(await bodyOf(exchange))
          return json(dialect.created, dialect.build(await builds.create(input)))
        }),
      },
      [build]: {
        GET: operation('getBuild', async (exchange) => json(200, dialect.build(await builds.get(refOf(exchange))))),
        PATCH: operation('patchBuild', async (exchange) => {
          const change = dialect.change(await bodyOf(exchange))
          return json(200, dialect.build(await builds.patch(refOf(exchange), change)))
        }),
        DELETE: operation('deleteBuild', async (exchange) => {
          await builds.delete(refOf(exchange))
          return json(200, { message: 'Game server build deleted' })
        }),
      },
      [`${build}/gameservers`]: {
        GET: operation('listServersOfBuild', (exchange) =>
          ofBuild(dialect, async () => dialect.servers(await servers.list({ build: refOf(exchange) }))),
        ),
      },
      [`${build}/gameserverdetails`]: {
        GET: operation('getBuildDetail', (exchange) =>
          ofBuild(dialect, async () => dialect.buildDetail(await details.ofBuild(refOf(exchange)))),
        ),
      },
      '/api/v1/gameservers': {
        GET: operation('listServers', async () => json(200, dialect.servers(await servers.list()))),
      },
      '/api/v1/gameservers/:namespace/:name': {
        GET: operation('getServer', async (exchange) => json(200, await servers.get(refOf(exchange)))),
        DELETE: operation('deleteServer', async (exchange) => {
          await servers.delete(refOf(exchange))
          return json(200, { message: 'Game server deleted' })
        }),
      },
      '/api/v1/gameserverdetails/:namespace/:name': {
        GET: operation('getServerDetail', async (exchange) =>
          json(200, dialect.detail(await details.get(refOf(exchange)))),
        ),
      },
      ...(events && {
        '/api/v1/events': { GET: operation('readEvents', eventStream({ ...fleet, events }, options.events, closing)) },
      }),
    },
    errorResponse: (error) => errorResponse(error, managementStatuses),
    guard: guard(options),
  }
}

async function ofBuild({ ofMissingBuild }: Dialect, read: () => Promise<unknown>): Promise<HttpResponse> {
  try {
    return json(200, await read())
  } catch (error) {
    if (ofMissingBuild === undefined || !FleetError.is(error, 'not-found')) throw error
    return json(200, ofMissingBuild)
  }
}

function refOf(exchange: Exchange): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}
