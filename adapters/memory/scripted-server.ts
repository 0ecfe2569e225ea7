/**
 * One server of the memory backend: an instance with its phases, and the game inside with the memory that a real SDK
 * has. Speaks through the listeners; waits through the given clock only.
 */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { GameState, Heartbeat, HeartbeatAnswer, SessionConfig } from '../../src/rules/game/heartbeat.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { type Listeners, unharmed } from './listeners.js'
import type { Place } from './machines.js'
import type { MemoryServer } from './memory-server.js'
import type { ResolvedMemoryOptions } from './options.js'

/** What a server needs of the backend that it lives in. */
export interface Surroundings {
  readonly options: ResolvedMemoryOptions
  readonly listeners: Listeners
  /** Takes it off the list. */
  forget(server: ScriptedServer): void
}

interface Deferred {
  readonly promise: Promise<SessionConfig>
  readonly resolve: (session: SessionConfig) => void
  readonly reject: (error: FleetError) => void
}

type Ended = Pick<Instance, 'exitCode' | 'reason'>

export class ScriptedServer implements MemoryServer {
  readonly spec: InstanceSpec
  readonly #place: Place
  readonly #around: Surroundings
  readonly #script: ReturnType<ResolvedMemoryOptions['scriptOf']>
  #phase: MemoryServer['phase'] = 'pending'
  #instance: Instance
  #state: GameState = 'Initializing'
  #health: Heartbeat['health'] = 'Healthy'
  #players: readonly string[] = []
  #answer: HeartbeatAnswer | undefined
  #session: SessionConfig | undefined
  #allocated: Deferred | undefined
  /** Has spoken and was not silenced: beats go on. */
  #speaking = false
  #stopBeat: () => void = () => {}
  #stopWaiting: () => void = () => {}
  #stopLife: () => void = () => {}
  /** Set by the first `destroy`; later ones wait with it, and hasten it when they have less patience. */
  #destroyed: { readonly promise: Promise<void>; readonly resolve: () => void; deadlineMs: number } | undefined

  constructor(spec: InstanceSpec, place: Place, around: Surroundings) {
    this.spec = spec
    this.#place = place
    this.#around = around
    this.#script = around.options.scriptOf(spec)
    this.#instance = this.#snapshot('pending', { reason: 'starting' })
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
    this.#look()
    return this.#state
  }

  get health(): Heartbeat['health'] {
    return this.#health
  }

  get connected(): readonly string[] {
    return this.#players
  }

  get session(): SessionConfig | undefined {
    this.#look()
    return this.#session
  }

  get answer(): HeartbeatAnswer | undefined {
    return this.#answer
  }

