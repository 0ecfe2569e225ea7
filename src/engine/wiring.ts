/**
 * Constructs the parts of an engine and connects them. If two parts need each other, one gets a function that looks up the
 * other when called. Such cycles exist only here and not between modules.
 */
import { FleetError } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { ResolvedOptions } from '../contracts/options.js'
import type { Prober } from '../contracts/prober.js'
import type { AskWebhook } from '../contracts/scaling-demand.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import { noBackoff } from '../rules/lifecycle/backoff.js'
import { fairLimiter } from '../util/limiter.js'
import type { Observers } from '../util/observers.js'
import { Allocator } from './allocation/allocator.js'
import { Confirmations } from './allocation/confirmations.js'
import { RetryGrace } from './allocation/retry-grace.js'
import { WaitQueue } from './allocation/wait-queue.js'
import { BuildCreation } from './builds/build-creation.js'
import { BuildOperations } from './builds/build-operations.js'
import { ChangeHandlers } from './change-handlers.js'
import type { EngineContext } from './context.js'
import { Heartbeats } from './instances/heartbeats.js'
import { LateStarts } from './instances/late-starts.js'
import { ParkedHeartbeats } from './instances/parked-heartbeats.js'
import { InstanceWatcher } from './instances/instance-watcher.js'
import { ServerDataUpdates } from './instances/server-data.js'
import { MaintenanceAnnouncements } from './instances/maintenance-announcements.js'
import { ProbedGames } from './instances/probed-games.js'
import { Reservations } from './instances/reservations.js'
import { ResponsiveClock } from './responsive-clock.js'
import { Ticker } from './instances/ticker.js'
import { Timeouts } from './instances/timeouts.js'
import { BuildWriter } from './persistence/build-writer.js'
import { DetailWriter } from './persistence/detail-writer.js'
import type { LeadershipGuard } from './persistence/leadership-guard.js'
import { Loader } from './persistence/loader.js'
import { ServerWriter } from './persistence/server-writer.js'
import { StoreResync } from './persistence/store-resync.js'
import { BudgetShares } from './reconcile/budget-shares.js'
import { Drainer } from './reconcile/drain.js'
import { FailoverGrace } from './reconcile/failover-grace.js'
import { Preparation } from './reconcile/preparation.js'
import { Reconciler } from './reconcile/reconciler.js'
import { Scaler, type ScalerDependencies } from './reconcile/scaler.js'
import { ScalingPolicies } from './reconcile/scaling-policies.js'
import { ServerActions } from './reconcile/server-actions.js'
import { ServerStarter } from './reconcile/server-start.js'
import { ServerTerminator } from './reconcile/server-termination.js'
import { SpecValidation } from './reconcile/spec-validation.js'
import { WorkQueue } from './reconcile/work-queue.js'
import { Activity } from './reporting/activity.js'
import { Conditions } from './reporting/conditions.js'
import { DemandRecorder } from './reporting/demand-recorder.js'
import { EventReporter } from './reporting/event-reporter.js'
import { StartFailures } from './reporting/start-failures.js'
import { StatusPublisher } from './reporting/status-publisher.js'
import { Seats } from './seats/seats.js'
import { ServerAdoption } from './server-adoption.js'
import type { EndedSessions } from './ended-sessions.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import { Outbox } from './outbox.js'
import { Inventory } from './state/inventory.js'
import { serversForCallers } from './state/queries.js'

export interface EngineDependencies {
  /** Gives access to the store and the backend. Closed when leadership changes, or by the engine once it has stopped. */
  readonly guard: LeadershipGuard
  readonly options: ResolvedOptions
  readonly emitter: FleetEmitter
  /** Outlives the engine, because a host that leads again still knows them. */
  readonly endedSessions: EndedSessions
  readonly agentAddress: string
  readonly observers: Observers
  readonly askWebhook: AskWebhook
  /** Outlives the engine. */
  readonly prober: Prober
}

