/** Runs an engine for as long as this host leads, one change of leadership after the other. */
import { type Engine, startEngine } from '../engine/engine.js'
import { type LeadershipGuard, leadershipGuard } from '../engine/persistence/leadership-guard.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import { fleetEmitter } from './emitter.js'
import { type Observers, observersOf } from '../contracts/observer.js'
import type { FleetOptions, ResolvedOptions } from '../contracts/options.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import { afterFailure, noBackoff } from '../rules/lifecycle/backoff.js'
import type { Store } from '../contracts/store.js'

/** The engine while this host leads, and what to say while it does not. */
export interface LeaderTerm {
  /** Settles with the first word of the elector: rejects when the first engine cannot start. */
  readonly begun: Promise<void>
  engine(): Engine
  heartbeat(id: string, beat: Heartbeat): HeartbeatAnswer
  readonly emitter: ReturnType<typeof fleetEmitter>
  readonly observers: Observers
  /** Why this host hands out nothing now, if that is so. */
  notReadyReason(): string | undefined
  leads(): boolean
  readonly heartbeats: number
  close(): Promise<void>
}

export function leaderTerm(
  options: FleetOptions,
  resolved: ResolvedOptions,
  store: Store,
  agentAddress: string,
): LeaderTerm {
  const { logger, clock, elector, limits } = resolved
  const emitter = fleetEmitter(logger, limits.eventLogSize)
  const observers = observersOf(clock, logger)
  let heartbeats = 0
  const goOn: HeartbeatAnswer = {
    operation: 'Continue',
    nextHeartbeatIntervalMs: limits.heartbeatIntervalMs,
    isElsewhere: true,
  }
  let engine: Engine | undefined
  let leader: string | undefined
  let door: LeadershipGuard | undefined
  let leads = false
  let closed = false
  let tries = noBackoff
  let cancelRetry = () => {}
  const startLimits = { initialMs: limits.backoffInitialMs, maxMs: limits.backoffMaxMs, resetMs: limits.backoffResetMs }
  /** One change of leadership after the other. */
  let changes = Promise.resolve()
  let firstWord: { resolve(): void; reject(error: unknown): void } | undefined
  const begun = new Promise<void>((resolve, reject) => {
    firstWord = { resolve, reject }
  })

  const notLeading = () => {
    const who = leader === undefined ? '' : `; ${leader} does`
    return new FleetError('not-leader', `this host does not lead the fleet${who}`)
  }

  async function elected(): Promise<void> {
    if (closed || engine || !leads) return
    try {
      door = leadershipGuard(store, options.backend, observers)
      engine = await startEngine({ guard: door, options: resolved, emitter, agentAddress, observers })
      firstWord?.resolve()
      emitter.emit({ type: 'LeadershipChanged', at: clock.now(), leads: true, message: 'this host leads the fleet' })
      tries = noBackoff
    } catch (error) {
      // Deposed while it started: there is nothing to try again, and `lost` has the next word.
      if (!leads) return
      logger.error({ error: messageOf(error) }, 'the engine could not be started')
      firstWord?.reject(error)
      // The first time `createFleet` tells of it; later the lead is kept, and the engine tried again.
      tries = afterFailure(tries, clock.elapsed(), startLimits)
      cancelRetry = clock.after(tries.until - clock.elapsed(), () => {
        changes = changes.then(elected)
      })
    }
  }

  async function lost(): Promise<void> {
    cancelRetry()
    const ending = engine
    engine = undefined
    firstWord?.resolve()
    if (!ending) return
    emitter.emit({ type: 'LeadershipChanged', at: clock.now(), leads: false, message: notLeading().message })
    await ending.stop(notLeading(), 'deposed')
  }

  const resign = elector.run({
    elected() {
      leads = true
      leader = undefined
      changes = changes.then(elected)
    },
    lost(by) {
      leads = false
      leader = by
      // At once, also upon an engine that is just starting: whatever it does from now on is another host's to do.
      door?.close(notLeading())
      changes = changes.then(lost)
    },
  })

  return {
    begun,
    emitter,
    engine() {
      if (closed) throw new FleetError('closed', 'the fleet is closed on this host')
      if (!engine || !leads) throw notLeading()
      return engine
    },
    heartbeat(id, beat) {
      heartbeats++
      return engine?.heartbeat(id, beat) ?? goOn
    },
    get heartbeats() {
      return heartbeats
    },
    observers,
    leads: () => leads && engine !== undefined && !closed,
    notReadyReason() {
      if (closed) return 'this fleet is closed'
      if (!engine || !leads) return notLeading().message
      return engine.isDraining() ? 'the fleet is being drained' : undefined
    },
    async close() {
      closed = true
      cancelRetry()
      const error = new FleetError('closed', 'this host is closing; another, or this one started again, goes on')
      changes = changes.then(() => engine?.stop(error, 'closing'))
      await changes
      engine = undefined
      await resign()
    },
  }
}
