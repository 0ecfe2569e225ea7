/** A session, as its game gets it. */
import type { SessionConfig } from '../../rules/game/heartbeat.js'
import type { Session } from '../../rules/model/resources.js'

export function sessionConfigOf({ id, cookie, initialPlayers }: Session): SessionConfig {
  return Object.freeze({
    sessionId: id,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    initialPlayers,
  })
}
