/** The facade's calls for sessions: by id, by build and by player. */
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { checkNames, checkWait } from '../contracts/option-checks.js'
import type { EventOf } from '../contracts/events.js'
import { endedSession, type GameSession, gameSession, sessionBody, type Sessions } from '../contracts/sessions.js'
import { noSessionError } from '../engine/seats/seat-errors.js'
import type { ServerEntry } from '../engine/state/entries.js'
import { mapInSlices } from '../platform/turns.js'
import { hasSeat, sessionByKey, sessionUid } from '../rules/lifecycle/server-sessions.js'
import { keyOf, type Session } from '../rules/model/resources.js'
import { sessionKey } from '../rules/model/names.js'
import { type Checked, shown } from '../rules/validation/problem.js'
import { readJoinRequest, readRoomQuery, readSeatRelease, readSeatRequest } from '../rules/validation/session-schema.js'
import { type Audit, type AuditedSubject, refusedRequest } from './audit.js'
import type { LeaderTerm } from './leader-term.js'
import type { ResourceView } from './resource-view.js'

interface SessionCallsDependencies {
  readonly term: LeaderTerm
  readonly view: ResourceView
  readonly audit: Audit
  readonly clock: Pick<Clock, 'now'>
  readonly logger: Logger
  readonly maxWaitMs: number
}

export function sessionCalls(deps: SessionCallsDependencies): Sessions {
  const { term, view, audit, clock, logger } = deps
  const sessionOf = (entry: ServerEntry, sessionID?: string) => sessionAt(entry, clock.now(), sessionID)
  /** Whether its end has been reported, although that may not be stored yet. */
  const isOver = ({ record }: ServerEntry, session: Session) =>
    term.endedSessions.find(session.id)?.sessionUid === sessionUid(record, session)
  /** Has the server of the session, or how it has ended. A server that is being removed has no sessions any longer. */
  const find = (sessionID: string): Found => {
    const live = term.engine().inventory.serverBySession(checkID('sessionID', sessionID))
    const session = live && sessionByKey(live.record, sessionKey(sessionID))
    if (live && !(session && isOver(live, session)) && hasSession(live, sessionID)) return { live }
    const ended = term.endedSessions.find(sessionID)
    if (ended) return { ended }
    throw noSessionError(sessionID)
  }
  return Object.freeze<Sessions>({
    ...seatCalls(deps, sessionOf),
    async get(sessionID, options = {}) {
      checkNames('sessions.get', options, ['signal'])
      throwIfAborted(options.signal)
      const { live, ended } = find(sessionID)
      return live ? sessionOf(live, sessionID) : endedSession(ended)
    },
    async ended(sessionID, options = {}) {
      checkNames('sessions.ended', options, ['waitMs', 'signal'])
      throwIfAborted(options.signal)
      const { waitMs } = options
      if (waitMs !== undefined) checkWait(waitMs, Infinity)
      const { ended } = find(sessionID)
      return endedSession(ended ?? (await term.endedSessions.next(sessionID, options)))
    },
    async list(options = {}) {
      checkNames('sessions.list', options, ['build', 'signal'])
      const { build, signal } = options
      throwIfAborted(signal)
      const { everyBuild } = term.engine().inventory
      const builds = build === undefined ? [...everyBuild] : [view.findBuild(build)]
      const entries = builds.flatMap(({ buckets: { active, terminating } }) => [...active, ...terminating])
      const sessions = entries.flatMap((entry) =>
        entry.record.sessions.flatMap((session) => (isOver(entry, session) ? [] : [[entry, session.id] as const])),
      )
      return mapInSlices(sessions, ([entry, sessionID]) => sessionOf(entry, sessionID))
    },
    async ofPlayer(player, options = {}) {
      checkNames('sessions.ofPlayer', options, ['signal'])
      throwIfAborted(options.signal)
      const { everyBuild, players } = term.engine().inventory
      const found = players.find(everyBuild, checkID('player', player))
      const playing = found.filter(({ record }) => record.sessions.length > 0 && record.state === 'Active')
      const now = clock.now()
      const [best, other] = playing
        .flatMap((entry) => sessionsWith(player, entry).map((session) => ({ entry, session })))
        .map((playing) => ({ ...playing, closeness: closeness(playing, player, now) }))
        // Stable: of games that merely claim the player, the first to do so stays first.
        .toSorted((a, b) => b.closeness - a.closeness || (a.closeness === claimed ? 0 : started(b) - started(a)))
      if (!best) throw new FleetError('not-found', `no session has the player ${shown(player)}`)
      if (other && other.entry !== best.entry && other.closeness >= claimed) {
        const servers = { server: keyOf(best.entry.ref), claimedBy: keyOf(other.entry.ref) }
        logger.warn({ player, ...servers }, 'another game claims a player who is in a match')
      }
      return sessionOf(best.entry, best.session.id)
    },
    async end(sessionID, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.end', options, ['signal', 'caller'])
      const engine = term.engine()
      const entry = await engine.serverWithSession(checkID('sessionID', sessionID))
      // In one tick with the decision, so that it never concerns another session.
      if (!entry || !hasSession(entry, sessionID)) throw noSessionError(sessionID)
      const end = () => engine.endSession(entry, sessionID, 'sessions.end')
      await audit.call('endSession', options, () => subjectOf(entry, sessionID), end)
    },
  })
}

