/** The operations on sessions. */
import { FleetError } from '../../contracts/errors.js'
import { accepted } from '../../contracts/invalid-input.js'
import type { Sessions } from '../../contracts/sessions.js'
import { readJoinRequest, readRoomQuery, readSeatRelease, readSeatRequest } from '../../rules/validation/seats.js'
import { callerOf } from '../access/caller.js'
import type { Exchange } from '../core/exchange.js'
import { operation, type RouteGroup } from '../core/handler-table.js'
import { json } from '../core/http-response.js'
import { jsonInSlices } from '../core/json-slices.js'
import { readJson } from '../core/read-json.js'
import { refOf, refuseMisspelled, refuseOptionsIn } from './parameters.js'
import { readWaitMs, waitOption, waitParameter } from './waiting.js'

/** Runs work that waits, until its caller leaves or this host closes. */
export type Wait = <T>(exchange: Exchange, work: (signal: AbortSignal) => Promise<T>) => Promise<T>

export interface SessionPathsOptions {
  /** Larger bodies get 413. */
  readonly maxBodyBytes: number
  readonly maxWaitMs: number
  readonly wait: Wait
}

export function sessionPaths(
  sessions: Sessions,
  { maxBodyBytes, maxWaitMs, wait }: SessionPathsOptions,
): RouteGroup['paths'] {
  /** With `?wait=`, answers when the session has ended, or after that time as it is then. */
  const get = async (exchange: Exchange) => {
    const sessionID = exchange.param('sessionID')
    const waitMs = readWaitMs(exchange.query('wait'), maxWaitMs)
    if (waitMs) {
      await wait(exchange, (signal) =>
        sessions.ended(sessionID, { waitMs, signal }).catch((error: unknown) => {
          if (signal.aborted || !FleetError.is(error, 'aborted')) throw error
        }),
      )
    }
    return json(200, await sessions.get(sessionID))
  }
  return {
    '/api/v1/sessions': {
      GET: operation('listSessions', async () => jsonInSlices(200, await sessions.list())),
    },
    '/api/v1/sessions/:sessionID': {
      GET: operation('getSession', get),
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
    ...seatPaths(sessions, (exchange) => readJson(exchange, maxBodyBytes), { maxWaitMs, wait }),
  }
}

function seatPaths(
  sessions: Sessions,
  bodyOf: (exchange: Exchange) => Promise<unknown>,
  { maxWaitMs, wait }: Pick<SessionPathsOptions, 'maxWaitMs' | 'wait'>,
): RouteGroup['paths'] {
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
      POST: operation('joinSession', async (exchange) => {
        refuseMisspelled(exchange, waitParameter)
        const waitMs = readWaitMs(exchange.query('wait'), maxWaitMs)
        const sent = await bodyOf(exchange)
        refuseOptionsIn(sent, waitOption)
        const body = accepted(readJoinRequest(sent))
        const caller = callerOf(exchange)
        if (!waitMs) return json(200, await sessions.join(body, { caller }))
        return json(200, await wait(exchange, (signal) => sessions.join(body, { caller, waitMs, signal })))
      }),
    },
  }
}
