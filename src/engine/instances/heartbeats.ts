/** Handles heartbeats in constant time and without I/O. Updates records only if the state, health or players have changed. */
import type { Heartbeat, HeartbeatAnswer, SessionConfig } from '../../rules/game/heartbeat.js'
import { afterReport, healthOf, reachesUnhealthyLimit, noReports } from '../../rules/lifecycle/health.js'
import { isIdle, transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { isCurrent } from '../state/queries.js'

export class Heartbeats {
  readonly #ctx: EngineContext
  readonly #playersChanged: (entry: ServerEntry) => void
  readonly #continue: HeartbeatAnswer
  readonly #terminate: HeartbeatAnswer

  constructor(ctx: EngineContext, playersChanged: (entry: ServerEntry) => void) {
    const nextHeartbeatIntervalMs = ctx.limits.heartbeatIntervalMs
    this.#ctx = ctx
    this.#playersChanged = playersChanged
    this.#continue = Object.freeze({ operation: 'Continue', nextHeartbeatIntervalMs })
    this.#terminate = Object.freeze({ operation: 'Terminate', nextHeartbeatIntervalMs })
  }

  /** Handles a heartbeat and returns the answer. `unknown` decides the answer for an id that belongs to no server. */
  receive(hostId: string, heartbeat: Heartbeat, unknown: () => 'Continue' | 'Terminate'): HeartbeatAnswer {
    const entry = this.#ctx.inventory.serverByHostId(hostId)
    if (!entry) return unknown() === 'Continue' ? this.#continue : this.#terminate
    if (entry.record.state !== 'Terminating') {
      this.#recordArrival(entry)
      this.#apply(entry, heartbeat)
    }
    return this.#answer(entry, heartbeat)
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

  #recordArrival(entry: ServerEntry): void {
    entry.silentSince = this.#ctx.responsiveClock.now()
    const { heartbeating, awaitingFirstHeartbeat, awaitingHeartbeat } = entry.build
    // Keeps the list ordered by last heartbeat, least recent first.
    if (heartbeating.has(entry)) return heartbeating.moveToEnd(entry)
    awaitingFirstHeartbeat.delete(entry)
    awaitingHeartbeat.delete(entry)
    heartbeating.add(entry)
  }

  #apply(entry: ServerEntry, heartbeat: Heartbeat): void {
    const { clock, inventory, limits } = this.#ctx
    this.#markRunning(entry)
    entry.healthReports = afterReport(entry.healthReports, heartbeat.health)
    const now = clock.now()
    const { record, healthReports } = entry
    const next =
      isIdle(record) && reachesUnhealthyLimit(healthReports, limits.unhealthyReports)
        ? transition(record, { type: 'reportedUnhealthy', reports: healthReports.unhealthyInARow }, now)
        : transition(record, { type: 'heartbeat', gameState: heartbeat.state, health: healthOf(healthReports) }, now)
    inventory.update(entry, next)
    if (!isSameList(entry.players, heartbeat.players)) {
      entry.players = heartbeat.players
      this.#playersChanged(entry)
    }
  }

  /** A heartbeat proves that the process runs, even if the backend has not reported it yet. */
  #markRunning(entry: ServerEntry): void {
    const { instance, record } = entry
    if (record.state !== 'Pending' || instance?.address === undefined) return
    const { address, node, ports } = instance
    const event = { type: 'running' as const, address, ...(node !== undefined && { node }), ports }
    this.#ctx.inventory.update(entry, transition(record, event, this.#ctx.clock.now()))
  }

  #answer(entry: ServerEntry, heartbeat: Heartbeat): HeartbeatAnswer {
    const { session, state } = entry.record
    if (state === 'Terminating' && isTerminationCertain(entry)) return this.#terminate
    if (!session) return this.#continue
    entry.sessionAnswers ??= createSessionAnswers(entry, this.#ctx.limits.heartbeatIntervalMs)
    return heartbeat.state === 'StandingBy' ? entry.sessionAnswers.active : entry.sessionAnswers.continue
  }
}

/**
 * True if the termination is durable, was reported by the game, or follows a session. Before an idle server's termination is
 * durable, a new leader could still allocate the server, so the game must not get Terminate yet.
 */
function isTerminationCertain({ record, stored, recordDeleted, build }: ServerEntry): boolean {
  if (record.session !== undefined || record.ending?.reason === 'Exited') return true
  return recordDeleted || build.deleted || stored?.state === 'Terminating'
}

function createSessionAnswers(
  entry: ServerEntry,
  nextHeartbeatIntervalMs: number,
): NonNullable<ServerEntry['sessionAnswers']> {
  const session = entry.record.session
  const sessionConfig = Object.freeze({
    sessionId: session?.id ?? '',
    ...(session?.cookie !== undefined && { sessionCookie: session.cookie }),
    initialPlayers: session?.initialPlayers ?? [],
    metadata: metadataOf(entry),
  })
  return {
    active: Object.freeze({ operation: 'Active', nextHeartbeatIntervalMs, sessionConfig }),
    continue: Object.freeze({ operation: 'Continue', nextHeartbeatIntervalMs, sessionConfig }),
  }
}

/**
 * Returns the build metadata that the server was started with. If the build changed before this host became the leader,
 * returns the current metadata instead.
 */
function metadataOf(entry: ServerEntry): SessionConfig['metadata'] {
  const { buildMetadata = {} } = entry.build.record.spec
  return isCurrent(entry) ? buildMetadata : (entry.startMetadata ?? buildMetadata)
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
