/** The operations that report on the fleet as a whole, and on the history of a server. */
import type { Fleet } from '../../contracts/fleet.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { refOf } from './parameters.js'

/** A path is served only if the fleet has its method. */
export type ReportingFleet = Partial<Pick<Fleet, 'explain' | 'stats' | 'activity' | 'health'>>

export function fleetStatePaths({ explain, stats, activity, health }: ReportingFleet): RouteGroup['paths'] {
  return {
    ...(explain && {
      '/api/v1/gameservers/:namespace/:name/history': {
        GET: operation('explainServer', async (exchange: Exchange) => json(200, await explain(refOf(exchange)))),
      },
    }),
    ...(stats && { '/api/v1/stats': { GET: operation('readStats', () => Promise.resolve(json(200, stats()))) } }),
    ...(activity && {
      '/api/v1/activity': { GET: operation('readActivity', async () => json(200, await activity())) },
      '/api/v1/gameserverbuilds/:namespace/:name/activity': {
        GET: operation('readBuildActivity', async (exchange: Exchange) =>
          json(200, await activity({ build: refOf(exchange) })),
        ),
      },
    }),
    ...(health && { '/api/v1/health': { GET: operation('readHealth', async () => json(200, await health())) } }),
  }
}
