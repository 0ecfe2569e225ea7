/** Runs the fleet for one leadership term: reads the store, adopts running instances, and reconciles until stopped. */
import type { FleetError } from '../contracts/errors.js'
import type { DrainOptions, DrainResult } from '../contracts/options.js'
import type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../rules/game/heartbeat.js'
import { transition } from '../rules/lifecycle/lifecycle.js'
import { sessionByKey } from '../rules/lifecycle/server-sessions.js'
import { keyOf } from '../rules/model/resources.js'
import { sessionKey } from '../rules/model/names.js'
import { drainingError, gameUnheardError } from './allocation/allocation-errors.js'
import type { Allocator } from './allocation/allocator.js'
import { Batches } from './allocation/batches.js'
import type { BuildOperations } from './builds/build-operations.js'
import type { ServerDataUpdates } from './instances/server-data.js'
import type { MaintenanceAnnouncements } from './instances/maintenance-announcements.js'
import type { Reservations } from './instances/reservations.js'
import { LostServer } from './persistence/server-writer.js'
import type { Activity } from './reporting/activity.js'
import type { DemandRecorder } from './reporting/demand-recorder.js'
import { Joins } from './seats/joins.js'
import type { Seats } from './seats/seats.js'
import { SelfAllocation } from './self-allocation.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import type { Inventory } from './state/inventory.js'
import { isBeingAllocated, isSaved, isUncertain, placeOf, serverCount, serversOf } from './state/queries.js'
import { type EngineDependencies, type EngineParts, type EngineState, wireEngine } from './wiring.js'

/** Starts an engine and resolves when it is running. Rejects if the store or the backend cannot be read. */
export function startEngine(deps: EngineDependencies): Promise<Engine> {
  return new Engine(deps).start()
}

export class Engine {
  readonly #deps: EngineDependencies
  readonly #state: EngineState = { loaded: false, draining: false, stopped: false, stopError: undefined }
  readonly #parts: EngineParts
  readonly inventory: Inventory
  readonly builds: BuildOperations
  readonly allocator: Allocator
  readonly batches: Pick<Batches, 'allocate'>
  readonly selfAllocation: SelfAllocation
  readonly maintenance: MaintenanceAnnouncements
  readonly activity: Pick<Activity, 'read'>
  readonly demand: Pick<DemandRecorder, 'read'>
  readonly serverData: ServerDataUpdates
  readonly reservations: Pick<Reservations, 'release' | 'reserve'>
  readonly seats: Pick<Seats, 'release' | 'reserve' | 'withFreeSeats'>
  readonly joins: Pick<Joins, 'join'>
  #stopForwarding = () => {}

