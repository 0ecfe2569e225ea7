/** Handles heartbeats in constant time and without I/O. Updates records only if the state, health or players have changed. */
import {
  type EndedSession,
  type GameState,
  type Heartbeat,
  type HeartbeatAnswer,
  maintenanceNotice,
  type NumberedSessionConfig,
  type SessionConfig,
  type SeveralSessions,
} from '../../rules/game/heartbeat.js'
import {
  afterEmptyHeartbeat,
  endedNumber,
  endsOne,
  isOutdated,
  lastNumber,
} from '../../rules/lifecycle/server-sessions.js'
import { afterReport, healthOf, noReports, reachesUnhealthyLimit } from '../../rules/lifecycle/health.js'
import { isIdle, type ServerEvent, transition } from '../../rules/lifecycle/lifecycle.js'
import { keyOf, type Server, type Session } from '../../rules/model/resources.js'
import { keptPlayers } from '../../rules/model/sizes.js'
import type { EngineContext } from '../context.js'
import type { CachedAnswers, ServerEntry, SeveralSources } from '../state/entries.js'
import { expectsHeartbeat, hasEnded, isCurrent } from '../state/queries.js'

interface HeartbeatsDependencies {
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
      // After that, because the game may have become ready, and with places for several sessions.
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
    const isProbed = entry.build.record.spec.sdk === 'none'
    entry.healthReports = afterReport(entry.healthReports, heartbeat.health, isProbed)
    inventory.update(entry, transition(entry.record, this.#eventOf(entry, heartbeat), clock.now()))
    if (!isSameList(entry.players, heartbeat.players)) this.#updatePlayers(entry, keptPlayers(heartbeat.players))
    if (heartbeat.endedSession) this.#sessions.ended(entry, [heartbeat.endedSession])
    const { sessions, state } = entry.record
    if (sessions.length > 0 && state === 'Active' && !entry.ends && !heartbeat.arePlayersOld)
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
      const why = entry.build.record.spec.sdk === 'none' ? entry.pendingReason : undefined
      return { type: 'reportedUnhealthy', reports: healthReports.unhealthyInARow, ...(why !== undefined && { why }) }
    }
    return { type: 'heartbeat', gameState: heartbeat.state, health }
  }

  /** A heartbeat proves that the process runs, even if the backend has not reported it yet. */
  #markRunning(entry: ServerEntry): void {
    const { instance, record } = entry
    if (record.state !== 'Pending' || instance?.address === undefined) return
    const { address, node, ports } = instance
    const event = { type: 'running' as const, address, ...(node !== undefined && { node }), ports }
    // Why it was not running.
    entry.pendingReason = undefined
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

/** Ends sessions to which no player has come within the build's `claimSeconds`. */
export class Claims {
  readonly #ctx: EngineContext

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Call with each heartbeat of a server that has a session. */
  heard(entry: ServerEntry, hasPlayers: boolean): void {
    if (hasPlayers) entry.hadPlayers = true
    const { claimSeconds } = entry.build.record.spec
    if (claimSeconds === undefined || entry.hadPlayers) {
      entry.claim = undefined
      return
    }
    const { clock, inventory, responsiveClock } = this.#ctx
    // Players may have come while this heartbeat waited for the host.
    if (responsiveClock.isLate) {
      entry.claim = undefined
      return
    }
    const claim = afterEmptyHeartbeat(entry.claim, responsiveClock.atLastTick, claimSeconds)
    entry.claim = claim === 'unclaimed' ? undefined : claim
    if (claim !== 'unclaimed') return
    const message = `no player came within ${claimSeconds} s`
    inventory.update(entry, transition(entry.record, { type: 'end', reason: 'Unclaimed', message }, clock.now()))
  }
}

interface ReportedSessionsDependencies {
  /** Called when the game has said for the first time that it has a session. */
  readonly confirmed: (entry: ServerEntry) => void
  /** Called when the game has ended sessions. That is not durable yet. */
  readonly ended: (entry: ServerEntry, sessions: readonly Session[]) => void
}

/** Takes what games with several sessions say of them. */
class ReportedSessions {
  readonly #ctx: Pick<EngineContext, 'enqueue' | 'inventory'>
  readonly #deps: ReportedSessionsDependencies

