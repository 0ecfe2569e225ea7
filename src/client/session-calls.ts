/** The client's calls for sessions. Each sends one request to the management API. */
import { checkNames } from '../contracts/option-checks.js'
import { type GameSessionBody, gameSession, type Sessions } from '../contracts/sessions.js'
import type { Connection } from './connection.js'
import { at, deleteAt, isIdempotent, type Management, segment } from './resource-calls.js'

export function sessionCalls(calls: Connection, management: Management): Sessions {
  const one = (sessionID: string) => `${management()}/sessions/${segment(sessionID)}`
  return {
    get: async (sessionID, { signal } = {}) =>
      gameSession(await calls.json<GameSessionBody>({ url: one(sessionID), isIdempotent, signal })),
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
  }
}
