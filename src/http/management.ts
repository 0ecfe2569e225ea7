/** The management API: builds, game servers and their details, as the service description has them. */
import type { Hono } from 'hono'
import type { Builds, Details, Servers } from '../fleet.js'
import type { Ref } from '../rules/resources.js'
import { readBuildInput, readPatch } from '../rules/validation.js'
import { defaultMaxBodyBytes } from './body.js'
import { checked } from './checked.js'
import { type Exchange, json } from './exchange.js'
import { answerOf, managementStatuses } from './failures.js'
import { guard, type GuardOptions } from './guard.js'
import { readJson } from './read-json.js'
import { operation, routes } from './routing.js'

export interface ManagementOptions extends GuardOptions {
  /** A larger body is refused with 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
}

/** The part of a fleet that the management API calls. */
export interface ManagedFleet {
  readonly builds: Pick<Builds, 'create' | 'list' | 'get' | 'patch' | 'delete'>
  readonly servers: Pick<Servers, 'list' | 'get' | 'delete'>
  readonly details: Details
}

/** A Hono app: mount it as it is, hand its `fetch` to a web-standard runtime, or wrap it in `nodeHandler`. */
export function managementRoutes(fleet: ManagedFleet, options: ManagementOptions = {}): Hono {
  const { builds, servers, details } = fleet
  const maxBytes = options.maxBodyBytes ?? defaultMaxBodyBytes
  const build = '/api/v1/gameserverbuilds/:namespace/:name'

  return routes(
    {
      '/api/v1/gameserverbuilds': {
        GET: operation('listBuilds', async () => json(200, await builds.list())),
        POST: operation('createBuild', async (exchange) =>
          json(200, await builds.create(checked(readBuildInput(await readJson(exchange, maxBytes))))),
        ),
      },
      [build]: {
        GET: operation('getBuild', async (exchange) => json(200, await builds.get(refOf(exchange)))),
        PATCH: operation('patchBuild', async (exchange) =>
          json(200, await builds.patch(refOf(exchange), checked(readPatch(await readJson(exchange, maxBytes))))),
        ),
        DELETE: operation('deleteBuild', async (exchange) => {
          await builds.delete(refOf(exchange))
          return json(200, { message: 'Game server build deleted' })
        }),
      },
      [`${build}/gameservers`]: {
        GET: operation('listServersOfBuild', async (exchange) =>
          json(200, await servers.list({ build: refOf(exchange) })),
        ),
      },
      // One object for a build's details, an array for one server's: the service description has it so.
      [`${build}/gameserverdetails`]: {
        GET: operation('getBuildDetail', async (exchange) => json(200, await details.ofBuild(refOf(exchange)))),
      },
      '/api/v1/gameservers': { GET: operation('listServers', async () => json(200, await servers.list())) },
      '/api/v1/gameservers/:namespace/:name': {
        GET: operation('getServer', async (exchange) => json(200, await servers.get(refOf(exchange)))),
        DELETE: operation('deleteServer', async (exchange) => {
          await servers.delete(refOf(exchange))
          return json(200, { message: 'Game server deleted' })
        }),
      },
      '/api/v1/gameserverdetails/:namespace/:name': {
        GET: operation('getServerDetail', async (exchange) => json(200, [await details.get(refOf(exchange))])),
      },
    },
    { toAnswer: (error) => answerOf(error, managementStatuses), guard: guard(options) },
  )
}

function refOf(exchange: Exchange): Ref {
  return { namespace: exchange.param('namespace'), name: exchange.param('name') }
}
