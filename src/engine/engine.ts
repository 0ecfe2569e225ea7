/**
 * One term of leadership: reads the store, finds the instances again, and runs the fleet until it is stopped. Wires the
 * parts; the rules are in `src/rules`, and each part says what it does.
 */
import { FleetError, messageOf } from '../contracts/errors.js'
import { type FleetEmitter } from '../contracts/events.js'
import { limiter } from '../util/limiter.js'
import type { Observers } from '../util/observers.js'
import type { DrainResult, DrainOptions, ResolvedOptions } from '../contracts/options.js'
import { noBackoff } from '../rules/lifecycle/backoff.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import { transition } from '../rules/lifecycle/lifecycle.js'
import { keyOf, type Server } from '../rules/model/resources.js'
import type { Versioned } from '../contracts/store.js'
import { type Allocator, allocator } from './allocation/allocator.js'
import { BuildWriter } from './persistence/build-writer.js'
import { type BuildOperations, buildOperations } from './build-operations.js'
import { blocked } from './reporting/create-blocked.js'
import { changeHandlers } from './change-handlers.js'
import type { EngineContext } from './context.js'
import { DetailWriter } from './persistence/detail-writer.js'
import { drainer } from './reconcile/drain.js'
import { statusPublisher } from './reporting/status-publisher.js'
import type { LeadershipGuard } from './persistence/leadership-guard.js'
import { Heartbeats } from './instances/heartbeats.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import { serversOf } from './state/queries.js'
import { Ticker } from './instances/ticker.js'
import { retryGrace } from './allocation/retry-grace.js'
import { Inventory } from './state/inventory.js'
import { ResponsiveClock } from './instances/responsive-clock.js'
import { Loader } from './persistence/loader.js'
import { Timeouts } from './instances/timeouts.js'
import { preparation } from './reconcile/preparation.js'
import { reconciler } from './reconcile/reconciler.js'
import { specValidation } from './reconcile/spec-validation.js'
import { scaler } from './reconcile/scaler.js'
import { isSaved, LostServer, ServerWriter } from './persistence/server-writer.js'
import { serverActions } from './reconcile/server-actions.js'
import { StoreResync } from './persistence/store-resync.js'
import { failoverGrace } from './reconcile/failover-grace.js'
import { waitQueue } from './allocation/wait-queue.js'
import { InstanceWatcher } from './instances/instance-watcher.js'
import { workQueue } from './reconcile/work-queue.js'

