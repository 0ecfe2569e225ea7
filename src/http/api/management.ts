/** The management API: builds, game servers and their details, as the service description has them. */
import type { Hono } from 'hono'
import { FleetError } from '../../contracts/errors.js'
import type { Builds, Details, Fleet, Servers } from '../../contracts/fleet.js'
import type { Ref } from '../../rules/model/resources.js'
import { readBuildInput, readPatch } from '../../rules/validation/requests.js'
import { defaultMaxBodyBytes } from '../core/body.js'
import { checked } from '../core/checked.js'
import { type Compat, type Dialect, dialectOf } from './compat.js'
import { corsOf, type CorsOptions } from '../access/cors.js'
import { eventStream, type EventStreamOptions } from './event-stream.js'
import { type Answer, type Exchange, json } from '../core/exchange.js'
import { answerOf, managementStatuses } from '../core/error-responses.js'
import { guard, type GuardOptions } from '../access/guard.js'
import { readJson } from '../core/read-json.js'
import { closer, operation, type Part, routes } from '../core/routing.js'

export interface ManagementOptions extends GuardOptions, CorsOptions {
  /** Answers in the shapes of another project, for what was written for that one. Default: our own. */
  readonly compat?: Compat
  readonly events?: EventStreamOptions
  /** Fires when this host closes: streams of events end. */
  readonly closing?: AbortSignal
  /** A larger body is refused with 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

/** The part of a fleet that the management API calls. */
export interface ManagedFleet {
  readonly builds: Pick<Builds, 'create' | 'list' | 'get' | 'patch' | 'delete'>
  readonly servers: Pick<Servers, 'list' | 'get' | 'delete'>
  readonly details: Details
  /** Without it no events are served. */
  readonly events?: Fleet['events']
}

/** A Hono app: mount it as it is, hand its `fetch` to a web-standard runtime, or wrap it in `nodeHandler`. */
export function managementRoutes(fleet: ManagedFleet, options: ManagementOptions = {}): Hono {
  const closing = closer(options.closing)
  const part = managementPart(fleet, options, closing.signal)
  return routes([part], { closing, cors: corsOf(options), compat: options.compat })
}

export function managementPart(fleet: ManagedFleet, options: ManagementOptions, closing: AbortSignal): Part {
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
          const input = checked(readBuildInput(dialect.input(await bodyOf(exchange))))
          return json(dialect.created, dialect.build(await builds.create(input)))
        }),
      },
      [build]: {
        GET: operation('getBuild', async (exchange) => json(200, dialect.build(await builds.get(refOf(exchange))))),
        PATCH: operation('patchBuild', async (exchange) => {
          const change = checked(readPatch(dialect.change(await bodyOf(exchange))))
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
    toAnswer: (error) => answerOf(error, managementStatuses),
    guard: guard(options),
  }
}

async function ofBuild({ ofNoBuild }: Dialect, ask: () => Promise<unknown>): Promise<Answer> {
  try {
    return json(200, await ask())
  } catch (error) {
    if (ofNoBuild === undefined || !FleetError.is(error, 'not-found')) throw error
    return json(200, ofNoBuild)
  }
}

function refOf(exchange: Exchange): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}