/** The engine's lifecycle flags. Only the engine sets them. */
export interface EngineState {
  /** True once the store and the backend have been read. From then on, a server that is not in the inventory is unknown. */
  loaded: boolean
  /** True while the whole fleet is draining. */
  draining: boolean
  stopped: boolean
  /** Why the engine has stopped. */
  stopError: FleetError | undefined
}

export type EngineParts = ReturnType<typeof wireEngine>

export function wireEngine(engineDeps: EngineDependencies, state: EngineState) {
  const { guard, options, observers } = engineDeps
  const { clock } = options
  const { store } = guard
  const inventory: Inventory = new Inventory(
    (change) => changes.handle(change),
    () => outbox.flush(),
  )
  const outbox = new Outbox(engineDeps.emitter, () => inventory.isHandling)
  const ctx = engineContext({ ...engineDeps, emitter: outbox }, state, inventory, (build) => {
    // Until the instances are known, a reconcile would take running servers for ended ones. The engine then queues every build.
    if (state.loaded) workQueue.add(build)
  })
  const isDraining = () => state.draining

  const { confirmations, retryGrace, waitQueue } = callerParts(ctx)
  const writer = new ServerWriter(store, inventory, clock)
  const builds = new BuildWriter(store, inventory, {
    idle: ctx.enqueue,
    recordMissing: (build) => resync.recordMissing(build),
  })
  const details = new DetailWriter(ctx)
  const loader = new Loader(ctx, { loaded: (entry) => serverLoaded(entry) })
  const activity = new Activity(clock, inventory, (build) => waitQueue.waiting(build))
  const demand = new DemandRecorder(ctx)
  const events = new EventReporter(ctx, activity, demand)
  const conditions = new Conditions(ctx, builds)
  const startFailures = new StartFailures(ctx, events, conditions)
  const lateStarts = new LateStarts(ctx, { conditions, events, waitQueue })
  const drainer = new Drainer(ctx)
  const { maintenance, reservations, seats, serverData, serverLoaded } = serverChanges(ctx, writer, isDraining)
  const heartbeats = new Heartbeats(ctx, {
    playersChanged: (entry) => details.changed(entry),
    playersSeated: (entry) => seats.playersChanged(entry),
    arrived: (entry) => parkedHeartbeats.supersede(entry),
    sessionConfirmed: (entry) => confirmations.confirm(entry),
    sessionsEnded(entry, sessions) {
      events.sessionsEnded(entry, sessions)
      ctx.requeue(entry)
    },
  })
  const parkedHeartbeats = new ParkedHeartbeats(ctx, (entry) => heartbeats.answer(entry, 'StandingBy'))
  const watcher = new InstanceWatcher(ctx, {
    starting: (entry, phase) => lateStarts.observed(entry, phase),
    running(entry) {
      heartbeats.expect(entry)
      probedGames.running(entry)
    },
    heartbeat,
    parkHeartbeat: (hostId, parked) => parkedHeartbeats.park(hostId, parked),
    startBlocked: (entry, reason) => startFailures.startReport(entry, new FleetError('unavailable', reason)),
    maintenance,
    adopt: (found) => adoption.adopt(found),
    recover: (...lost) => adoption.recover(...lost),
  })
  const probedGames = new ProbedGames(ctx, {
    prober: engineDeps.prober,
    heartbeat,
    park: (hostId, parked) => parkedHeartbeats.park(hostId, parked),
  })
  const ticker = new Ticker(ctx, {
    timeouts: new Timeouts(ctx, { conditions, lateStarts }),
    watcher,
    details,
    activity,
    demand,
  })

  const counts = callerCounts(waitQueue, retryGrace)
  const policies = new ScalingPolicies(ctx, {
    history: (build) => demand.history(build),
    ...{ conditions, callers: counts.callers, functions: options.scalingPolicies },
    webhooks: { ask: engineDeps.askWebhook, origins: options.scalingWebhooks },
    waiting: (build) => waitQueue.waiting(build),
  })
  const { failoverGrace, preparation, status, terminator, workQueue } = reconcileParts(ctx, observers, {
    policies,
    writer,
    builds,
    details,
    conditions,
    events,
    lateStarts,
    startFailures,
    watcher,
    drainer,
    isDraining,
    capacityFreed: (build) => waitQueue.capacityFreed(build),
    capacityTaken: (build) => waitQueue.reconsider(build.record.spec),
    parkedHeartbeats,
    ...counts,
  })

  const allocator = new Allocator(ctx, {
    activity,
    demand,
    writer,
    waitQueue,
    retryGrace,
    confirmations,
    isDraining,
    refused: (build) => policies.callerRefused(build),
  })
  const creation = new BuildCreation(ctx, { events, loader, waitQueue })
  const operations = new BuildOperations(ctx, {
    ...{ creation, events, waitQueue, writer: builds },
    setByHand: (build) => policies.setByHand(build),
    deleted: (build) => demand.forget(build),
  })
  const changes = new ChangeHandlers(ctx, {
    builds: operations,
    conditions,
    confirmations,
    demand,
    drainer,
    events,
    parkedHeartbeats,
    lateStarts,
    maintenance,
    reservations,
    seats,
    startFailures,
    waitQueue,
  })
  const adoption = new ServerAdoption(ctx, { loader, writer, changes, observe: (found) => watcher.observe(found) })
  const resync = storeResync(ctx, builds, creation, operations, adoption)

  function heartbeat(hostId: string, beat: Heartbeat): HeartbeatAnswer {
    return heartbeats.receive(hostId, beat, () =>
      state.loaded ? watcher.unknownHeartbeat(hostId, beat.state) : 'Continue',
    )
  }

  return {
    ctx,
    activity,
    allocator,
    builds: operations,
    confirmations,
    demand,
    details,
    drainer,
    failoverGrace,
    heartbeat,
    parkedHeartbeats,
    loader,
    maintenance,
    policies,
    preparation,
    probedGames,
    resync,
    serverData,
    status,
    terminator,
    ticker,
    waitQueue,
    reservations,
    seats,
    watcher,
    workQueue,
    writer,
  }
}