export interface Engine {
  readonly inventory: Inventory
  readonly builds: BuildOperations
  readonly allocator: Allocator
  /** Callers that wait for a server of this build. */
  waiting(build: BuildEntry): number
  /** The whole fleet is being drained. */
  isDraining(): boolean
  heartbeat(hostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /** Ends a server for an operator. Resolves when that is durable. */
  deleteServer(entry: ServerEntry): Promise<void>
  /** Hands out nothing any more and empties the fleet. */
  drainFleet(options: DrainOptions): Promise<DrainResult>
  drainBuild(build: BuildEntry, options: DrainOptions): Promise<DrainResult>
  drainServer(entry: ServerEntry, options: DrainOptions): Promise<DrainResult>
  /**
   * Stops acting. Servers go on; waiting callers get `error`. `closing`: writes first what is not written yet. `deposed`:
   * another host leads, and nothing of what this one still meant to do may be done.
   */
  stop(error: FleetError, why: 'closing' | 'deposed'): Promise<void>
}

export interface EngineDependencies {
  /** To the store and to the backend. Shut from outside at any moment, and by the engine once it is over. */
  readonly guard: LeadershipGuard
  readonly options: ResolvedOptions
  readonly emitter: FleetEmitter
  readonly agentAddress: string
  readonly observers: Observers
}

/** Rejects when the store or the backend cannot be read. */
export async function startEngine(input: EngineDependencies): Promise<Engine> {
  const { options, emitter, agentAddress } = input
  const { clock, limits, logger } = options
  const { store, backend } = input.guard
  let stopped = false
  let ended: FleetError | undefined
  let draining = false

  const inventory = new Inventory({
    ready: (entry) => room.serve(entry),
    released: (entry) => drains.released(entry),
    changed: (entry, before, from) => follow.serverChanged(entry, before, from),
  })
  const ctx: EngineContext = {
    backend,
    store,
    clock,
    responsiveClock: new ResponsiveClock(clock),
    limits,
    logger,
    emitter,
    inventory,
    agentAddress,
    creating: limiter(limits.maxConcurrentCreates),
    destroying: limiter(limits.maxConcurrentDestroys),
    enqueue: (build) => queue.add(build),
    touch(entry) {
      // Something happened to it: whatever it was waiting for may be over.
      entry.retry = noBackoff
      entry.build.needsAction.add(entry)
      queue.add(entry.build)
    },
    stopped: () => stopped,
    over: () => input.guard.closedWith ?? ended,
    deposed: () => input.guard.closedWith,
  }

  const expected = retryGrace(clock, ctx.limits.maxWaiting, ctx.enqueue)
  const room = waitQueue(clock, expected, ctx.enqueue)
  const writer = new ServerWriter(store, inventory, clock)
  const buildsWriter = new BuildWriter(store, inventory, {
    changed: (build, before) => follow.buildChanged(build, before),
    idle: ctx.enqueue,
    recordMissing: (build) => resync.recordMissing(build),
  })
  const details = new DetailWriter(ctx)
  const beats = new Heartbeats(ctx, (entry) => details.changed(entry))
  const tellBlocked = blocked(ctx, buildsWriter)
  const { breaksRule } = specValidation(ctx, buildsWriter)
  const watch = new InstanceWatcher(ctx, {
    running: (entry) => beats.expect(entry),
    heartbeat,
    stuck: (entry, reason) => follow.serverStuck(entry, reason),
    adopt: adoptServer,
  })
  const loader = new Loader(ctx)
  const isDraining = () => draining
  const prepare = preparation(ctx, buildsWriter)
  const { step, save } = serverActions(ctx, {
    writer,
    buildWriter: buildsWriter,
    details,
    watcher: watch,
    preparation: prepare,
    breaksRule,
    blocked: tellBlocked,
  })
  const callers = (build: BuildEntry) => room.waiting(build) + expected.count(build)
  const sparing = failoverGrace(ctx, enqueueAll)
  const scale = scaler(ctx, { callers, spared: sparing.spared, isDraining, breaksRule })
  const reconcile = reconciler(ctx, { buildWriter: buildsWriter, steps: { step: stepAndTell, save }, scale })
  const queue = workQueue<BuildEntry>(clock, (build) => {
    prepare.look(build)
    show.touch(build)
    if (input.observers.isEmpty) return reconcile(build)
    return input.observers.timed(
      () => reconcile(build),
      (observer, ms) => observer.reconciled?.(ms),
    )
  })
  const allocate = allocator(ctx, { writer, room, expected, isDraining })
  const builds = buildOperations(ctx, { writer: buildsWriter, room, load: (found) => loader.loadBuild(found) })
  const drains = drainer(ctx)
  const follow = changeHandlers(ctx, { room, drains, builds, blocked: tellBlocked })
  const resync = new StoreResync(ctx, {
    adoptBuild: builds.adopt,
    findLostBuilds: builds.findLost,
    builds: buildsWriter,
    buildGone: builds.forget,
    adoptServer,
    checkServer,
  })
  const show = statusPublisher(ctx)
  const seconds = new Ticker(ctx, { timeouts: new Timeouts(ctx, buildsWriter), watcher: watch, details })
  const stopTelling = store.display ? emitter.on('*', (event) => store.display?.event(event)) : () => {}

  async function checkServer(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    try {
      await writer.refresh(entry)
    } catch (error) {
      // The entry tells already what it is now.
      if (!(error instanceof LostServer)) throw error
    }
    // It went meanwhile: what is there now is looked at as what nobody knows.
    if (inventory.servers.get(keyOf(entry.record)) !== entry) return
    // A record that was written again as it is ends no pause after a failure.
    if (entry.record !== record || entry.stored !== stored) ctx.touch(entry)
  }

  function adoptServer(found: Versioned<Server>): void {
    ctx.touch(loader.loadServer(found))
    follow.serverAppeared(found.record)
  }

  function enqueueAll(): void {
    for (const build of inventory.everyBuild) ctx.enqueue(build)
  }

  async function stepAndTell(entry: ServerEntry): Promise<number | undefined> {
    const again = await step(entry)
    if (inventory.servers.get(keyOf(entry.record)) !== entry) drains.look()
    return again
  }

  function heartbeat(hostId: string, beat: Heartbeat): HeartbeatAnswer {
    return beats.receive(hostId, beat, () => (loaded ? watch.unknownHeartbeat(hostId, beat.state) : 'Continue'))
  }

  let loaded = false

  try {
    await loader.loadAll()
    sparing.count()
    await watch.start()
  } catch (error) {
    stopped = true
    watch.stop()
    prepare.stop()
    queue.stop()
    show.stop()
    stopTelling()
    throw error
  }
  loaded = true
  resync.start()
  seconds.start()
  sparing.start()
  enqueueAll()

  return {
    inventory,
    builds,
    allocator: allocate,
    waiting: room.waiting,
    isDraining,
    heartbeat,

    async deleteServer(entry) {
      const event = { type: 'end' as const, reason: 'Deleted' as const, message: 'it was deleted by an operator' }
      inventory.update(entry, transition(entry.record, event, clock.now()))
      try {
        await writer.save(entry)
      } catch (error) {
        // Its record is gone already: so much the better.
        if (!(error instanceof LostServer)) throw error
      }
    },

    drainFleet(drainOptions) {
      draining = true
      room.dismiss(new FleetError('draining', 'the fleet is being drained and hands out no servers'))
      enqueueAll()
      const entries = () => inventory.servers.values()
      return drains.drain({ what: 'the fleet', entries, isResumed: () => false }, drainOptions)
    },

    async drainBuild(build, drainOptions) {
      await builds.setDraining(build.record, true)
      const entries = () => serversOf(build)
      const isResumed = () => !build.draining
      return drains.drain({ what: `build ${build.record.name}`, entries, isResumed }, drainOptions)
    },

    drainServer(entry, drainOptions) {
      const entries = () => (inventory.servers.get(keyOf(entry.record)) === entry ? [entry] : [])
      return drains.drain({ what: `server ${entry.record.name}`, entries, isResumed: () => false }, drainOptions)
    },

    async stop(error, why) {
      if (stopped) return
      stopped = true
      ended = error
      if (why === 'deposed') input.guard.close(error)
      seconds.stop()
      sparing.stop()
      watch.stop()
      resync.stop()
      prepare.stop()
      queue.stop()
      show.stop()
      stopTelling()
      room.dismiss(error)
      drains.stop()
      if (why === 'closing') await settle()
      input.guard.close(error)
    },
  }

  /** What is known and not yet written is written, as far as the store answers. */
  async function settle(): Promise<void> {
    const unsaved = [...inventory.servers.values()].filter((entry) => !isSaved(entry) && !entry.intent)
    const saves = unsaved.map((entry) =>
      writer.save(entry).catch((error: unknown) => {
        logger.warn({ server: entry.record.name, error: messageOf(error) }, 'could not be saved before closing')
      }),
    )
    await Promise.all([...saves, details.close()])
    await Promise.all([...inventory.servers.values()].map(async (entry) => entry.saving?.catch(() => undefined)))
  }
}
