/**
 * The sessions of a server: how they begin, how their games end them, and how many servers they need. Pure.
 *
 * A server has places, one for each session that it takes at the same time: `sessionsPerServer` of its build, if its game takes several.
 * Each of its sessions has a number, which no other session of it ever has, and numbers only rise. A game reports the end of a session by
 * its id and number, so a late or repeated report never ends another one, even one with the same id.
 */
import type { EndedSession } from '../game/heartbeat.js'
import { sessionKey } from '../model/names.js'
import {
  type BuildSpec,
  draftOf,
  type NewSession,
  type SeatHold,
  type Server,
  type Session,
} from '../model/resources.js'
import { sizeLimits, utf8Bytes } from '../model/sizes.js'

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

/** True if both records have the same sessions, the same of them are to end, and their games know of the same. */
export function isSameSessions(a: Server, b: Server): boolean {
  if (a.startedSessions !== b.startedSessions || a.sessions.length !== b.sessions.length) return false
  return a.sessions.every(({ id, number, ending, told }, i) => {
    const other = b.sessions[i]
    return id === other?.id && number === other.number && ending === other.ending && told === other.told
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
  return { id, cookie, initialPlayers, holds, number, startedAt, ending: undefined, told: undefined }
}

/** The server whose game has been told of the session with this number. */
export function withToldSession(server: Server, number: number): Server {
  if (!server.sessions.some((session) => session.number === number && !session.told)) return server
  const told = (session: Session) => (session.number === number ? { ...session, told: true as const } : session)
  return withSessions(server, server.sessions.map(told))
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
function endsSession(server: Server, ended: EndedSession): boolean {
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

interface FreePlaces {
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

// Decides when a session to which no player has come ends.
//
// The time is counted on the host that hears the game: after a restart or suspension of the host it begins again, because players may
// have come while the host could not know. So no wall clock matters. A heartbeat that arrives after the time may have been sent before
// it, so only the next one decides.

/** A session to which no player has come yet. Times in ms on one clock. */
export interface Claim {
  /** When the game was first heard with this session. */
  readonly since: number
  /** True once a heartbeat without players has arrived after the time. */
  readonly isDue: boolean
}

/**
 * Returns the claim after a heartbeat without players, or `unclaimed` if the session ends. `now` must not include time for which the host
 * could not receive heartbeats.
 */
export function afterEmptyHeartbeat(claim: Claim | undefined, now: number, seconds: number): Claim | 'unclaimed' {
  if (claim === undefined) return { since: now, isDue: false }
  // An invalid number, which somebody has put into the store, never passes.
  const isOver = seconds >= 1 && now - claim.since >= seconds * 1000
  if (!isOver) return claim
  return claim.isDue ? 'unclaimed' : { since: claim.since, isDue: true }
}

// The seats of a session: taken by connected players, held for players who are on their way, or free.
//
// A connected player has a seat and needs no hold. A hold ends when its player connects, when it is released, or at its time. Wall clocks
// of hosts differ, so a hold that claims to last longer than any may is over: it would otherwise outlast a clock that was set back.

/** How long a seat is held unless a request says otherwise, also for the initial players of an allocation. */
export const defaultHoldMs = 60_000
export const maxHoldMs = 3_600_000

export interface Seats {
  readonly total: number
  /** Seats of connected players. More than `total` if the game let more in. */
  readonly taken: number
  /** Seats held for players who are on their way. */
  readonly held: number
  readonly free: number
}

/** Counts the seats at wall time `now`, or all holds if it is undefined. A game may list a player twice. */
export function seatsOf(
  total: number,
  players: readonly string[],
  holds: readonly SeatHold[] | undefined,
  now: number | undefined,
): Seats {
  const connected = new Set(players)
  const taken = connected.size
  let held = 0
  for (const hold of holds ?? []) {
    if (!connected.has(hold.player) && (now === undefined || isHeld(hold, now))) held++
  }
  return { total, taken, held, free: Math.max(0, total - taken - held) }
}

function isHeld({ until }: SeatHold, now: number): boolean {
  return until > now && until - now <= maxHoldMs
}

interface SeatRequest {
  /** Seats of the session. */
  readonly total: number
  /** The connected players. */
  readonly players: readonly string[]
  /** Those for whom to hold seats. */
  readonly wanted: readonly string[]
  readonly holdMs: number
}

type Reserved =
  | {
      readonly ok: true
      readonly holds: readonly SeatHold[]
      /** The players whose hold is new or renewed. */
      readonly reserved: readonly string[]
    }
  /** `tooLarge`: there are enough seats, but the holds would take too much of the record. */
  | { readonly ok: false; readonly needed: number; readonly seats: Seats; readonly tooLarge: boolean }

/**
 * Holds seats at wall time `now` for all wanted players, or for none. A hold that the player has already is renewed, and never ends sooner
 * than before. Holds that are over are dropped.
 */
export function reserved(holds: readonly SeatHold[] | undefined, request: SeatRequest, now: number): Reserved {
  const { total, players, wanted, holdMs } = request
  const connected = new Set(players)
  const next = new Map<string, number>()
  for (const hold of holds ?? []) if (isHeld(hold, now)) next.set(hold.player, hold.until)
  const coming = [...new Set(wanted)].filter((player) => !connected.has(player))
  const needed = coming.filter((player) => !next.has(player)).length
  const seats = seatsOf(total, players, holds, now)
  if (needed > seats.free) return { ok: false, needed, seats, tooLarge: false }
  for (const player of coming) next.set(player, Math.max(next.get(player) ?? 0, now + holdMs))
  const left = [...next].map(([player, until]) => ({ player, until }))
  if (needed > 0 && !fitsRecord(left)) return { ok: false, needed, seats, tooLarge: true }
  return { ok: true, holds: left, reserved: coming }
}

function fitsRecord(holds: readonly SeatHold[]): boolean {
  if (holds.length > sizeLimits.heldSeats) return false
  return holds.reduce((sum, { player }) => sum + utf8Bytes(player), 0) <= sizeLimits.heldSeatsBytes
}

/** The session with seats held for its initial players, who are on their way. */
export function withInitialHolds<S extends NewSession>(session: S, now: number): S {
  const until = now + defaultHoldMs
  return withHolds(
    session,
    [...new Set(session.initialPlayers)].map((player) => ({ player, until })),
  )
}

/** The holds of other players. */
export function withoutPlayers(
  holds: readonly SeatHold[] | undefined,
  players: readonly string[],
): readonly SeatHold[] | undefined {
  if (holds === undefined || holds.length === 0) return holds
  const gone = new Set(players)
  const left = holds.filter(({ player }) => !gone.has(player))
  return left.length === holds.length ? holds : left
}

/** Divides the holds into those that still count at wall time `now` and those that are over. */
export function afterLapse(
  holds: readonly SeatHold[],
  now: number,
): { readonly left: readonly SeatHold[]; readonly lapsed: readonly string[] } {
  return {
    left: holds.filter((hold) => isHeld(hold, now)),
    lapsed: holds.filter((hold) => !isHeld(hold, now)).map(({ player }) => player),
  }
}

/** True if the player has a seat or a seat is held for them. */
export function hasSeat(
  player: string,
  players: readonly string[],
  holds: readonly SeatHold[] | undefined,
  now: number,
): boolean {
  return players.includes(player) || (holds ?? []).some((hold) => hold.player === player && isHeld(hold, now))
}

/** The server with these holds of its session, or the same object if nothing changes. */
export function withSeats(server: Server, holds: readonly SeatHold[]): Server {
  const [session, ...others] = server.sessions
  if (!session || isSameHolds(session.holds, holds)) return server
  const next = draftOf(server)
  next.sessions = [withHolds(session, holds), ...others]
  return next
}

/** The field is absent if there are none. */
function withHolds<S extends NewSession>(session: S, holds: readonly SeatHold[]): S {
  return { ...session, holds: holds.length > 0 ? holds : undefined }
}

export function isSameHolds(a: readonly SeatHold[] = [], b: readonly SeatHold[] = []): boolean {
  if (a === b) return true
  return a.length === b.length && a.every(({ player, until }, i) => player === b[i]?.player && until === b[i]?.until)
}
