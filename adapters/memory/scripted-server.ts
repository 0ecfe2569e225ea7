/**
 * One server of the memory backend: an instance that changes phases and runs a scripted game. Uses only the given clock's
 * timers.
 */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import type {
  GameState,
  Heartbeat,
  HeartbeatAnswer,
  NumberedSessionConfig,
  SessionConfig,
} from '../../src/rules/game/heartbeat.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { gameContainerOf } from '../../src/rules/validation/pod-template.js'
import { noStdin } from '../shared/backend-lifecycle.js'
import type { Placement } from './nodes.js'
import type { ResolvedServerScript } from './options.js'
import { nothing, ScriptedGame, type ScriptedGameDependencies } from './scripted-game.js'

/** Shared by all servers. */
export interface ScriptedServerDependencies extends ScriptedGameDependencies {
  /** Called when the server is gone. */
  readonly onGone: (server: ScriptedServer) => void
}

export class ScriptedServer implements MemoryServer {
  readonly spec: InstanceSpec
  readonly #placement: Placement
  readonly #deps: ScriptedServerDependencies
  readonly #script: ResolvedServerScript
  readonly #game: ScriptedGame
  #phase: MemoryServer['phase'] = 'pending'
  #stdin: readonly string[] | undefined
  #instance: Instance
  #cancelStart = nothing
  #cancelExit = nothing
  #cancelKill = nothing
  /** Set by the first `destroy` call and shared by later calls, which may bring the deadline forward. */
  #destroyed: { readonly promise: Promise<void>; readonly resolve: () => void; deadlineMs: number } | undefined

  constructor(spec: InstanceSpec, placement: Placement, deps: ScriptedServerDependencies) {
    this.spec = spec
    this.#placement = placement
    this.#deps = deps
    this.#script = deps.options.scriptOf(spec)
    this.#instance = this.#snapshot('pending', { reason: this.#script.pendingReason ?? 'starting' })
    this.#game = new ScriptedGame(this, this.#script, deps)
  }

  get ref(): Ref {
    return this.#instance.ref
  }

  get instance(): Instance {
    return this.#instance
  }

  get phase(): MemoryServer['phase'] {
    return this.#phase
  }

  get state(): GameState {
    return this.#game.state
  }

  get health(): Heartbeat['health'] {
    return this.#game.health
  }

  get connected(): readonly string[] {
    return this.#game.players
  }

  get isSignalled(): boolean {
    return this.#destroyed !== undefined
  }

  get session(): SessionConfig | undefined {
    return this.#game.session
  }

  get sessions(): readonly NumberedSessionConfig[] {
    return this.#game.sessions
  }

  get answer(): HeartbeatAnswer | undefined {
    return this.#game.answer
  }

  get stdin(): readonly string[] {
    return this.#stdin ?? []
  }

