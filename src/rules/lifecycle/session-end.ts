/**
 * Decides what it means for a server that its game has ended its session and is ready for the next one. Pure.
 *
 * The game names the session and says which of its sessions it was, so neither a late nor a repeated report can end another match: an
 * earlier report has a lower number, and a report about a session that the server does not have names another id.
 */
import type { EndedSession } from '../game/heartbeat.js'
import { draftOf, type Server } from '../model/resources.js'
import { sessionKey } from '../model/session-ids.js'

/** True if the report ends the server's present session. */
export function endsSession({ session, state, endedSessions = 0 }: Server, ended: EndedSession): boolean {
  if (state !== 'Active' || ended.number <= endedSessions) return false
  // If the record has no session, it is older than the match, and the present session is the one that the game names.
  return session === undefined || sessionKey(session.id) === sessionKey(ended.sessionID)
}

/** The server goes on and is standing by again, as the last that became ready. Returns the same object if the report ends nothing. */
export function afterSessionEnd(server: Server, ended: EndedSession, now: number): Server {
  if (!endsSession(server, ended)) return server
  const next = draftOf(server)
  next.state = 'StandingBy'
  next.session = undefined
  next.endedSessions = ended.number
  next.reachedStandingByOn = now
  next.reachedActiveOn = undefined
  return next
}

/** True if the heartbeat was sent before the last session that the server's record shows as ended. It then only proves that the game runs. */
export function isOutdated({ endedSessions = 0 }: Server, ended: EndedSession | undefined): boolean {
  return (ended?.number ?? 0) < endedSessions
}

/** True if more sessions of the server have ended according to `a` than according to `b`, by which it does not terminate. */
export function hasLaterEnd(a: Server, b: Server): boolean {
  return (a.endedSessions ?? 0) > (b.endedSessions ?? 0) && b.state !== 'Terminating'
}
