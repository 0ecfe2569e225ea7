/**
 * Reacts to changes in the inventory: serves waiting callers, sets back-offs, queues reconciles and emits events. Synchronous, in the tick
 * of the change, one change after the other. A reaction may change the inventory again: that change is handled after those before it.
 */
import { FleetError } from '../contracts/errors.js'
import { afterFailure, afterLoss, isLost, isLostAgain, noBackoff } from '../rules/lifecycle/backoff.js'
import { disappearedBeforeStandingBy, exitedUnused, isIdle, needsBackoff } from '../rules/lifecycle/lifecycle.js'
import type { Build, Ending, Server } from '../rules/model/resources.js'
import { sessionKey } from '../rules/model/names.js'
import { buildHealth } from '../rules/model/build-status.js'
import type { Confirmations } from './allocation/confirmations.js'
import type { WaitQueue } from './allocation/wait-queue.js'
import type { BuildOperations } from './builds/build-operations.js'
import { backoffLimits, type EngineContext } from './context.js'
import type { LateStarts } from './instances/late-starts.js'
import type { ParkedHeartbeats } from './instances/parked-heartbeats.js'
import type { MaintenanceAnnouncements } from './instances/maintenance-announcements.js'
import type { Reservations } from './instances/reservations.js'
import type { Drainer } from './reconcile/drain.js'
import { type Conditions, hasCondition } from './reporting/conditions.js'
import type { DemandRecorder } from './reporting/demand-recorder.js'
import type { EventReporter } from './reporting/event-reporter.js'
import type { StartFailures } from './reporting/start-failures.js'
import type { Seats } from './seats/seats.js'
import { freePlacesOn } from './state/candidates.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import type { BuildReplaced, Change, ServerReplaced } from './state/inventory.js'
import { isBeingAllocated, isCurrent, isDraining, isReady, isSaved, needsProtectionChange } from './state/queries.js'

export interface ChangeHandlerDependencies {
  readonly builds: Pick<BuildOperations, 'buildIDChanged'>
  readonly conditions: Pick<Conditions, 'reportChanges'>
  readonly confirmations: Pick<Confirmations, 'serverEnded'>
  readonly demand: Pick<DemandRecorder, 'started'>
  readonly drainer: Pick<Drainer, 'awaits' | 'checkProgress' | 'released'>
  readonly events: EventReporter
  readonly lateStarts: Pick<LateStarts, 'succeeded'>
  readonly parkedHeartbeats: Pick<ParkedHeartbeats, 'answerChanged'>
  readonly maintenance: Pick<MaintenanceAnnouncements, 'placed'>
  readonly reservations: Pick<Reservations, 'recordChanged'>
  readonly seats: Pick<Seats, 'recordChanged'>
  readonly startFailures: StartFailures
  readonly waitQueue: Pick<
    WaitQueue,
    'dataChanged' | 'reconsider' | 'capacityFreed' | 'serve' | 'servePlaces' | 'sessionAllocated' | 'total'
  >
}

export class ChangeHandlers {
  readonly #ctx: EngineContext
  readonly #deps: ChangeHandlerDependencies

