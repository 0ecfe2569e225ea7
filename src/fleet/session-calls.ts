/** The facade's calls for sessions: by id, by build and by player. */
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { checkNames } from '../contracts/option-checks.js'
import { type GameSession, gameSession, sessionBody, type Sessions } from '../contracts/sessions.js'
import type { ServerEntry } from '../engine/state/entries.js'
import { mapInSlices } from '../platform/turns.js'
import { sessionKey } from '../rules/model/session-ids.js'
import { shown } from '../rules/validation/problem.js'
import type { Audit } from './audit.js'
import type { LeaderTerm } from './leader-term.js'
import type { ResourceView } from './resource-view.js'

export function sessionCalls(term: LeaderTerm, view: ResourceView, audit: Audit): Sessions {
  return Object.freeze<Sessions>({
    async get(sessionID, options = {}) {
      checkNames('sessions.get', options, ['signal'])
      throwIfAborted(options.signal)
      const entry = term.engine().inventory.serverBySession(checkID('sessionID', sessionID))
      if (!entry || !hasSession(entry, sessionID)) throw noSession(sessionID)
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
      const [best] = playing.toSorted(
        (a, b) => Number(isIn(b, player)) - Number(isIn(a, player)) || started(b) - started(a),
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
      if (!entry || !hasSession(entry, sessionID)) throw noSession(sessionID)
      const subjectOf = () => ({
        build: entry.build.ref,
        server: entry.ref,
        sessionID: entry.record.session?.id ?? sessionID,
      })
      const end = () => engine.endSession(entry, sessionID)
      await audit.call('endSession', options, subjectOf, end)
    },
  })
}

function checkID(name: string, id: unknown): string {
  if (typeof id === 'string') return id
  throw new FleetError('invalid', `${name} must be a string, but is ${shown(id)}`)
}

function noSession(sessionID: string): FleetError {
  return new FleetError('not-found', `no server has the session ${shown(sessionID)}`)
}

/** False while the server is only reserved for the session, which is then not durable. */
function hasSession({ record }: ServerEntry, sessionID: string): boolean {
  return record.session !== undefined && sessionKey(record.session.id) === sessionKey(sessionID)
}

function isIn({ players }: ServerEntry, player: string): boolean {
  return players.includes(player)
}

function started({ record }: ServerEntry): number {
  return record.reachedActiveOn ?? 0
}

function sessionOf({ build, players, record }: ServerEntry): GameSession {
  return gameSession(sessionBody(build.record, record, players, build.gamePorts))
}
