/**
 * The game server as its own process sees it: state, session, players and termination. Never throws into the game's code and
 * never ends the process: errors in callbacks are caught, and heartbeats are retried while the agent is unreachable.
 */
import { systemClock } from '../contracts/clock.js'
import type { Logger } from '../contracts/logger.js'
import type { SessionConfig } from '../rules/game/heartbeat.js'
import type { ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import { type AgentClient, allocateSelf, type OwnSession, updateData } from './agent-client.js'
import { type Answer, EndsInAnswer, readAnswer } from './heartbeat-answer.js'
import type { GameServerConfig } from './config.js'
import {
  healthCheck,
  type HealthReporter,
  type MaintenanceCallback,
  MaintenanceCallbacks,
  RunningSessions,
  type SessionCallback,
} from './callbacks.js'
import { deferred, HeartbeatLoop, intervalOf, KeepAlive, type SdkTiming } from './heartbeat-loop.js'
import type { Gsdk, SdkState } from './interface.js'
import type { Logs } from './game-logs.js'

interface GsdkDependencies {
  readonly config: GameServerConfig
  readonly logs: Logs
  readonly logger: Logger
  readonly timing: SdkTiming
  readonly client: AgentClient
  readonly handleSigterm: boolean
  readonly health?: () => boolean
}

/** Sent to the agent once. A test checks that the version equals the package's. */
export const introduction = Object.freeze({ Flavor: 'Node', Version: '0.1.0' })

/** Starts heartbeats. The returned object is frozen, and its functions are bound. */
export function createGsdk(deps: GsdkDependencies): Gsdk {
  const server = new GameServerSession(deps)
  return Object.freeze({
    config: deps.config,
    logs: deps.logs,
    get state() {
      return server.state
    },
    get session() {
      return server.session
    },
    get sessions() {
      return server.sessions.all
    },
    onSession: (fn: SessionCallback) => server.onSession(fn),
    readyForPlayers: () => server.readyForPlayers(),
    readyForNext: () => server.readyForNext(),
    updateConnectedPlayers: (ids: readonly string[]) => server.updateConnectedPlayers(ids),
    updateData: (change: ServerDataUpdate) => updateData(deps.client, change),
    allocateSelf: (request: OwnSession = {}) => server.allocateSelf(request),
    onTerminate: (fn: () => void | Promise<void>) => server.onTerminate(fn),
    onMaintenance: (fn: MaintenanceCallback) => server.maintenance.add(fn),
    stop: () => server.stop(),
  })
}

type TerminateCallback = () => void | Promise<void>

class GameServerSession {
  readonly #deps: GsdkDependencies
  readonly #reportHealth: HealthReporter
  readonly #heartbeats: HeartbeatLoop
  readonly #ready = deferred<SessionConfig>()
  readonly #endedSessions = new EndsInAnswer()
  /** Resolves with the session that the game waits for. */
  #next = this.#ready
  readonly #keepAlive = new KeepAlive()
  readonly #callbacks: TerminateCallback[] = []
  readonly maintenance: MaintenanceCallbacks
  readonly sessions: RunningSessions
  // Stays installed after the first signal: another may arrive while the game is shutting down.
  readonly #onSigterm = () => this.#terminate('received SIGTERM')
  #state: SdkState = 'Initializing'
  #session: SessionConfig | undefined
  #players: readonly string[] = []
  #intervalMs: number
  #introduced = false
  #stopped = false
  #lastWarning = ''

  constructor(deps: GsdkDependencies) {
    const { client, timing, logger, health } = deps
    this.#deps = deps
    this.#intervalMs = timing.heartbeatIntervalMs
    this.#reportHealth = healthCheck(health, logger)
    this.maintenance = new MaintenanceCallbacks(logger)
    this.sessions = new RunningSessions(logger, () => this.#sessionsChanged())
    this.#heartbeats = new HeartbeatLoop({
      send: (interrupted) => this.#heartbeat(interrupted),
      agent: client.name,
      timing,
      logger,
    })
    this.#heartbeats.start()
  }

  get state(): SdkState {
    return this.#state
  }

  get session(): SessionConfig | undefined {
    return this.#session
  }

  onSession(fn: SessionCallback): void {
    this.sessions.add(fn)
    this.#heartbeats.sendSoon(0)
  }

  readyForPlayers(): Promise<SessionConfig> {
    if (this.#state === 'Initializing' && !this.#stopped) {
      this.#enter('StandingBy')
      this.#keepAlive.start()
    }
    return this.#ready.promise
  }

  readyForNext(): Promise<SessionConfig> {
    if (this.#session === undefined || this.sessions.areTaken) {
      void this.readyForPlayers()
      return this.#next.promise
    }
    if (this.#stopped || this.#state === 'Terminating') return new Promise(() => {})
    this.#endedSessions.add(this.#session.sessionId)
    this.#session = undefined
    this.#players = []
    this.#next = deferred()
    this.#enter('StandingBy')
    this.#keepAlive.start()
    return this.#next.promise
  }

  async allocateSelf(request: OwnSession): Promise<SessionConfig> {
    void this.readyForPlayers()
    const { last } = this.#endedSessions
    await allocateSelf(this.#deps.client, { ...request, ...(last && { endedSession: last }) })
    // The answer to the next heartbeat has the session.
    if (this.#session === undefined) this.#heartbeats.sendSoon(0)
    return this.#next.promise
  }

  updateConnectedPlayers(ids: readonly string[]): void {
    const next = ids.map(String)
    if (next.length === this.#players.length && next.every((id, i) => id === this.#players[i])) return
    this.#players = next
    this.#heartbeats.sendSoon(this.#deps.timing.playersGapMs)
  }

  onTerminate(fn: TerminateCallback): void {
    if (this.#stopped) return
    if (this.#state === 'Terminating') void this.#guarded(fn)
    // Installed only with the first callback, so that a game without callbacks still ends on SIGTERM.
    else if (this.#callbacks.push(fn) === 1 && this.#deps.handleSigterm) process.on('SIGTERM', this.#onSigterm)
  }

  stop(): void {
    this.#stopped = true
    this.#heartbeats.stop()
    this.#deps.client.close()
    this.#keepAlive.stop()
    process.off('SIGTERM', this.#onSigterm)
  }

  /** Sends one heartbeat and resolves with the time in ms until the next. */
  async #heartbeat(interrupted?: AbortSignal): Promise<number> {
    const reported = this.#state
    const body = {
      CurrentGameState: reported,
      CurrentGameHealth: this.#reportHealth(),
      CurrentPlayers: this.#players.map((id) => ({ PlayerId: id })),
      ...this.#endedSessions.report,
      ...this.sessions.report,
    }
    // While the game waits for its session, the agent may hold the answer until the next heartbeat is due.
    const isWaiting = reported === 'StandingBy' && interrupted !== undefined
    const sentAt = systemClock.elapsed()
    const text = await this.#deps.client.heartbeat(
      body,
      isWaiting ? { waitMs: this.#intervalMs, interrupted } : undefined,
    )
    if (this.#stopped) return 0
    const answer = readAnswer(text)
    this.#intervalMs = intervalOf(answer.nextHeartbeatIntervalMs, this.#deps.timing)
    if (answer.maintenanceAt !== undefined) this.maintenance.announced(answer.maintenanceAt)
    this.#handle(answer, reported)
    if (!this.#introduced) await this.#introduce()
    return isWaiting ? Math.max(0, this.#intervalMs - (systemClock.elapsed() - sentAt)) : this.#intervalMs
  }

  /** Sent after the first answer, so that the introduction is not lost if the agent is unreachable at start-up. */
  async #introduce(): Promise<void> {
    this.#introduced = true
    try {
      await this.#deps.client.introduce(introduction)
    } catch (err) {
      this.#deps.logger.debug({ err }, 'the agent rejected the SDK introduction; this has no effect')
    }
  }

  /** `reported` is the state that the heartbeat reported; the current state may have changed since. */
  #handle({ endedSessions, operation, session, sessions }: Answer, reported: SdkState): void {
    if (this.sessions.areTaken && reported !== 'Initializing' && operation !== 'Terminate') {
      // An agent that knows nothing of several sessions gives one.
      const only = operation === 'Active' && session ? [{ ...session, number: 1 }] : undefined
      const listed = sessions ?? only
      if (listed) this.sessions.listed(listed)
      return
    }
    switch (operation) {
      case 'Continue':
        return
      case 'Active':
        if (reported === 'Initializing') this.#warnOnce('the agent answered Active before readyForPlayers()')
        else if (session === undefined) this.#warnOnce('the agent answered Active without a session')
        // The answer may have been sent before the fleet knew that the session has ended.
        else if (this.#endedSessions.include(session.sessionId, endedSessions)) return
        else if (this.#state === 'StandingBy') this.#activate(session)
        return
      case 'Terminate':
        this.#terminate('the fleet is terminating this server')
        return
      default:
        this.#warnOnce(`the agent answered with an unknown operation: ${operation}`)
    }
  }

  #warnOnce(message: string): void {
    if (message !== this.#lastWarning) this.#deps.logger.warn({}, `${message}; ignored`)
    this.#lastWarning = message
  }

  #enter(next: SdkState): void {
    this.#state = next
    this.#heartbeats.sendSoon(0)
  }

  /** Follows the sessions of a game that takes several: Active while there are any. */
  #sessionsChanged(): void {
    const [first] = this.sessions.all
    this.#session = first
    if (this.#stopped || this.#state === 'Terminating') return
    if (first && this.#state === 'StandingBy') return this.#activate(first)
    this.#enter(first ? 'Active' : 'StandingBy')
    if (!first) this.#keepAlive.start()
  }

  #activate(session: SessionConfig): void {
    this.#session = session
    this.#enter('Active')
    this.#keepAlive.stop()
    this.#next.resolve(session)
  }

  #terminate(reason: string): void {
    if (this.#state === 'Terminating') return
    this.#enter('Terminating')
    this.#keepAlive.stop()
    const { logger } = this.#deps
    if (this.#callbacks.length === 0) logger.warn({}, `${reason}, but no onTerminate callback is registered`)
    else logger.info({}, reason)
    for (const callback of this.#callbacks) void this.#guarded(callback)
  }

  async #guarded(callback: TerminateCallback): Promise<void> {
    try {
      await callback()
    } catch (err) {
      this.#deps.logger.error({ err }, 'an onTerminate callback failed')
    }
  }
}