  constructor(ctx: EngineContext, deps: ChangeHandlerDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  handle(change: Change): void {
    switch (change.type) {
      case 'server':
        return this.#serverChanged(change)
      case 'build':
        return this.#buildChanged(change)
      case 'ready':
        return this.#ready(change.entry)
      case 'places':
        return this.#deps.waitQueue.servePlaces(change.entry)
      case 'released':
        this.#deps.drainer.released(change.entry)
        // While it was being allocated, its other changes waited for that write.
        return this.#ctx.requeue(change.entry)
    }
  }

  #ready(entry: ServerEntry): void {
    // An earlier change may have given it to a caller.
    if (isReady(entry.bucket) && !this.#deps.drainer.awaits(entry)) this.#deps.waitQueue.serve(entry)
  }

  #serverChanged({ entry, before, record, from, to }: ServerReplaced): void {
    const { clock } = this.#ctx
    const { events } = this.#deps
    const { build } = entry
    if (to === 'active' && from !== 'active') entry.activeSince = clock.elapsed()
    // Another writer may have ended the server already.
    if (record.sessions !== before.sessions) this.#endWait(record)
    const isIdleAgain = record.state === 'StandingBy' && before.state === 'Active'
    if (record.state === 'StandingBy' && isIdle(before) && before.state !== 'StandingBy') {
      this.#deps.lateStarts.succeeded(entry)
      this.#deps.demand.started(build, Math.max(0, clock.now() - record.createdAt))
    }
    if (record.state === 'StandingBy' || to === 'active') entry.standingBySince ??= clock.elapsed()
    const saved = isSaved(entry)
    const isProtectionWrong = needsProtectionChange(this.#ctx, entry)
    if (!saved || isProtectionWrong) build.needsAction.add(entry)
    // A reserved server already counts as Active, so an allocation costs one reconcile instead of two.
    if (!(saved && from === 'reserved' && to === 'active') || isProtectionWrong) this.#ctx.enqueue(build)
    events.serverState(entry, before, record)
    if (record.state === 'Terminating' && before.state !== 'Terminating') {
      this.#serverTerminating(entry, record)
      this.#deps.waitQueue.capacityFreed(build)
    }
    events.serverHealth(entry, before, record)
    events.maintenance(entry, before, record)
    if (record.reservedUntil !== before.reservedUntil) this.#deps.reservations.recordChanged(entry)
    events.serverData(entry, before, record)
    if (record.node !== before.node) this.#deps.maintenance.placed(entry)
    if (record.sessions[0]?.holds || before.sessions[0]?.holds) this.#deps.seats.recordChanged(entry)
    this.#deps.parkedHeartbeats.answerChanged(entry)
    if (record.data !== before.data && (isReady(entry.bucket) || freePlacesOn(entry) > 0))
      this.#deps.waitQueue.dataChanged(entry)
    if (isIdleAgain && !isBeingAllocated(entry)) this.#deps.drainer.released(entry)
  }

  /** Called after a server was adopted from the store. Another host may have allocated it. */
  serverAdopted(server: Server): void {
    this.#endWait(server)
  }

  #buildChanged({ build, before }: BuildReplaced): void {
    this.#ctx.enqueue(build)
    const { buildID } = before.spec
    if (buildID !== build.record.spec.buildID) this.#deps.builds.buildIDChanged(build, buildID)
    if (isDraining(before) && !build.draining) this.#deps.drainer.checkProgress()
    if (mayGrowOtherwise(build, before)) this.#deps.waitQueue.reconsider(before.spec, build.record.spec)
    this.#deps.events.buildHealth(build, before)
    if (build.record.spec !== before.spec) this.#deps.events.metadataKeys(build.record, before.spec)
    this.#deps.conditions.reportChanges(build, before)
  }

  /**
   * Ends the wait of a caller that was allocated this server by another host. If this host allocated it, the caller has
   * already left the queue.
   */
  #endWait(server: Server): void {
    const { waitQueue } = this.#deps
    if (waitQueue.total === 0) return
    for (const { id } of server.sessions) waitQueue.sessionAllocated(sessionKey(id))
  }

  #serverTerminating(entry: ServerEntry, record: Server): void {
    const { clock } = this.#ctx
    const { build } = entry
    const { ending } = record
    // A back-off from an earlier failure must not delay the termination.
    entry.retry = noBackoff
    this.#deps.confirmations.serverEnded(entry)
    if (!ending) return
    const wasBackingOff = build.backoff.until > clock.elapsed()
    if (needsBackoff(record)) {
      build.backoff = afterFailure(build.backoff, clock.elapsed(), backoffLimits(this.#ctx))
      if (isCurrent(entry)) {
        build.crashedTemplate = build.templateHash
        build.freedPorts++
      }
    }
    if (isLost(record)) this.#serverLost(entry, ending)
    // A game may end itself after some time without a session, so the first one is no problem.
    if (exitedUnused(record) && build.backoff.failures > 1) {
      setDisappearing(entry, ending, 'servers keep ending while they are standing by')
    }
    if (!wasBackingOff && build.backoff.until > clock.elapsed()) {
      this.#deps.waitQueue.reconsider(build.record.spec)
    }
    if (disappearedBeforeStandingBy(record))
      this.#deps.startFailures.startReport(entry, new FleetError('unavailable', ending.message))
    this.#deps.events.serverTerminating(entry, ending)
  }

  #serverLost(entry: ServerEntry, ending: Ending): void {
    const { build, record } = entry
    const limits = backoffLimits(this.#ctx)
    const now = this.#ctx.clock.elapsed()
    if (isLostAgain(record, build.losses, limits.resetMs)) {
      build.backoff = afterFailure(build.backoff, now, limits)
      setDisappearing(entry, ending, 'replaced servers disappear again soon after they are standing by')
    }
    build.losses = afterLoss(build.losses, ending.at, Math.max(0, build.backoff.until - now), limits.resetMs)
  }
}

function setDisappearing({ build, record }: ServerEntry, { message, reason }: Ending, what: string): void {
  // Omits the server's name, so that another server that ends for the same reason causes no write.
  build.disappearing = { reason, message: `${what}: ${message}`.replaceAll(record.name, `${record.build}-…`) }
}

/** True if a change decides about the new servers of the build. */
function mayGrowOtherwise({ draining, record }: BuildEntry, before: Build): boolean {
  if (record.spec !== before.spec || isDraining(before) !== draining) return true
  return (
    buildHealth(record) !== buildHealth(before) || hasCondition(record, 'Invalid') !== hasCondition(before, 'Invalid')
  )
}
