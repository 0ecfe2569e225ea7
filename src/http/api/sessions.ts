/** The operations on sessions. */
import { FleetError } from '../../contracts/errors.js'
import type { Sessions } from '../../contracts/sessions.js'
import type { Checked } from '../../rules/validation/problem.js'
import { readJoinRequest, readRoomQuery, readSeatRelease, readSeatRequest } from '../../rules/validation/seats.js'
import { callerOf } from '../access/caller.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { jsonInSlices } from '../core/json-slices.js'
import { readJson } from '../core/read-json.js'
import { refOf } from './parameters.js'

/** Bodies larger than `maxBodyBytes` get 413. */
export function sessionPaths(sessions: Sessions, maxBodyBytes: number): RouteGroup['paths'] {
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
    ...seatPaths(sessions, (exchange) => readJson(exchange, maxBodyBytes)),
  }
}

function seatPaths(sessions: Sessions, bodyOf: (exchange: Exchange) => Promise<unknown>): RouteGroup['paths'] {
  return {
    '/api/v1/sessions/:sessionID/seats': {
      POST: operation('reserveSeats', async (exchange) => {
        const { players, holdMs } = accepted(readSeatRequest(await bodyOf(exchange)))
        const options = { holdMs, caller: callerOf(exchange) }
        return json(200, await sessions.reserveSeats(exchange.param('sessionID'), players, options))
      }),
    },
    '/api/v1/sessions/:sessionID/seats/release': {
      POST: operation('releaseSeats', async (exchange) => {
        const players = accepted(readSeatRelease(await bodyOf(exchange)))
        const options = { caller: callerOf(exchange) }
        return json(200, await sessions.releaseSeats(exchange.param('sessionID'), players, options))
      }),
    },
    '/api/v1/sessions-with-room': {
      POST: operation('findSessionsWithRoom', async (exchange) =>
        jsonInSlices(200, await sessions.withRoom(accepted(readRoomQuery(await bodyOf(exchange))))),
      ),
    },
    '/api/v1/join': {
      POST: operation('joinSession', async (exchange) =>
        json(
          200,
          await sessions.join(accepted(readJoinRequest(await bodyOf(exchange))), { caller: callerOf(exchange) }),
        ),
      ),
    },
  }
}

function accepted<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value
  throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
}
