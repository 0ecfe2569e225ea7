/**
 * Keeps the engine's view of instances in sync with the backend: applies events as they arrive, and the full list at start,
 * when events may have been lost, and at every resync. Destroys orphans unless a match may be running on them.
 */
import type { Instance, InstanceOrigin } from '../../contracts/backend.js'
import type { Versioned } from '../../contracts/store.js'
import type { GameState, Heartbeat, HeartbeatAnswer, HeartbeatHold } from '../../rules/game/heartbeat.js'
import { readSessionHostId } from '../../rules/model/names.js'
import type { Server } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { InstanceObserver } from './instance-observer.js'
import { InstanceResync } from './instance-resync.js'
import type { MaintenanceAnnouncements } from './maintenance-announcements.js'
import { Orphans } from './orphans.js'

export interface InstanceWatcherDependencies {
  /** Called when a server's instance exists and has not ended. */
  readonly starting: (entry: ServerEntry, phase: 'pending' | 'running') => void
  /** Called when a server's process is running, to start its heartbeat timeout. */
  readonly running: (entry: ServerEntry) => void
  readonly heartbeat: (sessionHostId: string, heartbeat: Heartbeat) => HeartbeatAnswer
  readonly holdHeartbeat: (sessionHostId: string, hold: HeartbeatHold) => (() => void) | undefined
  /** Called when a server stays Pending until someone fixes the cause. */
  readonly startBlocked: (entry: ServerEntry, reason: string) => void
  /** Adopts a record that an earlier leader wrote after this host read the store. */
  readonly adopt: (server: Versioned<Server>) => void
  /** Adds a server whose record is lost and whose game reports a match. Returns false if its build does not exist. */
  readonly recover: (instance: Instance, origin: InstanceOrigin) => boolean
  readonly maintenance: Pick<MaintenanceAnnouncements, 'report'>
}

export class InstanceWatcher {
  readonly #ctx: EngineContext
  readonly #deps: InstanceWatcherDependencies
  readonly #observer: InstanceObserver
  readonly #orphans: Orphans
  readonly #resync: InstanceResync
  #unwatch = () => {}
  #stopped = false

  constructor(ctx: EngineContext, deps: InstanceWatcherDependencies) {
    this.#ctx = ctx
    this.#deps = deps
    this.#observer = new InstanceObserver(ctx, { ...deps, orphan: (instance) => this.#orphans.observe(instance) })
    this.#orphans = new Orphans(ctx, { ...deps, observe: (instance) => this.#observer.observe(instance) })
    this.#resync = new InstanceResync(ctx, { observer: this.#observer, orphans: this.#orphans })
  }

  /** Watches the backend and reads its first list. Rejects if the list cannot be read. */
  start(): Promise<void> {
    this.#unwatch = this.#ctx.backend.watch({
      changed: (instance) => {
        if (!this.#stopped) this.#observer.observe(instance)
      },
      gone: (ref, uid) => {
        if (this.#stopped) return
        this.#orphans.forget(ref, uid)
        this.#observer.observeGone(ref, uid)
      },
      resync: () => this.#resync.request(),
      maintenance: (nodes) => {
        if (!this.#stopped) this.#deps.maintenance.report(nodes)
      },
      heartbeat: this.#deps.heartbeat,
      holdHeartbeat: this.#deps.holdHeartbeat,
    })
    return this.#resync.start()
  }

  stop(): void {
    this.#stopped = true
    this.#resync.stop()
    this.#orphans.stop()
    this.#unwatch()
  }

  /** Applies the current state of an instance. */
  observe(instance: Instance): void {
    this.#observer.observe(instance)
  }

  /**
   * Decides the answer to a heartbeat whose id belongs to no server. `gameState` is the state that the game reports. The answer does
   * not reveal whether a server with this name exists, unless its token is lost: that must not end its match.
   */
  unknownHeartbeat(hostId: string, gameState: GameState): 'Continue' | 'Terminate' {
    const name = readSessionHostId(hostId)?.name
    if (gameState !== 'Active' || name === undefined) return 'Terminate'
    if (this.#orphans.keepActive(name, hostId)) return 'Continue'
    return this.#ctx.inventory.isActiveWithoutToken(name) ? 'Continue' : 'Terminate'
  }

  /** Destroys orphans without a match. Called once a second. */
  destroyOrphans(): void {
    this.#orphans.destroyIdle()
  }

  /**
   * Call after the host was unresponsive. Orphans get their full timeout again, because the host may have missed heartbeats.
   */
  restartTimers(): void {
    this.#orphans.restartTimers()
  }
}