  get allocated(): Promise<SessionConfig> {
    this.#look()
    this.#allocated ??= deferred()
    if (this.#session) this.#allocated.resolve(this.#session)
    else if (this.#phase === 'exited' || this.#phase === 'gone') this.#allocated.reject(this.#notRunning())
    return this.#allocated.promise
  }

  ready(): HeartbeatAnswer {
    return this.heartbeat({ state: 'StandingBy' })
  }

  heartbeat(change: Partial<Heartbeat> = {}): HeartbeatAnswer {
    if (this.#phase !== 'running') throw this.#notRunning()
    const listener = this.#around.listeners.current()
    if (!listener) {
      throw new FleetError('unavailable', `server ${keyOf(this.ref)} speaks to nobody: no fleet runs on this backend`)
    }
    this.#state = change.state ?? this.#state
    this.#health = change.health ?? this.#health
    this.#players = change.players ?? this.#players
    this.#speaking = true
    const answer = listener.heartbeat(this.spec.sdk.sessionHostId, this.#beat())
    this.#take(answer)
    this.#beatAgain()
    return answer
  }

  players(players: readonly string[]): HeartbeatAnswer {
    return this.heartbeat({ players: [...players] })
  }

  unhealthy(): HeartbeatAnswer {
    return this.heartbeat({ health: 'Unhealthy' })
  }

  silence(): void {
    this.#speaking = false
    this.#stopBeat()
  }

  exit(code = 0): void {
    if (this.#phase === 'exited' || this.#phase === 'gone') return
    this.#end({ exitCode: code, reason: `exited with code ${code}` })
  }

  vanish(): void {
    if (this.#phase !== 'gone') this.#remove()
  }

  /** Called once, by the backend that made it. */
  start(): void {
    const { options } = this.#around
    if (this.#script.cannotStart !== undefined) this.#end({ reason: this.#script.cannotStart })
    else if (options.startLatencyMs === 0) this.#run()
    else {
      this.#changed()
      this.#after(options.startLatencyMs, () => this.#run())
    }
  }

  /** A host has come: servers that beat by themselves are heard within a beat, without a clock at once. */
  greet(): void {
    const { options, listeners } = this.#around
    if (!options.clock && this.#script.autoReady) listeners.later(() => this.#speak())
  }

  destroy(graceMs: number): Promise<void> {
    let resolve = () => {}
    const promise = new Promise<void>((done) => (resolve = done))
    this.#destroyed ??= { promise, resolve, deadlineMs: Infinity }
    const { clock } = this.#around.options
    const deadlineMs = (clock?.elapsed() ?? 0) + graceMs
    if (this.#phase !== 'running' || !this.#script.ignoresTerminate || !clock || graceMs <= 0) {
      this.#remove()
    } else if (deadlineMs < this.#destroyed.deadlineMs) {
      this.#destroyed.deadlineMs = deadlineMs
      this.#after(graceMs, () => this.#remove())
    }
    return this.#destroyed.promise
  }

  #run(): void {
    const { options, listeners } = this.#around
    this.#phase = 'running'
    this.#instance = this.#snapshot('running')
    this.#changed()
    const { exitsWith, exitsAfterMs, autoReady } = this.#script
    if (exitsWith !== undefined && exitsAfterMs === 0) {
      listeners.later(() => this.exit(exitsWith))
      return
    }
    if (options.clock && exitsWith !== undefined) {
      this.#stopLife = options.clock.after(exitsAfterMs, () => this.exit(exitsWith))
    }
    if (autoReady) {
      this.#speaking = true
      if (options.readyAfterMs > 0) this.#after(options.readyAfterMs, () => this.#becomeReady())
      else this.#state = 'StandingBy'
      listeners.later(() => this.#speak())
    }
  }

  #becomeReady(): void {
    if (this.#state !== 'Initializing') return
    this.#state = 'StandingBy'
    this.#speak()
  }

  /** A beat of its own accord. */
  #speak(): void {
    if (this.#phase !== 'running' || !this.#speaking) return
    const listener = this.#around.listeners.current()
    if (listener) unharmed(() => this.#take(listener.heartbeat(this.spec.sdk.sessionHostId, this.#beat())))
    this.#beatAgain()
  }

  #beatAgain(): void {
    this.#stopBeat()
    const { clock, heartbeatIntervalMs } = this.#around.options
    if (!clock || heartbeatIntervalMs === 0 || this.#phase !== 'running') return
    const ms = heartbeatIntervalMs ?? this.#answer?.nextHeartbeatIntervalMs ?? 1000
    this.#stopBeat = clock.after(ms, () => this.#speak())
  }

  #beat(): Heartbeat {
    const { state, health, players } = { state: this.#state, health: this.#health, players: this.#players }
    return health === undefined ? { state, players } : { state, health, players }
  }

  /** Does what an SDK does with an answer. */
  #take(answer: HeartbeatAnswer): void {
    this.#answer = answer
    if (answer.sessionConfig) {
      this.#session = answer.sessionConfig
      this.#allocated?.resolve(answer.sessionConfig)
    }
    const { listeners } = this.#around
    if (answer.operation === 'Active' && this.#state === 'StandingBy') {
      this.#state = 'Active'
      if (this.#script.autoReady) listeners.later(() => this.#speak())
    }
    if (answer.operation === 'Terminate' && !this.#script.ignoresTerminate && this.#state !== 'Terminating') {
      this.#state = 'Terminating'
      listeners.later(() => {
        this.#speak()
        this.exit(0)
      })
    }
  }

  /** Without a clock nothing beats, so an idle server asks for its session when a test wants to see it. */
  #look(): void {
    if (!this.#around.options.clock && this.#script.autoReady && this.#state === 'StandingBy') this.#speak()
  }

  #end(ended: Ended): void {
    if (this.#destroyed) return this.#remove()
    this.#instance = this.#snapshot('exited', ended)
    this.#stop('exited')
    this.#changed()
  }

  #remove(): void {
    if (this.#phase === 'gone') return
    this.#stop('gone')
    this.#place.release()
    this.#around.forget(this)
    const { ref, uid } = this.#instance
    this.#around.listeners.tell((listener) => listener.gone(ref, uid))
    this.#destroyed?.resolve()
  }

  #stop(phase: 'exited' | 'gone'): void {
    this.#phase = phase
    this.#stopBeat()
    this.#stopWaiting()
    this.#stopLife()
    if (!this.#session) this.#allocated?.reject(this.#notRunning())
  }

  #changed(): void {
    const instance = this.#instance
    this.#around.listeners.tell((listener) => listener.changed(instance))
  }

  /** Waits for one thing at a time: its start, its readiness or the end of its grace period. */
  #after(ms: number, fn: () => void): void {
    this.#stopWaiting()
    if (this.#around.options.clock) this.#stopWaiting = this.#around.options.clock.after(ms, fn)
  }

  #snapshot(phase: Instance['phase'], ended: Ended = {}): Instance {
    const { spec } = this
    return Object.freeze({
      ref: Object.freeze({ namespace: spec.ref.namespace, name: spec.ref.name }),
      uid: spec.uid,
      phase,
      ...ended,
      ...(phase !== 'pending' && { address: this.#place.address }),
      node: this.#place.node,
      ports: this.#place.ports,
    })
  }

  #notRunning(): FleetError {
    const how = this.#phase === 'pending' ? 'does not run yet' : `has ended${ending(this.#instance)}`
    return new FleetError('closed', `server ${keyOf(this.ref)} ${how}`)
  }
}

function ending(instance: Instance): string {
  return instance.reason === undefined ? '' : `: ${instance.reason}`
}

function deferred(): Deferred {
  let resolve: Deferred['resolve'] = () => {}
  let reject: Deferred['reject'] = () => {}
  const promise = new Promise<SessionConfig>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  // Whoever awaits it hears of it; a test that only looked once is not failed by it.
  promise.catch(() => {})
  return { promise, resolve, reject }
}
