/**
 * One term of leadership: reads the store, finds the instances again, and runs the fleet until it is stopped. Wires the
 * parts; the rules are in `src/rules`, and each part says what it does.
 */
import { FleetError, messageOf } from '../errors.js'
import { type FleetEmitter } from '../events.js'
import type { Observers } from '../observer.js'
import type { Drained, DrainOptions, ResolvedOptions } from '../options.js'
import { sessionKey } from '../rules/allocation.js'
import { afterFailure, noBackoff } from '../rules/backoff.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/heartbeat.js'
import { callsForPause, transition, wasRefused } from '../rules/lifecycle.js'
import { type Build, keyOf, type Server } from '../rules/resources.js'
import type { Versioned } from '../store.js'
import { type Allocator, allocator } from './allocator.js'
import { buildWriter } from './build-writer.js'
import { type BuildOperations, buildOperations } from './builds.js'
import { blocked } from './blocked.js'
import { backoffLimits, type EngineContext } from './context.js'
import { detailWriter } from './details.js'
import { drainer } from './drain.js'
import { figures } from './figures.js'
import type { Gate } from './gate.js'
import { heartbeats } from './heartbeats.js'
import { type Bucket, type BuildEntry, countsOf, isCurrent, isDrained, type ServerEntry, serversOf } from './entries.js'
import { comesBackMs, expectedCallers } from './expected-callers.js'
import { createInventory, type Inventory } from './inventory.js'
import { limiter } from './limiter.js'
import { listening } from './listening.js'
import { loader } from './loader.js'
import { overdue } from './overdue.js'
import { preparation } from './preparation.js'
import { reconciler } from './reconciler.js'
import { review } from './review.js'
import { scaler } from './scaler.js'
import { isSaved, LostServer, serverWriter } from './server-writer.js'
import { needsProtection, steps } from './steps.js'
import { storeResync } from './store-resync.js'
import { telling } from './telling.js'
import { waitingRoom } from './waiting-room.js'
import { watcher } from './watcher.js'
import { workQueue } from './work-queue.js'

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
  drainFleet(options: DrainOptions): Promise<Drained>
  drainBuild(build: BuildEntry, options: DrainOptions): Promise<Drained>
  drainServer(entry: ServerEntry, options: DrainOptions): Promise<Drained>
  /**
   * Stops acting. Servers go on; waiting callers get `error`. `closing`: writes first what is not written yet. `deposed`:
   * another host leads, and nothing of what this one still meant to do may be done.
   */
  stop(error: FleetError, why: 'closing' | 'deposed'): Promise<void>
}

export interface EngineInput {
  /** To the store and to the backend. Shut from outside at any moment, and by the engine once it is over. */
  readonly door: Gate
  readonly options: ResolvedOptions
  readonly emitter: FleetEmitter
  readonly agentAddress: string
  readonly observers: Observers
}

/** How often silence is looked for and players are written. */
const tickMs = 1_000
/** A tick this late means that the host was away, and nobody knows what was said meanwhile. */
const awayMs = 2_000

