/**
 * The game on a server of the memory backend. Keeps the state that a real SDK keeps, and sends heartbeats to the listener.
 */
import type { BackendListener, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import type {
  EndedSession,
  GameState,
  Heartbeat,
  HeartbeatAnswer,
  NumberedSessionConfig,
  SessionConfig,
} from '../../src/rules/game/heartbeat.js'
import { keyOf } from '../../src/rules/model/resources.js'
import { afterAnswer, afterOwnEnd, noOwnSessions, reportOf } from '../../src/rules/game/own-sessions.js'
import { callSafely, type DeferredListeners } from './deferred-listeners.js'
import type { ResolvedMemoryOptions, ResolvedServerScript } from './options.js'

/** The server on which the game runs. */
interface GameHost {
  readonly spec: InstanceSpec
  readonly phase: 'pending' | 'running' | 'exited' | 'gone'
  exit(code: number): void
}

/** Shared by all games. */
export interface ScriptedGameDependencies {
  readonly options: ResolvedMemoryOptions
  readonly listeners: DeferredListeners
}

/** Shared by all games that wait for nothing. */
export const nothing: () => void = () => {}

export class ScriptedGame {
  readonly #host: GameHost
  readonly #script: ResolvedServerScript
  readonly #deps: ScriptedGameDependencies
  #state: GameState = 'Initializing'
  #health: Heartbeat['health'] = 'Healthy'
  #players: readonly string[] = []
  #answer: HeartbeatAnswer | undefined
  #session: SessionConfig | undefined
  #allocated: Deferred<SessionConfig> | undefined
  #ended: EndedSession | undefined
  /** Its sessions, if it takes several. */
  #own = noOwnSessions
  /** True from the first heartbeat until the game is silenced. */
  #isSending = false
  #cancelBeat = nothing
  #cancelReady = nothing
  #cancelHold = nothing
  /** Why the game is no longer running. */
  #end: FleetError | undefined

  constructor(host: GameHost, script: ResolvedServerScript, deps: ScriptedGameDependencies) {
    this.#host = host
    this.#script = script
    this.#deps = deps
  }

  get state(): GameState {
    this.#pollSession()
    return this.#state
  }

  get health(): Heartbeat['health'] {
    return this.#health
  }

  get players(): readonly string[] {
    return this.#players
  }

  get sessions(): readonly NumberedSessionConfig[] {
    this.#pollSession()
    return this.#own.running
  }

  get answer(): HeartbeatAnswer | undefined {
    return this.#answer
  }

  get session(): SessionConfig | undefined {
    this.#pollSession()
    return this.#session
  }

  get allocated(): Promise<SessionConfig> {
    this.#pollSession()
    this.#allocated ??= deferred()
    if (this.#session) this.#allocated.resolve(this.#session)
    else if (this.#end) this.#allocated.reject(this.#end)
    return this.#allocated.promise
  }

  start(): void {
    const { options, listeners } = this.#deps
    if (!this.#script.autoReady) return
    this.#isSending = true
    if (options.readyAfterMs === 0) this.#state = 'StandingBy'
    else if (options.clock) this.#cancelReady = options.clock.after(options.readyAfterMs, () => this.#becomeReady())
    listeners.defer(() => this.beat())
  }

  /** Sends a heartbeat at the test's request. */
  heartbeat(change: Partial<Heartbeat>): HeartbeatAnswer {
    const listener = this.#deps.listeners.current
    if (!listener) {
      const server = keyOf(this.#host.spec.ref)
      throw new FleetError('unavailable', `no fleet runs on this backend to receive the heartbeat of server ${server}`)
    }
    this.#state = change.state ?? this.#state
    this.#health = change.health ?? this.#health
    this.#players = change.players ?? this.#players
    this.#ended = change.endedSession ?? this.#ended
    this.#isSending = true
    this.#cancelHold()
    const answer = listener.heartbeat(this.#host.spec.sdk.sessionHostId, this.#current())
    this.#handle(answer)
    this.#scheduleBeat()
    return answer
  }

  /** Ends the present session, if there is one, and reports that the game is ready for the next one. */
  readyForNext(): HeartbeatAnswer {
    const session = this.session
    if (session) {
      this.#ended = { sessionID: session.sessionId, number: (this.#ended?.number ?? 0) + 1 }
      this.#session = undefined
      this.#allocated = undefined
      this.#players = []
    }
    const answer = this.heartbeat({ state: 'StandingBy' })
    if (!this.#deps.options.clock) this.#deps.listeners.defer(() => this.beat())
    return answer
  }

  /** Ends one of several sessions, and reports it. */
  endSession(sessionID: string): HeartbeatAnswer {
    const session = this.sessions.find(({ sessionId }) => sessionId === sessionID)
    if (!session) {
      throw new FleetError('not-found', `server ${keyOf(this.#host.spec.ref)} does not run the session ${sessionID}`)
    }
    this.#own = afterOwnEnd(this.#own, session.number)
    this.#session = this.#own.running[0]
    return this.heartbeat({ state: this.#session ? 'Active' : 'StandingBy' })
  }

  /** Sends a heartbeat on the game's own initiative. */
  beat(): void {
    if (this.#host.phase !== 'running' || !this.#isSending) return
    const listener = this.#deps.listeners.current
    this.#cancelHold()
    if (listener) {
      callSafely(() => this.#handle(listener.heartbeat(this.#host.spec.sdk.sessionHostId, this.#current())))
      this.#awaitSession(listener)
    }
    this.#scheduleBeat()
  }

  silence(): void {
    this.#isSending = false
    this.#cancelBeat()
    this.#cancelHold()
  }

  /** Cancels the pending change to StandingBy, so that the game remains in its current state. */
  cancelReady(): void {
    this.#cancelReady()
  }

  stop(end: FleetError): void {
    this.#end = end
    this.#cancelBeat()
    this.#cancelHold()
    this.#cancelReady()
    if (!this.#session) this.#allocated?.reject(end)
  }

  #becomeReady(): void {
    if (this.#state !== 'Initializing') return
    this.#state = 'StandingBy'
    this.beat()
  }

  #scheduleBeat(): void {
    const { options } = this.#deps
    this.#cancelBeat()
    if (options.heartbeatIntervalMs === 0 || this.#host.phase !== 'running') return
    const ms = options.heartbeatIntervalMs ?? this.#answer?.nextHeartbeatIntervalMs ?? 1000
    this.#cancelBeat = options.heartbeatClock.after(ms, () => this.beat())
  }

  /** Without a clock the next heartbeat may be late, so the fleet holds the answer until it has a session for the server. */
  #awaitSession(listener: BackendListener): void {
    const { sessionHostId } = this.#host.spec.sdk
    if (this.#deps.options.clock || !this.#script.autoReady || this.#state !== 'StandingBy') return
    const answer = (later: HeartbeatAnswer) => this.#handle(later)
    callSafely(() => {
      this.#cancelHold = listener.parkHeartbeat?.(sessionHostId, { waitMs: Infinity, answer }) ?? nothing
    })
  }

  #current(): Heartbeat {
    const [state, health, players] = [this.#state, this.#health, this.#players]
    const several = this.#script.takesSeveral && { several: reportOf(this.#own) }
    const ended = several || (this.#ended && { endedSession: this.#ended })
    return health === undefined ? { state, players, ...ended } : { state, health, players, ...ended }
  }

  /** Handles the fleet's answer as a real SDK does. */
  #handle(answer: HeartbeatAnswer): void {
    const { listeners } = this.#deps
    const script = this.#script
    this.#answer = answer
    // The fleet may not know yet that the session has ended.
    if (this.#hasEnded(answer)) return
    if (script.takesSeveral) this.#takeSessions(answer)
    else if (answer.sessionConfig) {
      this.#session = answer.sessionConfig
      this.#allocated?.resolve(answer.sessionConfig)
    }
    const isToldNothing = script.takesSeveral && !this.#session
    if (answer.operation === 'Active' && this.#state === 'StandingBy' && !isToldNothing) {
      this.#state = 'Active'
      if (script.autoReady) listeners.defer(() => this.beat())
    }
    if (answer.operation === 'Terminate' && !script.ignoresTerminate && this.#state !== 'Terminating') {
      this.#state = 'Terminating'
      listeners.defer(() => {
        this.beat()
        this.#host.exit(0)
      })
    }
  }

  #takeSessions({ sessions }: HeartbeatAnswer): void {
    if (!sessions) return
    this.#own = afterAnswer(this.#own, sessions).own
    const [first] = this.#own.running
    this.#session = first
    if (first) this.#allocated?.resolve(first)
  }

  #hasEnded({ endedSessions = 0, operation, sessionConfig }: HeartbeatAnswer): boolean {
    if (operation === 'Terminate' || !this.#ended) return false
    return sessionConfig?.sessionId === this.#ended.sessionID && endedSessions < this.#ended.number
  }

  /** Without a clock the next heartbeat may be late, so an idle server also receives its session when a test reads it. */
  #pollSession(): void {
    if (!this.#deps.options.clock && this.#script.autoReady && this.#state === 'StandingBy') this.beat()
  }
}

interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: FleetError) => void
}

function deferred<T>(): Deferred<T> {
  let resolve: Deferred<T>['resolve'] = () => {}
  let reject: Deferred<T>['reject'] = () => {}
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  // A test that reads `allocated` without awaiting it must not fail because of an unhandled rejection.
  promise.catch(() => {})
  return { promise, resolve, reject }
}
