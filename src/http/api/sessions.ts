/** The operations on sessions. */
import { FleetError } from '../../contracts/errors.js'
import { accepted } from '../../contracts/invalid-input.js'
import type { Sessions } from '../../contracts/sessions.js'
import { readJoinRequest, readRoomQuery, readSeatRelease, readSeatRequest } from '../../rules/validation/seats.js'
import { readJson } from '../core/bodies.js'
import { callerOf, type Exchange } from '../core/exchange.js'
import { json, jsonInSlices } from '../core/responses.js'
import type { Handlers } from '../routes/routes.js'
import { readWaitMs, refOf, refuseMisspelled, refuseOptionsIn, waitOption } from './parameters.js'

export interface SessionOptions {
  /** Larger bodies get 413. */
  readonly maxBodyBytes: number
  readonly maxWaitMs: number
  /** Runs work that waits, until its caller leaves or this host closes. */
  readonly wait: <T>(exchange: Exchange, work: (signal: AbortSignal) => Promise<T>) => Promise<T>
}

export function sessionHandlers(sessions: Sessions, { maxBodyBytes, maxWaitMs, wait }: SessionOptions): Handlers {
  return {
    listSessions: async () => jsonInSlices(200, await sessions.list()),
    listSessionsOfBuild: async (exchange) => jsonInSlices(200, await sessions.list({ build: refOf(exchange) })),
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
