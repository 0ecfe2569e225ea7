/** Handles heartbeats in constant time and without I/O. Updates records only if the state, health or players have changed. */
import { maintenanceNotice } from '../../rules/game/maintenance-notice.js'
import type { GameState, Heartbeat, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
import { afterReport, healthOf, reachesUnhealthyLimit, noReports } from '../../rules/lifecycle/health.js'
import { isIdle, type ServerEvent, transition } from '../../rules/lifecycle/lifecycle.js'
import { endedNumber, isOutdated } from '../../rules/lifecycle/sessions.js'
import { keyOf, type Server, type Session } from '../../rules/model/resources.js'
import { keptPlayers } from '../../rules/model/sizes.js'
import type { EngineContext } from '../context.js'
import type { CachedAnswers, ServerEntry } from '../state/entries.js'
import { expectsHeartbeat, hasEnded } from '../state/queries.js'
import { Claims } from './claims.js'
import {
  hasUnknownSession,
  isOutdatedList,
  numberedConfigs,
  ReportedSessions,
  sessionConfigOf,
  toldSessions,
} from './reported-sessions.js'

export interface HeartbeatsDependencies {
  readonly playersChanged: (entry: ServerEntry) => void
  /** Called after that. */
  readonly playersSeated: (entry: ServerEntry) => void
  /** Called for each heartbeat of a server. */
  readonly arrived: (entry: ServerEntry) => void
  /** Called with the first heartbeat in which the game reports its session as Active. */
  readonly sessionConfirmed: (entry: ServerEntry) => void
  /** Called when the game has ended its session and goes on. That is not durable yet. */
  readonly sessionsEnded: (entry: ServerEntry, sessions: readonly Session[]) => void
}

export class Heartbeats {
  readonly #ctx: EngineContext
  readonly #deps: HeartbeatsDependencies
  readonly #claims: Claims
  readonly #sessions: ReportedSessions
  readonly #continue: HeartbeatAnswer
  readonly #terminate: HeartbeatAnswer

  constructor(ctx: EngineContext, deps: HeartbeatsDependencies) {
    const nextHeartbeatIntervalMs = ctx.limits.heartbeatIntervalMs
    this.#ctx = ctx
    this.#deps = deps
    this.#claims = new Claims(ctx)
    this.#sessions = new ReportedSessions(ctx, { confirmed: deps.sessionConfirmed, ended: deps.sessionsEnded })
    this.#continue = Object.freeze({ operation: 'Continue', nextHeartbeatIntervalMs })
    this.#terminate = Object.freeze({ operation: 'Terminate', nextHeartbeatIntervalMs })
  }

  /** Handles a heartbeat and returns the answer. `unknown` decides the answer for an id that belongs to no server. */
  receive(hostId: string, heartbeat: Heartbeat, unknown: () => 'Continue' | 'Terminate'): HeartbeatAnswer {
    const entry = this.#ctx.inventory.serverByHostId(hostId)
    if (!entry) return unknown() === 'Continue' ? this.#continue : this.#terminate
    this.#deps.arrived(entry)
    if (entry.record.state !== 'Terminating') {
      const isNewlyHeard = this.#recordArrival(entry)
      const isCurrent = heartbeat.several !== undefined || !isOutdated(entry.record, heartbeat.endedSession)
      this.#sessions.arrived(entry, heartbeat.several)
      if (isCurrent) this.#apply(entry, heartbeat)
      // After that, because the game may have become ready, and with room for several sessions.
      this.#sessions.heard(entry, heartbeat.several)
      // Only now, because the heartbeat may have ended the server or changed its health.
      if (isNewlyHeard) this.#ctx.inventory.heardChanged(entry)
      if (entry.bucket === 'ready') entry.build.dueReady.addLast(entry)
      if (heartbeat.state === 'Active' && isCurrent && !heartbeat.several)
        this.#sessions.confirm(entry, entry.record.sessions[0])
    } else if (expectsHeartbeat(entry) || mayRun(entry)) {
      this.#recordArrival(entry)
    }
    return this.answer(entry, heartbeat.state)
  }

  /** Call when the server's process is running. Starts its heartbeat timeout. */
  expect(entry: ServerEntry): void {
    const { heartbeating, awaitingFirstHeartbeat, awaitingHeartbeat } = entry.build
    const now = this.#ctx.responsiveClock.now()
    entry.runningSince ??= now
    // The timeout may already be running, because a heartbeat can arrive before the backend's event and events can be
    // repeated.
    if (heartbeating.has(entry) || awaitingFirstHeartbeat.has(entry) || awaitingHeartbeat.has(entry)) return
    entry.silentSince = now
    entry.healthReports = noReports
    const hasSentHeartbeats = entry.record.reachedStandingByOn !== undefined
    if (hasSentHeartbeats) awaitingHeartbeat.add(entry)
    else awaitingFirstHeartbeat.add(entry)
  }

  /** Returns true if the server was not heard before. */
  #recordArrival(entry: ServerEntry): boolean {
    entry.silentSince = this.#ctx.responsiveClock.now()
    const { heartbeating, awaitingFirstHeartbeat, awaitingHeartbeat } = entry.build
    // Keeps the list ordered by last heartbeat, least recent first.
    if (heartbeating.has(entry)) {
      heartbeating.moveToEnd(entry)
      return false
    }
    awaitingFirstHeartbeat.delete(entry)
    awaitingHeartbeat.delete(entry)
    heartbeating.add(entry)
    return true
  }

  #apply(entry: ServerEntry, heartbeat: Heartbeat): void {
    const { clock, inventory } = this.#ctx
    this.#markRunning(entry)
    entry.healthReports = afterReport(entry.healthReports, heartbeat.health)
    inventory.update(entry, transition(entry.record, this.#eventOf(entry, heartbeat), clock.now()))
    if (!isSameList(entry.players, heartbeat.players)) this.#updatePlayers(entry, keptPlayers(heartbeat.players))
    if (heartbeat.endedSession) this.#sessions.ended(entry, [heartbeat.endedSession])
    const { sessions, state } = entry.record
    if (sessions.length > 0 && state === 'Active' && !entry.ends)
      this.#claims.heard(entry, heartbeat.players.length > 0)
  }

  #updatePlayers(entry: ServerEntry, players: readonly string[]): void {
    // Of a list that is too long, the same players may be kept as before.
    if (isSameList(entry.players, players)) return
    this.#ctx.inventory.setPlayers(entry, players)
    this.#deps.playersChanged(entry)
    this.#deps.playersSeated(entry)
  }

  #eventOf(entry: ServerEntry, heartbeat: Heartbeat): ServerEvent {
    const { limits, logger } = this.#ctx
    const { healthReports, inherited, record } = entry
    const health = healthOf(healthReports)
    entry.inherited = false
    const { several } = heartbeat
    // Of several sessions, the game may also report those that have ended since.
    const hasSession = several ? hasUnknownSession(record, several) : heartbeat.state === 'Active'
    if (inherited && hasSession && isIdle(record)) {
      logger.warn(
        { server: keyOf(record) },
        'a match runs on a server whose record has no session; it goes on as Active',
      )
      const endedSessions = heartbeat.endedSession?.number
      return { type: 'foundActive', health, ...(endedSessions !== undefined && { endedSessions }) }
    }
    if (isIdle(record) && reachesUnhealthyLimit(healthReports, limits.unhealthyReports)) {
      return { type: 'reportedUnhealthy', reports: healthReports.unhealthyInARow }
    }
    return { type: 'heartbeat', gameState: heartbeat.state, health }
  }

  /** A heartbeat proves that the process runs, even if the backend has not reported it yet. */
  #markRunning(entry: ServerEntry): void {
    const { instance, record } = entry
    if (record.state !== 'Pending' || instance?.address === undefined) return
    const { address, node, ports } = instance
    const event = { type: 'running' as const, address, ...(node !== undefined && { node }), ports }
    this.#ctx.inventory.update(entry, transition(record, event, this.#ctx.clock.now()))
  }

  /** The game's grace period starts now. */
  #terminateSent(entry: ServerEntry): void {
    entry.terminateSentAt = this.#ctx.clock.elapsed()
    this.#ctx.requeue(entry)
  }

  /** Returns the answer to a heartbeat that reports `gameState`. Call it only to send the answer. */
  answer(entry: ServerEntry, gameState: GameState): HeartbeatAnswer {
    const { maintenance, state } = entry.record
    if (state === 'Terminating' && isTerminationCertain(entry)) {
      if (entry.terminateSentAt === undefined) this.#terminateSent(entry)
      return this.#terminate
    }
    if (entry.isShared) return this.#severalAnswer(entry, gameState)
    // A game that has ended its session has none, so its answer may be held until there is another.
    const { sessions } = entry.record
    const session = entry.ends ? sessions.find((one) => !hasEnded(entry, one)) : sessions[0]
    if (!session && !maintenance) return this.#continue
    const { answers } = entry
    if (answers?.session !== session || answers?.maintenance !== maintenance || answers?.several)
      entry.answers = undefined
    entry.answers ??= createAnswers(entry.record, session, this.#ctx.limits.heartbeatIntervalMs)
    return session && gameState === 'StandingBy' ? entry.answers.active : entry.answers.continue
  }

  #severalAnswer(entry: ServerEntry, gameState: GameState): HeartbeatAnswer {
    if (isOutdatedList(entry, entry.answers?.several)) entry.answers = undefined
    const { ends, record } = entry
    if (!entry.answers) {
      const told = toldSessions(entry)
      const sessions = numberedConfigs(told)
      const { active, ...answers } = createAnswers(record, told[0], this.#ctx.limits.heartbeatIntervalMs)
      entry.answers = {
        ...answers,
        active: Object.freeze({ ...active, sessions }),
        continue: Object.freeze({ ...answers.continue, sessions }),
        several: { record, ends },
      }
    }
    const { answers } = entry
    return answers.session && gameState === 'StandingBy' ? answers.active : answers.continue
  }
}

