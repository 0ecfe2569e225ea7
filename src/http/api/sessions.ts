/** The operations on sessions. */
import type { Sessions } from '../../contracts/sessions.js'
import { callerOf } from '../access/caller.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { jsonInSlices } from '../core/json-slices.js'
import { refOf } from './parameters.js'

export function sessionPaths(sessions: Sessions): RouteGroup['paths'] {
  return {
    '/api/v1/sessions': {
      GET: operation('listSessions', async () => jsonInSlices(200, await sessions.list())),
    },
    '/api/v1/sessions/:sessionID': {
      GET: operation('getSession', async (exchange) => json(200, await sessions.get(exchange.param('sessionID')))),
      DELETE: operation('endSession', async (exchange) => {
        await sessions.end(exchange.param('sessionID'), { caller: callerOf(exchange) })
        return json(200, { message: 'Session ended' })
      }),
    },
    '/api/v1/gameserverbuilds/:namespace/:name/sessions': {
      GET: operation('listSessionsOfBuild', async (exchange) =>
        jsonInSlices(200, await sessions.list({ build: refOf(exchange) })),
      ),
    },
    '/api/v1/players/:player/session': {
      GET: operation('getSessionOfPlayer', async (exchange) =>
        json(200, await sessions.ofPlayer(exchange.param('player'))),
      ),
    },
  }
}