  constructor(deps: EngineDependencies) {
    this.#deps = deps
    this.#parts = wireEngine(deps, this.#state)
    this.inventory = this.#parts.ctx.inventory
    this.builds = this.#parts.builds
    this.allocator = this.#parts.allocator
    this.batches = new Batches(this.#parts.ctx, {
      allocator: this.allocator,
      abandon: async (sessionID) => {
        const entry = this.inventory.serverBySession(sessionID)
        if (entry) await this.endSession(entry, sessionID, 'a batch that could not be completed')
      },
    })
    this.selfAllocation = new SelfAllocation(this.#parts.ctx, this.#parts)
    this.maintenance = this.#parts.maintenance
    this.activity = this.#parts.activity
    this.demand = this.#parts.demand
    this.serverData = this.#parts.serverData
    this.reservations = this.#parts.reservations
    this.seats = this.#parts.seats
    this.joins = new Joins(this.#parts.ctx, this.#parts)
  }

  /** Resolves with this engine once it is running. If the store or the backend cannot be read, stops everything and rejects. */
  async start(): Promise<this> {
    const { failoverGrace, loader, maintenance, resync, ticker, watcher } = this.#parts
    this.#forwardEvents()
    try {
      await loader.loadAll()
      maintenance.recover()
      failoverGrace.recordSurplus()
      await watcher.start()
    } catch (error) {
      this.#state.stopped = true
      watcher.stop()
      this.#parts.probedGames.stop()
      this.#parts.seats.stop()
      this.#parts.reservations.stop()
      this.#stopReconciling()
      throw error
    }
    this.#state.loaded = true
    resync.start()
    ticker.start()
    failoverGrace.start()
    this.#enqueueAll()
    return this
  }

  /**
   * Stops the engine. Servers keep running, and waiting callers are rejected with `error`. `closing`: first writes what is
   * not durable yet, and signals the servers that are terminating. `relieved`: signals none, because another host takes over and gives
   * them the rest of their grace period. `deposed`: does neither, because another host is the leader.
   */
  async stop(error: FleetError, why: 'closing' | 'relieved' | 'deposed'): Promise<void> {
    if (this.#state.stopped) return
    this.#state.stopped = true
    this.#state.stopError = error
    const { confirmations, drainer, failoverGrace, parkedHeartbeats, reservations, resync, seats } = this.#parts
    const { probedGames, terminator, ticker, waitQueue, watcher } = this.#parts
    if (why === 'deposed') this.#deps.guard.close(error)
    ticker.stop()
    failoverGrace.stop()
    watcher.stop()
    resync.stop()
    this.#stopReconciling()
    waitQueue.rejectAll(error)
    confirmations.rejectAll(error)
    probedGames.stop()
    parkedHeartbeats.stop()
    drainer.stop()
    seats.stop()
    reservations.stop()
    if (why !== 'deposed') await this.#flush()
    if (why === 'closing') terminator.signalAll()
    this.#deps.guard.close(error)
  }

  /** Returns how many callers are waiting for a server of this build. */
  waiting(build: BuildEntry): number {
    return this.#parts.waitQueue.waiting(build)
  }

  /** True while the whole fleet is draining. */
  isDraining(): boolean {
    return this.#state.draining
  }

  knowsServer(hostId: string): boolean {
    return this.inventory.serverByHostId(hostId) !== undefined
  }

  heartbeat(hostId: string, heartbeat: Heartbeat): HeartbeatAnswer {
    return this.#parts.heartbeat(hostId, heartbeat)
  }

  /** Call if a game has reported players before this engine ran. */
  playersHaveCome(hostId: string): void {
    const entry = this.inventory.serverByHostId(hostId)
    if (entry?.record.state === 'Active') entry.hadPlayers = true
  }

  parkHeartbeat(hostId: string, parked: ParkedHeartbeat): (() => void) | undefined {
    return this.#parts.parkedHeartbeats.park(hostId, parked)
  }

  /** Returns the server of a session, once it is known whether the session has it. */
  async serverWithSession(sessionID: string): Promise<ServerEntry | undefined> {
    const entry = this.inventory.serverBySession(sessionID)
    const key = sessionKey(sessionID)
    while (entry?.saving && placeOf(entry, key)) await entry.saving.catch(() => undefined)
    if (entry && isUncertain(entry)) await this.#parts.writer.resolveUncertain(entry).catch(ignoreLostServer)
    return this.inventory.serverBySession(sessionID)
  }

  /** Terminates a server at an operator's request. Resolves when the decision is durable. */
  async deleteServer(entry: ServerEntry): Promise<void> {
    await this.#end(entry, 'Deleted', 'deleted')
  }

  /**
   * Terminates the server of a session. A game that takes several is asked to end the session instead, so that the others go on. Resolves
   * when the decision is durable.
   */
  async endSession(entry: ServerEntry, sessionID: string, by: string): Promise<void> {
    const { ctx, writer } = this.#parts
    if (asksGame(entry, sessionID)) {
      const session = sessionByKey(entry.record, sessionKey(sessionID))
      const number = session?.number ?? 0
      this.inventory.update(entry, transition(entry.record, { type: 'sessionEnding', number }, ctx.clock.now()))
      await writer.save(entry).catch(ignoreLostServer)
      return
    }
    await this.#end(entry, 'SessionEnded', `session ${sessionID} was ended by ${by}`)
  }

  async #end(entry: ServerEntry, reason: 'Deleted' | 'SessionEnded', message: string): Promise<void> {
    const { ctx, writer } = this.#parts
    const event = { type: 'end' as const, reason, message }
    this.inventory.update(entry, transition(entry.record, event, ctx.clock.now()))
    await writer.save(entry).catch(ignoreLostServer)
  }

  /** Stops allocating, and drains every server. */
  drainFleet(options: DrainOptions): Promise<DrainResult> {
    const { drainer, waitQueue } = this.#parts
    this.#state.draining = true
    waitQueue.rejectAll(drainingError(undefined))
    this.#enqueueAll()
    const { everyBuild, servers } = this.inventory
    const entries = () => servers.values()
    const count = () => {
      let active = 0
      for (const { buckets } of everyBuild) active += buckets.active.size
      return { remaining: servers.size, active }
    }
    return drainer.drain({ what: 'the fleet', entries, count, isResumed: () => false }, options)
  }

  async drainBuild(build: BuildEntry, options: DrainOptions): Promise<DrainResult> {
    await this.builds.setDraining(build.record, true)
    const entries = () => serversOf(build)
    const count = () => ({ remaining: serverCount(build), active: build.buckets.active.size })
    const isResumed = () => !build.draining
    return this.#parts.drainer.drain({ what: `build ${build.record.name}`, entries, count, isResumed }, options)
  }

  drainServer(entry: ServerEntry, options: DrainOptions): Promise<DrainResult> {
    const entries = () => (this.inventory.servers.get(keyOf(entry.record)) === entry ? [entry] : [])
    const count = () => ({
      remaining: entries().length,
      active: entry.record.state === 'Active' ? entries().length : 0,
    })
    const what = `server ${entry.record.name}`
    entry.isLeaving = true
    this.inventory.placesChanged(entry)
    return this.#parts.drainer.drain({ what, entries, count, isResumed: () => false }, options)
  }

  /** Passes every event to the store, if the store displays events. */
  #forwardEvents(): void {
    const { display } = this.#parts.ctx.store
    if (display) this.#stopForwarding = this.#deps.emitter.on('*', (event) => display.event(event))
  }

