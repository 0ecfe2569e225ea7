/**
 * Answers heartbeats: constant work, no I/O, and no write unless state, health or players changed.
 */
import { afterReport, healthOf, isUnfit, noReports } from '../../rules/lifecycle/health.js'
import type { Heartbeat, HeartbeatAnswer, SessionConfig } from '../../rules/game/heartbeat.js'
import { isIdle, transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import { isCurrent, type ServerEntry } from '../state/entries.js'

export interface Heartbeats {
  /** `unknown` answers for ids that no server has. */
  receive(hostId: string, heartbeat: Heartbeat, unknown: () => 'Continue' | 'Terminate'): HeartbeatAnswer
  /** It runs: from now on this host waits for it to speak. */
  expect(entry: ServerEntry): void
}

export function heartbeats(ctx: EngineContext, playersChanged: (entry: ServerEntry) => void): Heartbeats {
  const { clock, inventory, limits, responsiveClock: listening } = ctx
  const answering = (operation: 'Continue' | 'Terminate'): HeartbeatAnswer =>
    Object.freeze({ operation, nextHeartbeatIntervalMs: limits.heartbeatIntervalMs })
  const goOn = answering('Continue')
  const terminate = answering('Terminate')

  function hear(entry: ServerEntry): void {
    entry.silentSince = listening.now()
    const { heartbeating: heard, awaitingFirstHeartbeat: unheard, awaitingHeartbeat: awaited } = entry.build
    // Last, so that the first is the one that has been silent for longest.
    if (heard.has(entry)) return heard.moveToEnd(entry)
    unheard.delete(entry)
    awaited.delete(entry)
    heard.add(entry)
  }

  /** A heartbeat proves that it runs: a backend that is slower to say so may have told already where. */
  function runs(entry: ServerEntry): void {
    const { instance, record } = entry
    if (record.state !== 'Pending' || instance?.address === undefined) return
    const { address, node, ports } = instance
    const event = { type: 'running' as const, address, ...(node !== undefined && { node }), ports }
    inventory.update(entry, transition(record, event, clock.now()))
  }

  function learn(entry: ServerEntry, heartbeat: Heartbeat): void {
    runs(entry)
    entry.healthReports = afterReport(entry.healthReports, heartbeat.health)
    const now = clock.now()
    const next =
      isIdle(entry.record) && isUnfit(entry.healthReports, limits.unhealthyReports)
        ? transition(entry.record, { type: 'reportedUnhealthy', reports: entry.healthReports.unhealthyInARow }, now)
        : transition(
            entry.record,
            { type: 'heartbeat', claims: heartbeat.state, health: healthOf(entry.healthReports) },
            now,
          )
    inventory.update(entry, next)
    if (!sameList(entry.players, heartbeat.players)) {
      entry.players = heartbeat.players
      playersChanged(entry)
    }
  }

  function answer(entry: ServerEntry, heartbeat: Heartbeat): HeartbeatAnswer {
    const { session, state } = entry.record
    if (state === 'Terminating' && isEndCertain(entry)) return terminate
    if (!session) return goOn
    entry.sessionAnswers ??= sessionAnswers(entry, limits.heartbeatIntervalMs)
    return heartbeat.state === 'StandingBy' ? entry.sessionAnswers.active : entry.sessionAnswers.lasting
  }

  return {
    receive(hostId, heartbeat, unknown) {
      const entry = inventory.serverByHostId(hostId)
      if (!entry) return unknown() === 'Continue' ? goOn : terminate
      if (entry.record.state !== 'Terminating') {
        hear(entry)
        learn(entry, heartbeat)
      }
      return answer(entry, heartbeat)
    },

    expect(entry) {
      const { heartbeating: heard, awaitingFirstHeartbeat: unheard, awaitingHeartbeat: awaited } = entry.build
      entry.runningSince ??= listening.now()
      // It may have spoken before the backend said that it runs, and a late event may say so again.
      if (heard.has(entry) || unheard.has(entry) || awaited.has(entry)) return
      entry.silentSince = listening.now()
      entry.healthReports = noReports
      const hasSpoken = entry.record.reachedStandingByOn !== undefined
      if (hasSpoken) awaited.add(entry)
      else unheard.add(entry)
    },
  }
}

/**
 * On record, or said by the game itself, or the end of a match. An idle server's end before that is nothing that a host
 * which took this one's place would know of: it would hand out a server that is leaving.
 */
function isEndCertain({ record, stored, recordDeleted: recordGone, build }: ServerEntry): boolean {
  if (record.session !== undefined || record.ending?.reason === 'Exited') return true
  return recordGone || build.deleted || stored?.state === 'Terminating'
}

function sessionAnswers(
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
    lasting: Object.freeze({ operation: 'Continue', nextHeartbeatIntervalMs, sessionConfig }),
  }
}

/** What it was started with. Of one whose build had another spec before this host was there, nobody knows that any more. */
function metadataOf(entry: ServerEntry): SessionConfig['metadata'] {
  const { buildMetadata = {} } = entry.build.record.spec
  return isCurrent(entry) ? buildMetadata : (entry.startMetadata ?? buildMetadata)
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false
  return true
}
