/** The client's calls for sessions. Each sends one request to the management API. */
import { checkNames } from '../contracts/option-checks.js'
import { FleetError } from '../contracts/errors.js'
import { type EndedGameSession, type GameSessionBody, gameSession, type Sessions } from '../contracts/sessions.js'
import { shown } from '../rules/validation/problem.js'
import type { Connection } from './connection.js'
import { at, deleteAt, isIdempotent, type Management, segment } from './resource-calls.js'

/** Of one request for the end of a session. Less than proxies wait for an answer. */
const longestWaitMs = 25_000

export function sessionCalls(calls: Connection, management: Management): Sessions {
  const one = (sessionID: string) => `${management()}/sessions/${segment(sessionID)}`
  return {
    async get(sessionID, { signal } = {}) {
      const found = await calls.json<GameSessionBody | EndedGameSession>({ url: one(sessionID), isIdempotent, signal })
      return found.state === 'Ended' ? found : gameSession(found)
    },
    async ended(sessionID, options = {}) {
      checkNames('sessions.ended', options, ['waitMs', 'signal'])
      const { waitMs = Infinity, signal } = options
      if (!(waitMs >= 0)) throw new FleetError('invalid', `waitMs must be a number ≥ 0, but is ${shown(waitMs)}`)
      const since = performance.now()
      for (;;) {
        const leftMs = Math.max(0, waitMs - (performance.now() - since))
        const call = { url: one(sessionID), isIdempotent, waitMs: Math.min(leftMs, longestWaitMs), signal }
        const found = await calls.json<GameSessionBody | EndedGameSession>(call)
        if (found.state === 'Ended') return found
        if (leftMs <= longestWaitMs)
          throw new FleetError('aborted', `session ${sessionID} has not ended within ${waitMs} ms`)
      }
    },
    async list(options = {}) {
      checkNames('sessions.list', options, ['build', 'signal'])
      const { build, signal } = options
      const url = build === undefined ? management() : at(`${management()}/gameserverbuilds`, build)
      const found = await calls.json<readonly GameSessionBody[]>({ url: `${url}/sessions`, isIdempotent, signal })
      return found.map(gameSession)
    },
    ofPlayer: async (player, { signal } = {}) =>
      gameSession(
        await calls.json<GameSessionBody>({
          url: `${management()}/players/${segment(player)}/session`,
          isIdempotent,
          signal,
        }),
      ),
    async end(sessionID, options = {}) {
      checkNames('sessions.end', options, ['signal', 'caller'])
      await deleteAt(calls, one(sessionID), options.signal)
    },
    ...seatCalls(calls, management, one),
  }
}

type SeatCalls = Pick<Sessions, 'reserveSeats' | 'releaseSeats' | 'withRoom' | 'join'>

function seatCalls(calls: Connection, management: Management, one: (sessionID: string) => string): SeatCalls {
  const post = async (url: string, body: unknown, signal: AbortSignal | undefined, waitMs?: number) =>
    gameSession(await calls.json<GameSessionBody>({ method: 'POST', url, body, isIdempotent, waitMs, signal }))
  return {
    async reserveSeats(sessionID, players, options = {}) {
      checkNames('sessions.reserveSeats', options, ['holdMs', 'signal', 'caller'])
      const { holdMs, signal } = options
      return post(`${one(sessionID)}/seats`, { players, holdMs }, signal)
    },
    async releaseSeats(sessionID, players, options = {}) {
      checkNames('sessions.releaseSeats', options, ['signal', 'caller'])
      return post(`${one(sessionID)}/seats/release`, { players }, options.signal)
    },
    async withRoom(query, options = {}) {
      checkNames('sessions.withRoom', options, ['signal'])
      const url = `${management()}/sessions-with-room`
      const call = { method: 'POST', url, body: query, isIdempotent, signal: options.signal } as const
      return (await calls.json<readonly GameSessionBody[]>(call)).map(gameSession)
    },
    async join(request, options = {}) {
      checkNames('sessions.join', options, ['waitMs', 'signal', 'caller'])
      return post(`${management()}/join`, request, options.signal, options.waitMs)
    },
  }
}
