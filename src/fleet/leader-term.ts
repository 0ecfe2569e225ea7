/**
 * Runs an engine while this host leads, and rejects calls while it does not. Handles changes of leadership one at a time.
 */
import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import { FleetError, messageOf } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { Logger } from '../contracts/logger.js'
import type { ResolvedOptions } from '../contracts/options.js'
import type { Prober } from '../contracts/prober.js'
import type { AskWebhook } from '../contracts/scaling-demand.js'
import type { Store } from '../contracts/store.js'
import { type Engine, startEngine } from '../engine/engine.js'
import { LeadershipGuard } from '../engine/persistence/leadership-guard.js'
import { EndedSessions } from '../engine/ended-sessions.js'
import type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../rules/game/heartbeat.js'
import { afterFailure, noBackoff } from '../rules/lifecycle/backoff.js'
import { Observers } from '../util/observers.js'
import { Emitter } from './event-emitter.js'

interface LeaderTermDependencies {
  readonly resolved: ResolvedOptions
  readonly backend: Backend
  readonly store: Store
  /** `host:port` of the agent, or empty if the fleet has none. */
  readonly agentAddress: string
  readonly askWebhook: AskWebhook
  readonly prober: Prober
  /** Whether another host is there to take over. */
  readonly hasPeer: () => boolean
}

export class LeaderTerm {
  readonly emitter: FleetEmitter
  readonly observers: Observers
  readonly endedSessions: EndedSessions
  /** Resolves once the first engine runs or another host leads. Rejects if the first engine cannot start. */
  readonly begun: Promise<void>
  readonly #deps: LeaderTermDependencies
  /** The answer to heartbeats while this host runs no engine. */
  readonly #elsewhereAnswer: HeartbeatAnswer
  readonly #resign: () => Promise<void>
  readonly #obstacle: Obstacle
  readonly #earlyPlayers = new EarlyPlayers()
  #resolveBegun = () => {}
  #rejectBegun: (error: unknown) => void = () => {}
  #heartbeats = 0
  #engine: Engine | undefined
  #guard: LeadershipGuard | undefined
  #leader: string | undefined
  #isElected = false
  /** Number of times that this host has lost leadership. */
  #losses = 0
  #isClosed = false
  /** Why the engine could not be started, until it is or another host leads. */
  #startProblem: string | undefined
  /** Back-off after consecutive failed starts of the engine. */
  #backoff = noBackoff
  #cancelRetry = () => {}
  /** Serializes changes of leadership. */
  #changes = Promise.resolve()