/** False once the server's process has ended: heartbeats that are still in flight then prove nothing. */
function mayRun({ instance, createRequested, observationSeq }: ServerEntry): boolean {
  // The backend has not reported it yet: the answer to its create call is outstanding or was lost.
  if (!instance) return createRequested && observationSeq === 0
  return instance.phase !== 'exited'
}

/**
 * True if the termination is durable, was reported by the game, or follows a session. Before an idle server's termination is
 * durable, a new leader could still allocate the server, so the game must not get Terminate yet.
 */
function isTerminationCertain({ record, stored, recordDeleted, build, ends }: ServerEntry): boolean {
  if (record.ending?.reason === 'Exited') return true
  // In the store, its sessions may have ended.
  if (record.sessions.length > 0 && stored && stored.sessions.length > 0 && !ends) return true
  return recordDeleted || build.deleted || stored?.state === 'Terminating'
}

function createAnswers(record: Server, session: Session | undefined, nextHeartbeatIntervalMs: number): CachedAnswers {
  const { maintenance, name, node } = record
  const endedSessions = endedNumber(record)
  const parts = {
    nextHeartbeatIntervalMs,
    ...(session && { sessionConfig: sessionConfigOf(session) }),
    ...(session && endedSessions > 0 && { endedSessions }),
    ...(maintenance && {
      maintenance: maintenanceNotice(maintenance.at, maintenance.source === 'server' ? name : (node ?? name)),
    }),
  }
  return {
    session,
    maintenance,
    several: undefined,
    active: Object.freeze({ operation: 'Active', ...parts }),
    continue: Object.freeze({ operation: 'Continue', ...parts }),
  }
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