/** Rejects when the store or the backend cannot be read. */
export async function startEngine(input: EngineInput): Promise<Engine> {
  const { options, emitter, agentAddress } = input
  const { clock, limits, logger } = options
  const { store, backend } = input.door
  let stopped = false
  let ended: FleetError | undefined
  let draining = false

  const inventory = createInventory({
    ready: (entry) => room.serve(entry),
    released: (entry) => drains.released(entry),
    changed: (entry, before, from) => serverChanged(entry, before, from),
  })
  const ctx: EngineContext = {
    backend,
    store,
    clock,
    listening: listening(clock),
    limits,
    logger,
    emitter,
    inventory,
    agentAddress,
    creating: limiter(limits.parallelCreates),
    destroying: limiter(limits.parallelDestroys),
    enqueue: (build) => queue.add(build),
    touch(entry) {
      // Something happened to it: whatever it was waiting for may be over.
      entry.retry = noBackoff
      entry.build.todo.add(entry)
      queue.add(entry.build)
    },
    stopped: () => stopped,
    over: () => input.door.over ?? ended,
    deposed: () => input.door.over,
  }

  const tell = telling(ctx)
  const expected = expectedCallers(clock, ctx.limits.maxWaiting, ctx.enqueue)
  const room = waitingRoom(clock, expected, ctx.enqueue)
  const writer = serverWriter(store, inventory, clock)
  const buildsWriter = buildWriter(store, inventory, buildChanged, ctx.enqueue, (build) => resync.missing(build))
  const details = detailWriter(ctx)
  const beats = heartbeats(ctx, details.changed)
  const late = overdue(ctx, buildsWriter)
  const tellBlocked = blocked(ctx, buildsWriter)
  const { breaksRule } = review(ctx, buildsWriter)
  const watch = watcher(ctx, {
    running: beats.await,
    heartbeat,
    stuck: tellStuck,
    adopt: adoptServer,
  })
  const { loadAll, loadBuild, loadServer } = loader(ctx)
  const isDraining = () => draining
  const prepare = preparation(ctx, buildsWriter)
  const { step, save } = steps(ctx, {
    writer,
    buildWriter: buildsWriter,
    details,
    watcher: watch,
    preparation: prepare,
    breaksRule,
    blocked: tellBlocked,
  })
  const callers = (build: BuildEntry) => room.waiting(build) + expected.count(build)
  /** Whoever waited at the host before is on his way here: what was being started for him is not too many yet. */
  const beyondWanted = new Map<BuildEntry, number>()
  const spared = (build: BuildEntry) => beyondWanted.get(build) ?? 0
  const scale = scaler(ctx, { callers, spared, isDraining, breaksRule })
  const reconcile = reconciler(ctx, { buildWriter: buildsWriter, steps: { step: stepAndTell, save }, scale })
  const queue = workQueue<BuildEntry>(clock, (build) => {
    prepare.look(build)
    show.touch(build)
    if (input.observers.idle) return reconcile(build)
    return input.observers.timed(
      () => reconcile(build),
      (observer, ms) => observer.reconciled?.(ms),
    )
  })
  const allocate = allocator(ctx, { writer, room, expected, isDraining })
  const builds = buildOperations(ctx, { writer: buildsWriter, room, load: loadBuild })
  const drains = drainer(ctx)
  const resync = storeResync(ctx, {
    adoptBuild: builds.adopt,
    findLostBuilds: builds.findLost,
    builds: buildsWriter,
    buildGone: builds.forget,
    adoptServer,
    checkServer,
  })
  const show = figures(ctx)
  const stopTelling = store.display ? emitter.on('*', (event) => store.display?.event(event)) : () => {}

  function tellStuck(entry: ServerEntry, reason: string): void {
    tellBlocked(entry, new FleetError('unavailable', reason)).catch((error: unknown) => {
      // Its own status has it all the same.
      logger.warn({ server: entry.record.name, error: messageOf(error) }, 'a condition could not be written')
    })
  }

  async function checkServer(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    try {
      await writer.check(entry)
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
    ctx.touch(loadServer(found))
    tellWaiting(found.record)
  }

  /** Most have left the room with this very server; whoever is still there has got it from another host. */
  function tellWaiting({ session }: Server): void {
    if (session && room.total > 0) room.served(sessionKey(session.id))
  }

  function serverChanged(entry: ServerEntry, before: Server, from: Bucket): void {
    const { record, build, bucket } = entry
    if (bucket === 'active' && from !== 'active') {
      entry.playsSince = clock.elapsed()
      tellWaiting(record)
    }
    if (record.state === 'StandingBy' || bucket === 'active') entry.readySince ??= clock.elapsed()
    const saved = isSaved(entry)
    const isExposed = needsProtection(ctx, entry)
    if (!saved || isExposed) build.todo.add(entry)
    // A reserved server counts as Active already, so that handing it out takes one pass and not two.
    if (!(saved && from === 'reserved' && bucket === 'active') || isExposed) ctx.enqueue(build)
    tell.state(entry, before)
    if (record.state === 'Terminating' && before.state !== 'Terminating') serverEnding(entry)
    tell.health(entry, before)
  }

  function serverEnding(entry: ServerEntry): void {
    const { ending, session } = entry.record
    // Whatever it was to wait for before, its end does not wait for.
    entry.retry = noBackoff
    entry.endingSince = clock.elapsed()
    entry.told = session !== undefined && entry.build.heard.has(entry)
    if (!ending) return
    if (callsForPause(entry.record)) {
      entry.build.backoff = afterFailure(entry.build.backoff, clock.elapsed(), backoffLimits(ctx))
      if (isCurrent(entry)) entry.build.crashedTemplate = entry.build.templateHash
    }
    if (wasRefused(entry.record)) tellStuck(entry, ending.message)
    tell.ending(entry, ending)
  }

  function enqueueAll(): void {
    for (const build of inventory.everyBuild) ctx.enqueue(build)
  }

  function buildChanged(build: BuildEntry, before: Build): void {
    ctx.enqueue(build)
    const { buildID } = before.spec
    if (buildID !== build.record.spec.buildID) builds.renamed(build, buildID)
    if (isDrained(before) && !build.draining) drains.look()
    tell.build(build, before)
  }

  async function stepAndTell(entry: ServerEntry): Promise<number | undefined> {
    const again = await step(entry)
    if (inventory.servers.get(keyOf(entry.record)) !== entry) drains.look()
    return again
  }

  function heartbeat(hostId: string, beat: Heartbeat): HeartbeatAnswer {
    return beats.beat(hostId, beat, () => (loaded ? watch.strangerSpoke(hostId, beat.state) : 'Continue'))
  }

  let loaded = false
  let cancelSparing = () => {}
  let lastTick = clock.elapsed()
  let cancelTick = () => {}

  function tick(): void {
    const now = clock.elapsed()
    const lateMs = Math.max(0, now - lastTick - tickMs)
    ctx.listening.missed(lateMs)
    if (lateMs > awayMs) {
      late.forgive()
      watch.forgive()
    }
    lastTick = now
    late.check()
    watch.sweep()
    details.flush()
    cancelTick = clock.after(tickMs, tick)
  }

  try {
    await loadAll()
    for (const build of inventory.everyBuild) {
      const { pending, initializing, standingBy } = countsOf(build)
      beyondWanted.set(build, Math.max(0, pending + initializing + standingBy - build.record.spec.standingBy))
    }
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
  lastTick = clock.elapsed()
  cancelTick = clock.after(tickMs, tick)
  cancelSparing = clock.after(comesBackMs, () => {
    beyondWanted.clear()
    enqueueAll()
  })
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
      if (why === 'deposed') input.door.shut(error)
      cancelTick()
      cancelSparing()
      watch.stop()
      resync.stop()
      prepare.stop()
      queue.stop()
      show.stop()
      stopTelling()
      room.dismiss(error)
      drains.stop()
      if (why === 'closing') await settle()
      input.door.shut(error)
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