  constructor(deps: LeaderTermDependencies) {
    const { clock, elector, limits, logger } = deps.resolved
    this.#deps = deps
    this.emitter = new Emitter(logger, limits.eventLogSize)
    this.observers = new Observers(clock, logger)
    this.endedSessions = new EndedSessions(clock, limits.eventLogSize)
    this.#elsewhereAnswer = {
      operation: 'Continue',
      nextHeartbeatIntervalMs: limits.heartbeatIntervalMs,
      isElsewhere: true,
    }
    this.#obstacle = new Obstacle(deps.resolved)
    this.begun = new Promise<void>((resolve, reject) => {
      this.#resolveBegun = resolve
      this.#rejectBegun = reject
    })
    const listener = {
      elected: () => this.#elected(),
      lost: (leader?: string) => this.#lost(leader),
      blocked: (cause: string | undefined) => this.#obstacle.set(cause),
    }
    const { forwarding } = deps.resolved
    this.#resign = elector.run(listener, forwarding && { address: forwarding.address })
  }

  /** Returns the engine while this host leads; otherwise throws `closed` or `not-leader`. */
  engine(): Engine {
    if (this.#isClosed) throw new FleetError('closed', 'the fleet is closed on this host')
    if (!this.#engine || !this.#isElected) throw this.#notLeader()
    return this.#engine
  }

  knowsServer(sessionHostId: string): boolean {
    return this.#engine?.knowsServer(sessionHostId) ?? false
  }

  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer {
    this.#heartbeats++
    if (this.#engine) return this.#engine.heartbeat(sessionHostId, heartbeat)
    this.#earlyPlayers.heard(sessionHostId, heartbeat)
    return this.#elsewhereAnswer
  }

  parkHeartbeat(sessionHostId: string, parked: ParkedHeartbeat): (() => void) | undefined {
    return this.#engine?.parkHeartbeat(sessionHostId, parked)
  }

  /** Number of heartbeats that this host has received. */
  get heartbeats(): number {
    return this.#heartbeats
  }

  leads(): boolean {
    return this.#isElected && this.#engine !== undefined && !this.#isClosed
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Why this host has not been able to lead for a minute, or undefined if it can. */
  cannotLeadReason(): string | undefined {
    return this.#isElected ? undefined : this.#obstacle.lasting
  }

  /** Why this host can neither lead nor find out who does at present, or undefined if it can. */
  get obstacle(): string | undefined {
    return this.#isElected ? this.#startProblem : this.#obstacle.cause
  }

  /** Why this host cannot allocate now, or undefined if it can. */
  notReadyReason(): string | undefined {
    if (this.#isClosed) return 'the fleet is closed on this host'
    if (!this.#engine || !this.#isElected) return this.#notLeader().message
    return this.#engine.isDraining() ? 'the fleet is draining' : undefined
  }

  /**
   * Stops the engine, which saves changes that are not yet durable. Unless another host is there to go on with them, signals the servers that are
   * terminating.
   */
  async stop(): Promise<void> {
    this.#isClosed = true
    this.#obstacle.stop()
    this.#cancelRetry()
    const error = new FleetError('closed', 'this host is closing; retry on another host, or here after its restart')
    this.endedSessions.rejectAll(error)
    this.#changes = this.#changes.then(() => this.#engine?.stop(error, this.#deps.hasPeer() ? 'relieved' : 'closing'))
    await this.#changes
    this.#engine = undefined
  }

  /** Gives up leadership. Call after the backend has closed, because until then it may still carry out the engine's calls. */
  resign(): Promise<void> {
    return this.#resign()
  }

  #elected(): void {
    this.#isElected = true
    this.#leader = undefined
    this.#queueStart()
  }

  #lost(leader: string | undefined): void {
    this.#isElected = false
    this.#startProblem = undefined
    this.#losses++
    this.#leader = leader
    // Close the guard immediately, even if the engine is still starting: this host may not write any more.
    this.#guard?.close(this.#notLeader())
    this.endedSessions.rejectAll(this.#notLeader())
    this.#changes = this.#changes.then(() => this.#stopEngine())
  }

  #queueStart(): void {
    this.#changes = this.#changes.then(() => this.#startEngine())
  }

  async #startEngine(): Promise<void> {
    if (this.#isClosed || this.#engine || !this.#isElected) return
    const { agentAddress, askWebhook, backend, prober, resolved, store } = this.#deps
    const { clock, logger } = resolved
    const { emitter, endedSessions, observers } = this
    const losses = this.#losses
    try {
      const guard = new LeadershipGuard(store, backend, resolved, observers)
      this.#guard = guard
      const reports = { emitter, endedSessions, observers }
      this.#engine = await startEngine({ guard, options: resolved, ...reports, agentAddress, askWebhook, prober })
      for (const id of this.#earlyPlayers.take()) this.#engine.playersHaveCome(id)
      this.#resolveBegun()
      emitter.emit({ type: 'LeadershipChanged', at: clock.now(), leads: true, message: 'this host leads the fleet' })
      this.#backoff = noBackoff
      this.#startProblem = undefined
    } catch (error) {
      // This host was deposed during the start. `#stopEngine` settles `begun`, and if this host leads again, another start is queued.
      if (losses !== this.#losses) return
      this.#guard?.close(new FleetError('unavailable', 'the engine could not be started', { cause: error }))
      logger.error({ err: error }, 'engine start failed')
      this.#startProblem = messageOf(error)
      this.#rejectBegun(error)
      this.#retryStart()
    }
  }

  /**
   * After the first failure `createFleet` rejects and closes this term. After a later failure this host keeps leadership and
   * retries.
   */
  #retryStart(): void {
    const { clock, limits } = this.#deps.resolved
    const { backoffInitialMs: initialMs, backoffMaxMs: maxMs, backoffResetMs: resetMs } = limits
    this.#backoff = afterFailure(this.#backoff, clock.elapsed(), { initialMs, maxMs, resetMs })
    this.#cancelRetry = clock.after(this.#backoff.until - clock.elapsed(), () => this.#queueStart())
  }

  async #stopEngine(): Promise<void> {
    this.#cancelRetry()
    const ending = this.#engine
    this.#engine = undefined
    if (!this.#isElected) this.#resolveBegun()
    if (!ending) return
    const error = this.#notLeader()
    const at = this.#deps.resolved.clock.now()
    this.emitter.emit({ type: 'LeadershipChanged', at, leads: false, message: error.message })
    await ending.stop(error, 'deposed')
  }

  #notLeader(): FleetError {
    const { cause } = this.#obstacle
    if (cause !== undefined) return new FleetError('not-leader', `this host cannot lead the fleet now: ${cause}`)
    const other = this.#leader === undefined ? '' : `; ${this.#leader} does`
    return new FleetError('not-leader', `this host does not lead the fleet${other}`)
  }
}

// Why this host can neither lead nor find out who does. It is reported once it has lasted for a minute.

const reportMs = 60_000

class Obstacle {
  readonly #clock: Clock
  readonly #logger: Logger
  #cause: string | undefined
  #hasLasted = false
  #cancel = () => {}
  #isStopped = false

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock
    this.#logger = logger
  }

  /** The present cause, or undefined if there is none. */
  get cause(): string | undefined {
    return this.#cause
  }

  /** The cause if it has lasted for a minute. */
  get lasting(): string | undefined {
    return this.#hasLasted ? this.#cause : undefined
  }

  set(cause: string | undefined): void {
    if (this.#isStopped) return
    const isNew = this.#cause === undefined
    this.#cause = cause
    if (cause === undefined) this.#clear()
    else if (isNew) this.#cancel = this.#clock.after(reportMs, () => this.#report())
  }

  stop(): void {
    this.#isStopped = true
    this.#cancel()
  }

  #clear(): void {
    this.#cancel()
    if (this.#hasLasted) this.#logger.info({}, 'this host can lead again')
    this.#hasLasted = false
  }

  #report(): void {
    this.#hasLasted = true
    this.#logger.error({ cause: this.#cause }, 'this host cannot lead')
  }
}

// Remembers which servers' games have reported players while this host ran no engine: it may have been elected and still be reading the
// store. Otherwise a session whose players came and left meanwhile would end as unclaimed.

/** Ids come from the network, so their number and length have limits. */
const maxServers = 20_000
const maxIdLength = 100

export class EarlyPlayers {
  #servers = new Set<string>()

  heard(sessionHostId: string, { players, state }: Heartbeat): void {
    if (state !== 'Active' || players.length === 0 || sessionHostId.length > maxIdLength) return
    // The last ones are kept: a host may hear games of others for days.
    this.#servers.delete(sessionHostId)
    this.#servers.add(sessionHostId)
    const [oldest] = this.#servers
    if (oldest !== undefined && this.#servers.size > maxServers) this.#servers.delete(oldest)
  }

  /** Returns the ids of these servers and forgets them. */
  take(): Iterable<string> {
    const servers = this.#servers
    this.#servers = new Set()
    return servers
  }
}
