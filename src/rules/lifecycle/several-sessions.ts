/**
 * The sessions of a server whose game takes several at the same time. Pure.
 *
 * Each session of a server has a number, which no other session of it ever has. The session that a server begins with has the number
 * after all that it has ended, so a server with one session needs no further field. A game reports the end of a session by its id and
 * number, so a late or repeated report never ends another one, even one with the same id.
 */
import type { EndedSession } from '../game/heartbeat.js'
import { type BuildSpec, draftOf, type Server, type Session } from '../model/resources.js'
import { sessionKey } from '../model/session-ids.js'

/** How many sessions a server of the build may have at the same time. */
export function sessionsPerServer({ sessionsPerServer: most }: Pick<BuildSpec, 'sessionsPerServer'>): number {
  return most !== undefined && most > 1 ? most : 1
}

/** All sessions of the server, in the order in which they began. */
export function sessionsOf({ session, moreSessions }: Pick<Server, 'session' | 'moreSessions'>): readonly Session[] {
  if (!session) return noSessions
  return moreSessions ? [session, ...moreSessions] : [session]
}

const noSessions: readonly Session[] = Object.freeze([])

/** The session of the server with this key, see `sessionKey`. */
export function sessionByKey(server: Pick<Server, 'session' | 'moreSessions'>, key: string): Session | undefined {
  const { session, moreSessions } = server
  if (session && sessionKey(session.id) === key) return session
  return moreSessions?.find(({ id }) => sessionKey(id) === key)
}

/** The number of one of the server's sessions. */
export function numberOf({ endedSessions = 0 }: Pick<Server, 'endedSessions'>, { number }: Session): number {
  return number ?? endedSessions + 1
}

/** Distinguishes one of the server's sessions from every other of the fleet, also from a later one with the same id. */
export function sessionUid(server: Pick<Server, 'endedSessions' | 'uid'>, session: Session): string {
  return `${server.uid}-${numberOf(server, session)}`
}

/** The highest number that a session of the server has or had. */
export function lastNumber({ endedSessions = 0, session, startedSessions }: Server): number {
  return startedSessions ?? endedSessions + (session ? 1 : 0)
}

/** True if both records have the same sessions, and the same of them are to end. */
export function isSameSessions(a: Server, b: Server): boolean {
  if (a.startedSessions !== b.startedSessions || a.session?.ending !== b.session?.ending) return false
  if (a.session?.number !== b.session?.number) return false
  const [more, others] = [a.moreSessions ?? [], b.moreSessions ?? []]
  return (
    more.length === others.length &&
    more.every(({ id, number, ending }, i) => {
      const other = others[i]
      return id === other?.id && number === other.number && ending === other.ending
    })
  )
}

/** The running server with a further session. Whether it has room is for the caller to know. */
export function withSession(server: Server, session: Session, now: number): Server {
  if (server.state !== 'Active' || !server.session) return server
  const next = draftOf(server)
  next.startedSessions = lastNumber(server) + 1
  const added = { ...session, number: next.startedSessions, startedAt: now }
  next.moreSessions = [...(server.moreSessions ?? []), added]
  return next
}

/** The server without a further session that was added and could not be stored. */
export function withoutAdded(server: Server, key: string): Server {
  const { moreSessions = [] } = server
  const left = moreSessions.filter(({ id }) => sessionKey(id) !== key)
  if (left.length === moreSessions.length) return server
  const next = draftOf(server)
  next.moreSessions = left.length > 0 ? left : undefined
  return next
}

/** The server without further sessions that the store does not have. */
export function withoutUnstored(server: Server, stored: Server | undefined): Server {
  const keys = (server.moreSessions ?? []).map(({ id }) => sessionKey(id))
  const unstored = keys.filter((key) => !stored || !sessionByKey(stored, key))
  return unstored.reduce(withoutAdded, server)
}

/** The server whose game is asked to end the session with this number. */
export function withEndingSession(server: Server, number: number): Server {
  const asked = sessionsOf(server).find((session) => numberOf(server, session) === number)
  if (!asked || asked.ending) return server
  return withSessions(
    server,
    sessionsOf(server).map((session) => (session === asked ? { ...session, ending: true as const } : session)),
  )
}

/**
 * The server after its game has ended these sessions. It is standing by again once it has none. Returns the same object if they are none
 * of its own. If the record has no session at all, it is older than those that the game has ended, which were all.
 */
export function afterSessionEnds(server: Server, ended: readonly EndedSession[], now: number): Server {
  if (server.state !== 'Active') return server
  if (!server.session) {
    const highest = Math.max(0, ...ended.map(({ number }) => number))
    return highest > (server.endedSessions ?? 0) ? standingByAgain(server, highest, now) : server
  }
  const sessions = sessionsOf(server)
  const left = sessions.filter((session) => !ended.some((end) => endsOne(server, session, end)))
  if (left.length === sessions.length) return server
  if (left.length === 0) return standingByAgain(server, lastNumber(server), now)
  const next = draftOf(withSessions(server, left))
  next.startedSessions = lastNumber(server)
  return next
}

/** True if the report is about this session of the server. */
export function endsOne(server: Server, session: Session, { number, sessionID }: EndedSession): boolean {
  return numberOf(server, session) === number && sessionKey(session.id) === sessionKey(sessionID)
}

function withSessions(server: Server, [first, ...others]: readonly Session[]): Server {
  const next = draftOf(server)
  next.session = first
  next.moreSessions = others.length > 0 ? others : undefined
  return next
}

function standingByAgain(server: Server, endedSessions: number, now: number): Server {
  const next = draftOf(server)
  next.state = 'StandingBy'
  next.session = undefined
  next.moreSessions = undefined
  next.startedSessions = undefined
  next.endedSessions = endedSessions
  next.reachedStandingByOn = now
  next.reachedActiveOn = undefined
  return next
}