/** The parts that change the records of servers for callers. */
function serverChanges(ctx: EngineContext, writer: ServerWriter, isDraining: () => boolean) {
  const maintenance = new MaintenanceAnnouncements(ctx, writer)
  const serverData = new ServerDataUpdates(ctx, writer)
  const reservations = new Reservations(ctx, { writer, isDraining })
  const seats = new Seats(ctx, { writer, isDraining })
  const serverLoaded = (entry: ServerEntry) => {
    seats.recordChanged(entry)
    reservations.recordChanged(entry)
  }
  return { maintenance, reservations, seats, serverData, serverLoaded }
}

/** The parts in which allocations wait. */
function callerParts(ctx: EngineContext) {
  const { clock, limits } = ctx
  const retryGrace = new RetryGrace(clock, limits.maxWaiting, ctx.enqueue)
  const waitQueue = new WaitQueue(clock, retryGrace, ctx.enqueue)
  return { confirmations: new Confirmations(ctx), retryGrace, waitQueue }
}

/** How many servers the callers of a build need. */
function callerCounts(
  waitQueue: WaitQueue,
  retryGrace: RetryGrace,
): Pick<ScalerDependencies, 'callers' | 'choosyCallers'> {
  return {
    callers: (build) => serversForCallers(build, waitQueue.demand(build) + retryGrace.count(build)),
    choosyCallers: (build) => ({
      unfit: serversForCallers(build, waitQueue.selectiveDemand(build)),
      choosy: serversForCallers(build, retryGrace.selective(build)),
    }),
  }
}

