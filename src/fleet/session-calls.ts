/** The facade's calls for sessions: by id, by build and by player. */
import type { Clock } from '../contracts/clock.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { checkNames } from '../contracts/option-checks.js'
import { type GameSession, gameSession, sessionBody, type Sessions } from '../contracts/sessions.js'
import { noSessionError } from '../engine/seats/seat-errors.js'
import type { ServerEntry } from '../engine/state/entries.js'
import { mapInSlices } from '../platform/turns.js'
import { hasSeat } from '../rules/lifecycle/seats.js'
import { sessionKey } from '../rules/model/session-ids.js'
import { type Checked, shown } from '../rules/validation/problem.js'
import { readJoinRequest, readRoomQuery, readSeatRelease, readSeatRequest } from '../rules/validation/seats.js'
import type { Audit, AuditedSubject } from './audit.js'
import type { LeaderTerm } from './leader-term.js'
import type { ResourceView } from './resource-view.js'

export interface SessionCallsDependencies {
  readonly term: LeaderTerm
  readonly view: ResourceView
  readonly audit: Audit
  readonly clock: Pick<Clock, 'now'>
}

export function sessionCalls(deps: SessionCallsDependencies): Sessions {
  const { term, view, audit, clock } = deps
  const sessionOf = (entry: ServerEntry) => sessionAt(entry, clock.now())
  return Object.freeze<Sessions>({
    ...seatCalls(deps, sessionOf),
    async get(sessionID, options = {}) {
      checkNames('sessions.get', options, ['signal'])
      throwIfAborted(options.signal)
      const entry = term.engine().inventory.serverBySession(checkID('sessionID', sessionID))
      if (!entry || !hasSession(entry, sessionID)) throw noSessionError(sessionID)
      return sessionOf(entry)
    },
    async list(options = {}) {
      checkNames('sessions.list', options, ['build', 'signal'])
      const { build, signal } = options
      throwIfAborted(signal)
      const { everyBuild } = term.engine().inventory
      const builds = build === undefined ? [...everyBuild] : [view.findBuild(build)]
      const entries = builds.flatMap(({ buckets: { active, terminating } }) => [...active, ...terminating])
      return mapInSlices(
        entries.filter(({ record }) => record.session),
        sessionOf,
      )
    },
    async ofPlayer(player, options = {}) {
      checkNames('sessions.ofPlayer', options, ['signal'])
      throwIfAborted(options.signal)
      const { everyBuild, players } = term.engine().inventory
      const found = players.find(everyBuild, checkID('player', player))
      const playing = found.filter(({ record }) => record.session && record.state === 'Active')
      const now = clock.now()
      const [best] = playing.toSorted(
        (a, b) => closeness(b, player, now) - closeness(a, player, now) || started(b) - started(a),
      )
      if (!best) throw new FleetError('not-found', `no session has the player ${shown(player)}`)
      return sessionOf(best)
    },
    async end(sessionID, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.end', options, ['signal', 'caller'])
      const engine = term.engine()
      const entry = await engine.serverWithSession(checkID('sessionID', sessionID))
      // In one tick with the decision, so that it never concerns another session.
      if (!entry || !hasSession(entry, sessionID)) throw noSessionError(sessionID)
      const end = () => engine.endSession(entry, sessionID)
      await audit.call('endSession', options, () => subjectOf(entry), end)
    },
  })
}

type SeatCalls = Pick<Sessions, 'reserveSeats' | 'releaseSeats' | 'withRoom' | 'join'>

function seatCalls(
  { term, audit }: SessionCallsDependencies,
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
        .seats.withRoom(accepted(readRoomQuery(query)))
        .map(sessionOf)
    },
    async join(request, options = {}) {
      throwIfAborted(options.signal)
      checkNames('sessions.join', options, ['signal', 'caller'])
      const checked = accepted(readJoinRequest(request))
      const join = () => term.engine().seats.join(checked)
      return sessionOf(await audit.call('joinSession', options, (entry) => (entry ? subjectOf(entry) : {}), join))
    },
  }
}

function accepted<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value
  throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
}

function subjectOf({ build, record, ref: server }: ServerEntry): AuditedSubject {
  const { id: sessionID } = record.session ?? {}
  return { build: build.ref, server, ...(sessionID !== undefined && { sessionID }) }
}

function checkID(name: string, id: unknown): string {
  if (typeof id === 'string') return id
  throw new FleetError('invalid', `${name} must be a string, but is ${shown(id)}`)
}

/** False while the server is only reserved for the session, which is then not durable. */
function hasSession({ record }: ServerEntry, sessionID: string): boolean {
  return record.session !== undefined && sessionKey(record.session.id) === sessionKey(sessionID)
}

/** How sure it is that the player is in this session: 2 if connected, 1 with a seat held, 0 if only expected. */
function closeness({ players, record }: ServerEntry, player: string, now: number): number {
  if (players.includes(player)) return 2
  return hasSeat(player, players, record.session?.holds, now) ? 1 : 0
}

function started({ record }: ServerEntry): number {
  return record.reachedActiveOn ?? 0
}

function sessionAt({ build, players, record }: ServerEntry, now: number): GameSession {
  return gameSession(sessionBody(build.record, record, players, build.gamePorts, now))
}
