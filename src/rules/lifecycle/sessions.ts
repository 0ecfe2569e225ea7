/**
 * The sessions of a server: how they begin, how their games end them, and how many servers they need. Pure.
 *
 * A server has places, one for each session that it takes at the same time: `sessionsPerServer` of its build, if its game takes several.
 * Each of its sessions has a number, which no other session of it ever has, and numbers only rise. A game reports the end of a session by
 * its id and number, so a late or repeated report never ends another one, even one with the same id.
 */
import type { EndedSession } from '../game/heartbeat.js'
import { type BuildSpec, draftOf, type NewSession, type Server, type Session } from '../model/resources.js'
import { sessionKey } from '../model/session-ids.js'

type Sessions = Pick<Server, 'sessions'>

/** How many sessions a server of the build may have at the same time. */
export function sessionsPerServer({ sessionsPerServer: most }: Pick<BuildSpec, 'sessionsPerServer'>): number {
  return most !== undefined && most > 1 ? most : 1
}

/** The session of the server with exactly this id, as it was allocated. */
export function sessionWithId({ sessions }: Sessions, id: string): Session | undefined {
  const [first] = sessions
  if (first === undefined || first.id === id) return first
  return sessions.length === 1 ? undefined : sessions.find((session) => session.id === id)
}

/** The session of the server with this key, see `sessionKey`. */
export function sessionByKey({ sessions }: Sessions, key: string): Session | undefined {
  // Most servers have one session or none.
  const [first] = sessions
  if (first === undefined || sessionKey(first.id) === key) return first
  return sessions.length === 1 ? undefined : sessions.find(({ id }) => sessionKey(id) === key)
}

/** Distinguishes one of the server's sessions from every other of the fleet, also from a later one with the same id. */
export function sessionUid({ uid }: Pick<Server, 'uid'>, { number }: Session): string {
  return `${uid}-${number}`
}

/** The highest number that a session of the server has or had. 0 if it never had one. */
export function lastNumber({ startedSessions = 0 }: Pick<Server, 'startedSessions'>): number {
  return startedSessions
}

/** Every session of the server up to this number has ended. */
export function endedNumber({ sessions, startedSessions = 0 }: Pick<Server, 'sessions' | 'startedSessions'>): number {
  const [first] = sessions
  return first ? first.number - 1 : startedSessions
}

/** True if both records have the same sessions, and the same of them are to end. */
export function isSameSessions(a: Server, b: Server): boolean {
  if (a.startedSessions !== b.startedSessions || a.sessions.length !== b.sessions.length) return false
  return a.sessions.every(({ id, number, ending }, i) => {
    const other = b.sessions[i]
    return id === other?.id && number === other.number && ending === other.ending
  })
}

/**
 * The server with a further session, its first or one beside others. Whether there is a place for it is for the caller to know. A session that
 * has been stored keeps its number and time.
 */
export function withSession(server: Server, session: NewSession | Session, now: number): Server {
  const { sessions, state } = server
  const isFirst = state === 'StandingBy'
  // An Active server without a session runs one that its record does not know.
  if (!isFirst && (state !== 'Active' || sessions.length === 0)) return server
  const next = draftOf(server)
  const added = 'number' in session ? session : begun(session, lastNumber(server) + 1, now)
  next.startedSessions = added.number
  next.sessions = isFirst ? [added] : [...sessions, added]
  if (isFirst) {
    next.state = 'Active'
    next.reachedActiveOn = now
    next.reservedUntil = undefined
  }
  return next
}

function begun({ id, cookie, initialPlayers, holds }: NewSession, number: number, startedAt: number): Session {
  return { id, cookie, initialPlayers, holds, number, startedAt, ending: undefined }
}

/** The server whose game is asked to end the session with this number. */
export function withEndingSession(server: Server, number: number): Server {
  const asked = server.sessions.find((session) => session.number === number)
  if (!asked || asked.ending) return server
  const sessions = server.sessions.map((session) =>
    session === asked ? { ...session, ending: true as const } : session,
  )
  return withSessions(server, sessions)
}

/**
 * The server after its game has ended these sessions. Once it has none, it is standing by again, as the last that became ready. Returns the
 * same object if they are none of its own. If the record of an Active server has no session, it is older than those that the game has
 * ended, which were all.
 */
export function afterSessionEnds(server: Server, ended: readonly EndedSession[], now: number): Server {
  if (!ended.some((one) => endsSession(server, one))) return server
  const next = draftOf(server)
  next.startedSessions = ended.reduce((most, { number }) => Math.max(most, number), lastNumber(server))
  next.sessions = server.sessions.filter((session) => !ended.some((one) => endsOne(session, one)))
  if (next.sessions.length > 0) return next
  next.state = 'StandingBy'
  next.reachedStandingByOn = now
  next.reachedActiveOn = undefined
  return next
}

/** True if the report ends a session that the server has, or that its record does not know. */
export function endsSession(server: Server, ended: EndedSession): boolean {
  if (server.state !== 'Active') return false
  if (server.sessions.length === 0) return ended.number > lastNumber(server)
  return server.sessions.some((session) => endsOne(session, ended))
}

/** True if the report is about this session. A game counts further than a record that is older than its sessions. */
export function endsOne(session: Session, { number, sessionID }: EndedSession): boolean {
  return number >= session.number && sessionKey(session.id) === sessionKey(sessionID)
}

/** True if the heartbeat was sent before the last session that the server's record shows as ended. It then only proves that the game runs. */
export function isOutdated(server: Server, ended: EndedSession | undefined): boolean {
  return (ended?.number ?? 0) < endedNumber(server)
}

/** True if more sessions of the server have ended according to `a` than according to `b`, by which it does not terminate. */
export function hasLaterEnd(a: Server, b: Server): boolean {
  return endedNumber(a) > endedNumber(b) && b.state !== 'Terminating'
}

function withSessions(server: Server, sessions: readonly Session[]): Server {
  const next = draftOf(server)
  next.sessions = sessions
  return next
}

/** The number of servers for so many sessions, if each takes `perServer`. */
export function serversFor(sessions: number, perServer: number): number {
  return Math.ceil(sessions / perServer)
}

export interface FreePlaces {
  /** On running servers. */
  readonly free: number
  /** Of a new server of the build. */
  readonly perServer: number
}

/**
 * The spec with as many servers standing by as `standingBy` and `standingBySessions` both ask for, at most `max`: what is free on running
 * servers is not needed on others.
 */
export function withSessionsStandingBy<
  S extends Pick<BuildSpec, 'standingBy' | 'standingBySessions'> & Pick<BuildSpec, 'max'>,
>(spec: S, { free, perServer }: FreePlaces): S {
  const { max, standingBy, standingBySessions = 0 } = spec
  const wanted = Math.min(max, serversFor(Math.max(0, standingBySessions - free), perServer))
  return wanted > standingBy ? { ...spec, standingBy: wanted } : spec
}