function engineContext(
  {
    guard,
    options,
    emitter,
    endedSessions,
    agentAddress,
  }: Omit<EngineDependencies, 'emitter'> & Pick<EngineContext, 'emitter'>,
  state: EngineState,
  inventory: Inventory,
  enqueue: (build: BuildEntry) => void,
): EngineContext {
  const { budget, clock, limits, logger } = options
  return {
    backend: guard.backend,
    store: guard.store,
    clock,
    responsiveClock: new ResponsiveClock(clock),
    limits,
    budget,
    logger,
    emitter,
    inventory,
    endedSessions,
    agentAddress,
    createLimiter: fairLimiter(limits.maxConcurrentCreates),
    destroyLimiter: fairLimiter(limits.maxConcurrentDestroys),
    enqueue,
    requeue(entry) {
      entry.retry = noBackoff
      entry.build.needsAction.add(entry)
      enqueue(entry.build)
    },
    stopped: () => state.stopped,
    stopError: () => guard.closedWith ?? state.stopError,
    deposedError: () => guard.closedWith,
  }
}

function storeResync(
  ctx: EngineContext,
  builds: BuildWriter,
  creation: BuildCreation,
  operations: BuildOperations,
  adoption: ServerAdoption,
): StoreResync {
  return new StoreResync(ctx, {
    adoptBuild: (found) => creation.adopt(found),
    created: (ref) => creation.settled(ref),
    recoverUncertainBuilds: () => creation.recoverUncertain(),
    builds,
    buildGone: (build) => operations.recordDeleted(build),
    adoptServer: (found) => adoption.adopt(found),
    acceptServer: (entry, found) => adoption.accept(entry, found),
    refreshServer: (entry) => adoption.refresh(entry),
  })
}

interface ReconcilePartDependencies {
  readonly policies: ScalingPolicies
  readonly writer: ServerWriter
  readonly builds: BuildWriter
  readonly details: DetailWriter
  readonly conditions: Conditions
  readonly events: EventReporter
  readonly lateStarts: LateStarts
  readonly startFailures: StartFailures
  readonly watcher: InstanceWatcher
  readonly drainer: Drainer
  readonly parkedHeartbeats: ParkedHeartbeats
  readonly isDraining: () => boolean
  readonly capacityFreed: (build: BuildEntry) => void
  readonly capacityTaken: (build: BuildEntry) => void
  readonly callers: ScalerDependencies['callers']
  readonly choosyCallers: ScalerDependencies['choosyCallers']
}

function reconcileParts(ctx: EngineContext, observers: Observers, deps: ReconcilePartDependencies) {
  const { conditions, startFailures, watcher, writer } = deps
  const specs = new SpecValidation(ctx, conditions)
  const validateSpec = (build: BuildEntry) => specs.validate(build)
  const preparation = new Preparation(ctx, conditions)
  const status = new StatusPublisher(ctx)
  const failoverGrace = new FailoverGrace(ctx)
  const scaler = new Scaler(ctx, {
    policies: deps.policies,
    budget: ctx.budget && new BudgetShares(ctx, ctx.budget, deps),
    callers: deps.callers,
    choosyCallers: deps.choosyCallers,
    protectedSurplus: (build) => failoverGrace.surplusOf(build),
    isDraining: deps.isDraining,
    validateSpec,
  })
  const starter = new ServerStarter(ctx, {
    conditions,
    lateStarts: deps.lateStarts,
    startFailures,
    watcher,
    preparation,
    validateSpec,
  })
  const terminator = new ServerTerminator(ctx, { buildWriter: deps.builds, details: deps.details, events: deps.events })
  const actions = new ServerActions(ctx, {
    writer,
    starter,
    terminator,
    startFailures,
    saved: (entry) => deps.parkedHeartbeats.answerChanged(entry),
  })
  const serverRemoved = () => deps.drainer.checkProgress()
  const reconciler = new Reconciler(ctx, { conditions, actions, scaler, serverRemoved })
  const workQueue = new WorkQueue<BuildEntry>(ctx.clock, (build) => {
    if (validateSpec(build)) preparation.reconcile(build)
    status.schedule(build)
    if (observers.isEmpty) return reconciler.reconcile(build)
    return observers.timed(
      () => reconciler.reconcile(build),
      (observer, ms) => observer.reconciled?.(ms),
    )
  })
  return { failoverGrace, preparation, status, terminator, workQueue }
}