type Found =
  | { readonly live: ServerEntry; readonly ended?: never }
  | { readonly live?: never; readonly ended: EventOf<'SessionEnded'> }

type SeatCalls = Pick<Sessions, 'reserveSeats' | 'releaseSeats' | 'withRoom' | 'join'>

function seatCalls(
  { term, audit, maxWaitMs }: SessionCallsDependencies,
  sessionOf: (entry: ServerEntry) => GameSession,
): SeatCalls {
  const find = async (sessionID: string) => {
    const entry = await term.engine().serverWithSession(checkID('sessionID', sessionID))
    if (!entry) throw noSessionError(sessionID)
    return entry
  }
  return {
    async reserveSeats(sessionID, players, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.reserveSeats', options, ['holdMs', 'signal', 'caller'])
      const { holdMs } = options
      const request = accepted(readSeatRequest({ players, ...(holdMs !== undefined && { holdMs }) }))
      const entry = await find(sessionID)
      const reserve = () => term.engine().seats.reserve(entry, sessionID, request)
      await audit.call('reserveSeats', options, () => subjectOf(entry), reserve)
      return sessionOf(entry)
    },
    async releaseSeats(sessionID, players, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.releaseSeats', options, ['signal', 'caller'])
      const released = accepted(readSeatRelease({ players }))
      const entry = await find(sessionID)
      const release = () => term.engine().seats.release(entry, sessionID, released)
      await audit.call('releaseSeats', options, () => subjectOf(entry), release)
      return sessionOf(entry)
    },
    async withRoom(query, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.withRoom', options, ['signal'])
      return term
        .engine()
        .seats.withFreeSeats(accepted(readRoomQuery(query)))
        .map(sessionOf)
    },
    async join(request, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.join', options, ['waitMs', 'signal', 'caller'])
      const { waitMs = 0, signal } = options
      checkWait(waitMs, maxWaitMs)
      const checked = accepted(readJoinRequest(request))
      const join = () => term.engine().joins.join(checked, { waitMs, signal })
      return sessionOf(await audit.call('joinSession', options, (entry) => (entry ? subjectOf(entry) : {}), join))
    },
  }
}

function accepted<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value
  throw refusedRequest(checked.problem)
}

function subjectOf({ build, record, ref: server }: ServerEntry, id = record.sessions[0]?.id): AuditedSubject {
  const sessionID = id === undefined ? undefined : (sessionByKey(record, sessionKey(id))?.id ?? id)
  return { build: build.ref, server, ...(sessionID !== undefined && { sessionID }) }
}

function checkID(name: string, id: unknown): string {
  if (typeof id === 'string') return id
  throw new FleetError('invalid', `${name} must be a string, but is ${shown(id)}`)
}

/** False while the server is only reserved for the session, which is then not durable. */
function hasSession(entry: ServerEntry, sessionID: string): boolean {
  return sessionByKey(entry.record, sessionKey(sessionID)) !== undefined
}

/** The sessions of a server that the player is in. Of several, the game does not say in which: those whose request named the player. */
function sessionsWith(player: string, entry: ServerEntry): readonly Session[] {
  const { sessions } = entry.record
  return sessions.length > 1 ? sessions.filter(({ initialPlayers }) => initialPlayers.includes(player)) : sessions
}

interface Playing {
  readonly entry: ServerEntry
  readonly session: Session
}

/** The closeness of a player whom only the game says to be in the session. */
const claimed = 2

/**
 * How sure it is that the player is in this session: 3 if connected, and the request for the session named the player; 2 if only the game
 * says that the player is connected; 1 with a seat held, 0 if only expected.
 */
function closeness({ entry, session }: Playing, player: string, now: number): number {
  const { players, record } = entry
  if (players.includes(player)) return session.initialPlayers.includes(player) ? claimed + 1 : claimed
  return hasSeat(player, players, record.sessions[0]?.holds, now) ? 1 : 0
}

function started({ session }: Playing): number {
  return session.startedAt
}

function sessionAt({ build, players, record }: ServerEntry, now: number, sessionID?: string): GameSession {
  const session = sessionID === undefined ? undefined : sessionByKey(record, sessionKey(sessionID))
  return gameSession(sessionBody(build.record, record, players, build.gamePorts, now, session))
}