  constructor(ctx: Pick<EngineContext, 'enqueue' | 'inventory'>, deps: ReportedSessionsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Call with each heartbeat before its state counts, because the server may be given to several callers once it is ready. */
  arrived(entry: ServerEntry, several: SeveralSessions | undefined): void {
    if (entry.isShared === (several !== undefined)) return
    entry.isShared = several !== undefined
    this.#ctx.inventory.placesChanged(entry)
  }

  /** Call with each heartbeat. `several` is undefined for a game that takes one session. */
  heard(entry: ServerEntry, several: SeveralSessions | undefined): void {
    const { build, record } = entry
    if (record.state === 'StandingBy' && isCurrent(entry) && build.candidates?.learned(several !== undefined))
      this.#ctx.enqueue(build)
    if (!several) return
    for (const session of record.sessions) {
      if (several.running.some((one) => endsOne(session, one))) this.confirm(entry, session)
    }
    // If the record has lost the game's sessions, its server stays Active until the last of them has ended.
    if (record.sessions.length > 0 || several.running.length === 0) this.ended(entry, several.ended)
  }

  /** The game says that it has the session. An answer that contains it may be lost, and Unreal reads it an interval late. */
  confirm(entry: ServerEntry, session: Session | undefined): void {
    const { confirmed, record } = entry
    if (!session || confirmed.includes(session.number)) return
    // Drops the numbers of ended sessions: the list would grow without end on a server that is never idle.
    const known = confirmed.filter((number) => record.sessions.some((one) => one.number === number))
    entry.confirmed = [...known, session.number]
    this.#deps.confirmed(entry)
  }

  /**
   * The game says that it has ended these sessions, and repeats it in every heartbeat. That counts once it is durable: until then, no other session
   * gets their places, nor do they get another server.
   */
  ended(entry: ServerEntry, reports: readonly EndedSession[]): void {
    const fresh = reports.filter((report) => isNews(entry, report))
    if (fresh.length === 0) return
    const sessions = entry.record.sessions.filter((session) => fresh.some((report) => endsOne(session, report)))
    // The game had them, even if this host has not heard that.
    for (const session of sessions) this.confirm(entry, session)
    entry.ends = [...(entry.ends ?? []), ...fresh]
    this.#deps.ended(entry, sessions)
  }
}

function isNews(entry: ServerEntry, report: EndedSession): boolean {
  const { ends, record } = entry
  if (record.state !== 'Active') return false
  if (record.sessions.length === 0) return report.number > lastNumber(record) && !ends
  return record.sessions.some((session) => endsOne(session, report) && !hasEnded(entry, session))
}

/** True if heartbeats of the game say that it runs sessions that the record, which has none, knows nothing of. */
function hasUnknownSession(record: Server, { running }: SeveralSessions): boolean {
  return isIdle(record) && running.some(({ number }) => number > lastNumber(record))
}

/** The sessions of which the game is told: those of which it has not said that they have ended. */
function toldSessions(entry: ServerEntry): readonly Session[] {
  return entry.record.sessions.filter((session) => !hasEnded(entry, session))
}

function numberedConfigs(sessions: readonly Session[]): readonly NumberedSessionConfig[] {
  return sessions.map((session) =>
    Object.freeze({
      ...sessionConfigOf(session),
      number: session.number,
      ...(session.ending && { ending: true as const }),
    }),
  )
}

/** True if the list of sessions has to be made again. */
function isOutdatedList(entry: ServerEntry, sources: SeveralSources | undefined): boolean {
  if (!entry.isShared) return sources !== undefined
  const { ends, record } = entry
  return sources?.record !== record || sources.ends !== ends
}

/** A session, as its game gets it. */
function sessionConfigOf({ id, cookie, initialPlayers }: Session): SessionConfig {
  return Object.freeze({
    sessionId: id,
    ...(cookie !== undefined && { sessionCookie: cookie }),
    initialPlayers,
  })
}