  /** Throws `no-stdin`. */
  writeStdin(line: string): void {
    if (!gameContainerOf(this.spec.template).stdin) throw noStdin(this.ref, 'closed')
    if (this.#phase !== 'running') throw noStdin(this.ref, 'ended')
    this.#stdin = [...this.stdin, line.slice(0, -1)]
  }

  get allocated(): Promise<SessionConfig> {
    return this.#game.allocated
  }

  ready(): HeartbeatAnswer {
    return this.heartbeat({ state: 'StandingBy' })
  }

  readyForNext(): HeartbeatAnswer {
    if (this.#phase !== 'running') throw this.#notRunning()
    return this.#game.readyForNext()
  }

  endSession(sessionID: string): HeartbeatAnswer {
    if (this.#phase !== 'running') throw this.#notRunning()
    return this.#game.endSession(sessionID)
  }

  heartbeat(change: Partial<Heartbeat> = {}): HeartbeatAnswer {
    if (this.#phase !== 'running') throw this.#notRunning()
    return this.#game.heartbeat(change)
  }

  players(players: readonly string[]): HeartbeatAnswer {
    return this.heartbeat({ players: [...players] })
  }

  unhealthy(): HeartbeatAnswer {
    return this.heartbeat({ health: 'Unhealthy' })
  }

  silence(): void {
    this.#game.silence()
  }

  exit(code = 0): void {
    if (this.#phase === 'exited' || this.#phase === 'gone') return
    this.#end({ exitCode: code })
  }

  vanish(): void {
    this.#remove()
  }

  /** Must be called once, by the backend. */
  start(): void {
    const { clock } = this.#deps.options
    const { startsAfterMs } = this.#script
    if (this.#script.cannotStart !== undefined) this.#end({ reason: this.#script.cannotStart })
    else if (startsAfterMs === 0) this.#run()
    else {
      this.#notifyChanged()
      if (clock && startsAfterMs < Infinity) this.#cancelStart = clock.after(startsAfterMs, () => this.#run())
    }
  }

  /** Call when a host starts listening. Without a clock the next heartbeat may be late, so the server sends one immediately. */
  onListenerAdded(): void {
    const { options, listeners } = this.#deps
    if (!options.clock && this.#script.autoReady) listeners.defer(() => this.#game.beat())
  }

  destroy(graceMs: number): Promise<void> {
    let resolve = () => {}
    const promise = new Promise<void>((done) => (resolve = done))
    this.#destroyed ??= { promise, resolve, deadlineMs: Infinity }
    const { clock } = this.#deps.options
    const deadlineMs = (clock?.elapsed() ?? 0) + graceMs
    if (this.#phase !== 'running' || !this.#script.ignoresTerminate || !clock || graceMs <= 0) {
      this.#remove()
    } else if (deadlineMs < this.#destroyed.deadlineMs) {
      this.#destroyed.deadlineMs = deadlineMs
      this.#game.cancelReady()
      this.#cancelKill()
      this.#cancelKill = clock.after(graceMs, () => this.#remove())
    }
    return this.#destroyed.promise
  }

  #run(): void {
    const { options, listeners } = this.#deps
    this.#phase = 'running'
    this.#instance = this.#snapshot('running')
    this.#notifyChanged()
    const { exitsWith, exitsAfterMs } = this.#script
    if (exitsWith !== undefined && exitsAfterMs === 0) {
      listeners.defer(() => this.exit(exitsWith))
      return
    }
    if (options.clock && exitsWith !== undefined) {
      this.#cancelExit = options.clock.after(exitsAfterMs, () => this.exit(exitsWith))
    }
    this.#game.start()
  }

  #end(exit: Pick<Instance, 'exitCode' | 'reason'>): void {
    if (this.#destroyed) return this.#remove()
    this.#instance = this.#snapshot('exited', exit)
    this.#stop('exited')
    this.#notifyChanged()
  }

  #remove(): void {
    if (this.#phase === 'gone') return
    this.#stop('gone')
    this.#placement.release()
    this.#deps.onGone(this)
    const { ref, uid } = this.#instance
    this.#deps.listeners.notifyAll((listener) => listener.gone(ref, uid))
    this.#destroyed?.resolve()
  }

  #stop(phase: 'exited' | 'gone'): void {
    this.#phase = phase
    this.#cancelStart()
    this.#cancelExit()
    this.#cancelKill()
    this.#game.stop(this.#notRunning())
  }

  #notifyChanged(): void {
    const instance = this.#instance
    this.#deps.listeners.notifyAll((listener) => listener.changed(instance))
  }

  #snapshot(phase: Instance['phase'], exit: Pick<Instance, 'exitCode' | 'reason'> = {}): Instance {
    const { spec } = this
    const { node, address, ports } = this.#placement
    return Object.freeze({
      ref: Object.freeze({ namespace: spec.ref.namespace, name: spec.ref.name }),
      uid: spec.uid,
      phase,
      ...exit,
      ...(phase !== 'pending' && { address }),
      node,
      ports,
    })
  }

  #notRunning(): FleetError {
    const { exitCode, reason = exitCode === undefined ? undefined : `exited with code ${exitCode}` } = this.#instance
    const ended = reason === undefined ? 'has ended' : `has ended: ${reason}`
    return new FleetError(
      'closed',
      `server ${keyOf(this.ref)} ${this.#phase === 'pending' ? 'has not started' : ended}`,
    )
  }
}

/** The interface with which a test controls one server of the memory backend: the test acts as the game. */
export interface MemoryServer {
  readonly ref: Ref
  /** The spec that the server was created with. */
  readonly spec: InstanceSpec
  /** The instance as returned by `list`; if the server is gone, its last known state. */
  readonly instance: Instance
  /** `gone` means that the server was destroyed or has vanished. */
  readonly phase: Instance['phase'] | 'gone'
  /** The game state sent in heartbeats: Initializing, then StandingBy, then Active once the fleet's answer requests it… */
  readonly state: GameState
  /** The health sent in heartbeats. Initially Healthy. */
  readonly health: Heartbeat['health']
  /** The connected players sent in heartbeats. */
  readonly connected: readonly string[]
  /** Whether the server has received its termination signal. */
  readonly isSignalled: boolean
  /** The sessions that run on a server whose script says `takesSeveral`, in the order in which it has received them. */
  readonly sessions: readonly NumberedSessionConfig[]
  /**
   * Ends one of them, and sends a heartbeat that says so. Throws `not-found` if the server does not run it.
   */
  endSession(sessionID: string): HeartbeatAnswer
  /** The lines that were sent to the standard input of the server, without their line breaks. Its template must have `stdin: true`. */
  readonly stdin: readonly string[]
  /** The session that the server has received; of several, the first. */
  readonly session: SessionConfig | undefined
  /** The fleet's answer to the last heartbeat. */
  readonly answer: HeartbeatAnswer | undefined
  /** Resolves with the server's session; rejects with `closed` if the server ends without receiving one. */
  readonly allocated: Promise<SessionConfig>
  /** Sends a heartbeat with the state StandingBy, which means ready for players. */
  ready(): HeartbeatAnswer
  /**
   * Ends the server's session, if it has one, and sends a heartbeat with the state StandingBy and no players: the game is ready for the
   * next match, like `readyForNext()` of the SDK. From then on, `allocated` is the next session.
   */
  readyForNext(): HeartbeatAnswer
  /**
   * Sends a heartbeat now and, if the backend has a clock, at regular intervals from now on. Later heartbeats keep the
   * changes. Throws `closed` if the server is not running and `unavailable` if no fleet is listening.
   */
  heartbeat(change?: Partial<Heartbeat>): HeartbeatAnswer
  /** Sends a heartbeat with these connected players. */
  players(players: readonly string[]): HeartbeatAnswer
  /** Sends a heartbeat with the health Unhealthy. */
  unhealthy(): HeartbeatAnswer
  /** Simulates a hang: the server keeps running but sends no heartbeats until the test sends one. */
  silence(): void
  /** Makes the server's process exit with this code. Default 0. */
  exit(code?: number): void
  /** Makes the server disappear without an exit, as if its machine were lost. */
  vanish(): void
}