  #enqueueAll(): void {
    for (const build of this.inventory.everyBuild) this.#parts.ctx.enqueue(build)
  }

  #stopReconciling(): void {
    const { policies, preparation, status, workQueue } = this.#parts
    policies.stop()
    preparation.stop()
    workQueue.stop()
    status.stop()
    this.#stopForwarding()
  }

  /**
   * Writes what is not durable yet, and removes what is being removed, so that the next host reports no end again. If that fails, logs the
   * error and continues to close.
   */
  async #flush(): Promise<void> {
    const { ctx, demand, details, writer } = this.#parts
    const servers = [...this.inventory.servers.values()]
    const unsaved = servers.filter((entry) => !isSaved(entry) && !isBeingAllocated(entry))
    const saves = unsaved.map((entry) =>
      writer.save(entry).catch((error: unknown) => {
        ctx.logger.warn({ server: entry.record.name, err: error }, 'server record not saved before close')
      }),
    )
    await Promise.all([...saves, ...servers.map(async (entry) => entry.removal?.catch(() => undefined))])
    await Promise.all([details.close(), demand.close()])
    await Promise.all([...this.inventory.servers.values()].map(async (entry) => entry.saving?.catch(() => undefined)))
  }
}

/** Throws `unavailable` if the game, which has not been heard yet, may have other sessions soon. */
function asksGame({ build, isShared, record, heartbeatLink }: ServerEntry, sessionID: string): boolean {
  if (record.sessions.length > 1) return true
  if (!build.candidates?.takesSeveral || record.state !== 'Active') return false
  if (heartbeatLink.set !== build.heartbeating) throw gameUnheardError(sessionID)
  return isShared
}

/** If the record has already been deleted, there is nothing to write. */
function ignoreLostServer(error: unknown): void {
  if (!(error instanceof LostServer)) throw error
}
