/**
 * Keeps the engine's view of instances in sync with the backend: applies events as they arrive, and the full list at start,
 * when events may have been lost, and at every resync. Destroys orphans unless a match may be running on them.
 */
import type { Instance, InstanceOrigin } from '../../contracts/backend.js'
import { messageOf } from '../../contracts/errors.js'
import type { Versioned } from '../../contracts/store.js'
import type { GameState, Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../../rules/game/heartbeat.js'
import { afterFailure, noBackoff } from '../../rules/lifecycle/backoff.js'
import { readSessionHostId } from '../../rules/model/names.js'
import { keyOf, type Server } from '../../rules/model/resources.js'
import { withTimeout } from '../../util/with-timeout.js'
import { backoffLimits, type EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { InstanceObserver } from './instance-observer.js'
import type { MaintenanceAnnouncements } from './maintenance-announcements.js'
import { Orphans } from './orphans.js'

interface InstanceWatcherDependencies {
  /** Called when a server's instance exists and has not ended. */
  readonly starting: (entry: ServerEntry, phase: 'pending' | 'running') => void
  /** Called when a server's process is running, to start its heartbeat timeout. */
  readonly running: (entry: ServerEntry) => void
  readonly heartbeat: (sessionHostId: string, heartbeat: Heartbeat) => HeartbeatAnswer
  readonly parkHeartbeat: (sessionHostId: string, parked: ParkedHeartbeat) => (() => void) | undefined
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
      parkHeartbeat: this.#deps.parkHeartbeat,
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

interface InstanceResyncDependencies {
  readonly observer: InstanceObserver
  readonly orphans: Pick<Orphans, 'retain'>
}

/**
 * Reads the backend's full list of instances: at start, on request, and at every resync interval. While the backend fails, retries with a
 * back-off. Reports when the backend becomes unavailable and when it recovers.
 */
class InstanceResync {
  readonly #ctx: EngineContext
  readonly #observer: InstanceObserver
  readonly #orphans: Pick<Orphans, 'retain'>
  #listing: Promise<void> | undefined
  #isRequestedAgain = false
  /** Back-off after consecutive failures of the backend's `list`. */
  #backoff = noBackoff
  #cancelTimer = () => {}
  #stopped = false

  constructor(ctx: EngineContext, { observer, orphans }: InstanceResyncDependencies) {
    this.#ctx = ctx
    this.#observer = observer
    this.#orphans = orphans
  }

  /** Reads the first list. Rejects if that fails. */
  async start(): Promise<void> {
    await this.#list()
    this.#schedule(this.#ctx.limits.resyncIntervalMs)
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer()
  }

  /** Lists instances now. If a list is already in progress, lists once more after it. */
  request(): void {
    if (this.#stopped) return
    if (this.#listing) {
      this.#isRequestedAgain = true
      return
    }
    this.#cancelTimer()
    this.#listing = this.#list()
      .then(
        () => this.#succeeded(),
        (error: unknown) => this.#failed(error),
      )
      .finally(() => {
        this.#listing = undefined
        if (!this.#stopped) this.#scheduleNext()
      })
  }

  async #list(): Promise<void> {
    const { backend, clock, inventory, limits } = this.#ctx
    const startSeq = this.#observer.lastSeq
    // Determined before the call, because a server that starts during the call may be missing from the list.
    const expected = [...inventory.servers.values()].filter(mustHaveInstance)
    const instances = await withTimeout(clock, limits.callTimeoutMs, 'the list of instances', (signal) =>
      backend.list({ signal }),
    )
    if (this.#stopped) return
    const seen = new Set<string>()
    for (const instance of instances) {
      const key = keyOf(instance.ref)
      const entry = inventory.servers.get(key)
      if (entry?.record.uid === instance.uid) seen.add(key)
      // If the server has been observed since the call began, that observation is newer than the list.
      if (!entry || entry.observationSeq <= startSeq) this.#observer.observe(instance)
    }
    this.#orphans.retain(new Set(instances.map((instance) => instance.uid)))
    const isMissing = (entry: ServerEntry) => {
      const key = keyOf(entry.record)
      if (this.#stopped || seen.has(key) || inventory.servers.get(key) !== entry) return false
      return entry.observationSeq <= startSeq && mustHaveInstance(entry)
    }
    await Promise.all(expected.filter(isMissing).map((entry) => this.#confirmMissing(entry, isMissing)))
  }

  /** Looks up a server that is missing from the list. If the lookup fails, nothing changes until the next list. */
  async #confirmMissing(entry: ServerEntry, isMissing: (entry: ServerEntry) => boolean): Promise<void> {
    const { backend, clock, limits, logger } = this.#ctx
    const { uid, name, ports = [] } = entry.record
    const recorded = { ref: entry.ref, uid, ports }
    let found: Instance | undefined
    try {
      if (backend.find) {
        found = await withTimeout(clock, limits.callTimeoutMs, `the lookup of ${name}`, async (signal) =>
          backend.find?.(recorded, { signal }),
        )
      }
    } catch (error) {
      logger.debug({ server: keyOf(entry.record), err: error }, 'instance lookup failed; will retry at the next resync')
      return
    }
    if (!isMissing(entry)) return
    if (found) this.#observer.observe(found)
    else this.#observer.observeMissing(entry)
  }

  #scheduleNext(): void {
    const { clock, limits } = this.#ctx
    const hasFailed = this.#backoff.failures > 0
    const delayMs = hasFailed ? this.#backoff.until - clock.elapsed() : limits.resyncIntervalMs
    if (this.#isRequestedAgain && !hasFailed) {
      this.#isRequestedAgain = false
      this.request()
    } else this.#schedule(Math.max(0, delayMs))
  }

  /** Schedules the next list and cancels the previous timer, because a leftover timer would keep the host process alive. */
  #schedule(ms: number): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#stopped ? () => {} : this.#ctx.clock.after(ms, () => this.request())
  }

  #succeeded(): void {
    if (this.#backoff.failures === 0) return
    const { backend, clock, emitter, logger } = this.#ctx
    this.#backoff = noBackoff
    logger.info({ backend: backend.name }, 'backend recovered')
    emitter.emit({ type: 'BackendRecovered', at: clock.now(), message: `the ${backend.name} backend recovered` })
  }

  #failed(error: unknown): void {
    const { backend, clock, emitter, logger } = this.#ctx
    if (this.#backoff.failures === 0) {
      logger.warn({ backend: backend.name, err: error }, 'backend unavailable; will retry')
      const message = `the ${backend.name} backend is unavailable: ${messageOf(error)}`
      emitter.emit({ type: 'BackendUnavailable', at: clock.now(), message })
    }
    this.#backoff = afterFailure(this.#backoff, clock.elapsed(), backoffLimits(this.#ctx))
  }
}

/** True if, as far as this host knows, the server has run and has not been destroyed yet. */
function mustHaveInstance(entry: ServerEntry): boolean {
  return entry.instance !== undefined || (entry.record.state !== 'Pending' && entry.record.state !== 'Terminating')
}
