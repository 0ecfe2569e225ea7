/**
 * Models a game server process: it starts, becomes ready, plays and exits according to its behavior, and sends heartbeats
 * like an SDK.
 */
import type { EndedSession, GameState, Heartbeat, HeartbeatAnswer } from '../../../src/rules/game/heartbeat.js'
import type { World } from '../world/world.js'
import type { GameLog } from './game-log.js'
import type { Rooms } from './rooms.js'
import type { GameBehavior } from './unusual-behaviors.js'

export interface GameModelDependencies {
  /**
   * Sends a heartbeat. Returns undefined if there was no answer. With `later`, the fleet may hold the answer: it then returns
   * Continue, and `later` receives the answer, unless that is lost.
   */
  send(heartbeat: Heartbeat, later?: (answer: HeartbeatAnswer) => void): HeartbeatAnswer | undefined
  onExit(code: number): void
  onSession(sessionID: string): void
  /** Called when the game ends its session and goes on. */
  onSessionEnd(sessionID: string): void
  /** True if it has no SDK: it sends no heartbeats, answers probes, and reads its session from its standard input. */
  readonly isProbed: boolean
  /** Where it prints that it is ready, and that its match is over, after which it waits to be ended. Undefined: it exits. */
  readonly log: GameLog | undefined
  /** The sessions of a game that takes several. */
  readonly rooms: Rooms | undefined
}

/** What it prints once it is ready. */
const readyLine = 'Done (1s)! For help, type help'
const heartbeatMs = 2_000
const neverReady: ReadonlySet<GameBehavior> = new Set(['never-ready', 'exits-at-start'])
/** How long Java's client tries to send its first heartbeat. */
const firstHeartbeatTriesMs = 8_000

export class GameModel {
  state: GameState = 'Initializing'
  running = true
  /** The session that the game has received. */
  session: string | undefined
  /** Players for whom a seat was reserved. */
  #guests: readonly string[] = []
  /** Players who come as they like. */
  #others: readonly string[] = []
  /** True once its match is over and its process still runs. */
  isOver = false
  /** True once it has had players. */
  hadPlayers = false
  /** What the game does when it gets its termination signal. Like most SDKs' games, it may have no handler. */
  readonly #onSignal: 'dies' | 'exits' | 'ignores'
  /** What the game's heartbeats show once it has received Terminate. */
  readonly #onTerminate: 'reports Terminating' | 'stops sending' | 'reports the state before'
  /** Longest duration of the game's shutdown. */
  readonly #shutdownMs: number
  /** Whether its SDK lets the fleet hold answers and reports a change of state at once, like the Node SDK. */
  readonly #allowsHold: boolean
  /** Whether its SDK reads an answer only after it has sent the next heartbeat, like Unreal's. */
  readonly #readsLate: boolean
  #unread: HeartbeatAnswer | undefined
  /** Whether it plays several matches one after the other. */
  readonly #playsOn: boolean
  #ended: EndedSession | undefined
  #hasReceivedTerminate = false
  #silentUntil = 0
  #wasAnswered = false
  /** Elapsed ms of the first heartbeat, if it got no answer. */
  #firstTriedAt: number | undefined
  #heartbeats = 0
  #hangs = false

  constructor(
    readonly world: World,
    readonly behavior: GameBehavior,
    readonly longestMatchMs: number,
    readonly deps: GameModelDependencies,
  ) {
    const ignores = behavior === 'ignores-terminate'
    this.#onSignal = ignores ? 'ignores' : (world.oneOf(['dies', 'dies', 'exits', 'exits', 'ignores']) ?? 'dies')
    this.#onTerminate =
      world.oneOf(['reports Terminating', 'stops sending', 'reports the state before']) ?? 'stops sending'
    this.#shutdownMs = world.oneOf([1_000, 1_000, 4_000, 10_000]) ?? 1_000
    this.#allowsHold = world.chance(0.5)
    this.#readsLate = !this.#allowsHold && world.chance(0.3)
    this.#playsOn = this.#allowsHold && world.chance(0.6) && !deps.isProbed
    if (behavior === 'crashes-at-start') world.after(world.between(50, 3_000), () => this.#exitWithFault(1))
    if (behavior === 'exits-at-start') world.after(world.between(50, 3_000), () => this.#exitWithFault(0))
    if (behavior === 'crashes') world.after(world.between(1_000, 600_000), () => this.#exitWithFault(1))
    if (behavior === 'hangs') world.after(world.between(1_000, 200_000), () => (this.#hangs = world.faultsEnabled))
    if (behavior === 'exits-idle') world.after(world.between(1_000, 300_000), () => this.#exitWithFault(0))
    if (behavior !== 'never-ready' && behavior !== 'silent') {
      world.after(world.between(10, 8_000), () => {
        if (this.state === 'Initializing' && !this.#isUnready) {
          this.state = 'StandingBy'
          this.deps.log?.print(readyLine)
        }
        this.#heartbeat()
        if (behavior === 'crashes-when-ready') world.after(world.between(500, 30_000), () => this.#exitWithFault(1))
      })
    }
    if (behavior !== 'silent') world.after(world.between(0, 1_000), () => this.#loop())
  }

  /** True while it does not become ready, whatever happens. */
  get #isUnready(): boolean {
    return this.world.faultsEnabled && neverReady.has(this.behavior)
  }

  /** Whether a game without an SDK answers what it is asked. */
  get answersProbes(): boolean {
    return this.running && this.state !== 'Initializing' && !this.isHanging && this.world.elapsedMs >= this.#silentUntil
  }

  get isHanging(): boolean {
    return this.#hangs && (this.world.faultsEnabled || this.session === undefined)
  }

  /** Something that is written to the standard input of a game without an SDK: its session. */
  told(session: string): void {
    if (!this.running) return
    this.deps.onSession(session)
    this.session ??= session
    if (this.state !== 'Active') this.#play()
  }

  get players(): readonly string[] {
    return [...this.#others, ...this.#guests]
  }

  /** Acts like SIGTERM: the game dies, or exits soon, or is killed after the grace period. */
  signal(graceMs: number, kill: () => void): void {
    const { world } = this
    if (this.#onSignal === 'dies' && graceMs > 0) world.after(0, () => this.exit(143))
    else if (this.#onSignal === 'exits') world.after(world.between(0, heartbeatMs), () => this.exit(0))
    world.after(graceMs, kill)
  }

  /** A player arrives for whom a seat was reserved. */
  admit(guest: string): void {
    this.#guests = [...this.#guests, guest]
    this.hadPlayers = true
  }

  dismiss(guest: string): void {
    this.#guests = this.#guests.filter((other) => other !== guest)
  }

  exit(code: number): void {
    if (!this.running) return
    this.kill()
    this.deps.onExit(code)
  }

  /** Stops the process without an exit code. */
  kill(): void {
    this.running = false
    if (this.deps.isProbed) return
    // Some heartbeats may still be in flight, or a helper process that outlives the game keeps sending them under its id.
    if (this.world.fault('game: heartbeats after exit', 0.1)) this.#sendStaleHeartbeats(this.world.between(1, 15))
  }

  #sendStaleHeartbeats(beats: number): void {
    if (beats === 0) return
    this.world.after(this.world.between(1, heartbeatMs), () => {
      const answer = this.#send()
      const session = answer?.sessionConfig?.sessionId
      const isOther = session !== this.session && !this.deps.rooms
      if (answer && session !== undefined && isOther && !this.#hasEnded(answer)) {
        this.deps.onSession(session)
      }
      this.#sendStaleHeartbeats(beats - 1)
    })
  }

  /** Exits unless faults are disabled. */
  #exitWithFault(code: number): void {
    if (this.world.faultsEnabled) this.exit(code)
  }

  #loop(): void {
    if (!this.running) return
    this.#heartbeat()
    this.world.after(heartbeatMs, () => this.#loop())
  }

  #heartbeat(): void {
    const { world } = this
    if (!this.running || world.elapsedMs < this.#silentUntil) return
    this.#heartbeats++
    if (neverReady.has(this.behavior) && !this.#isUnready && this.state === 'Initializing') this.state = 'StandingBy'
    if (this.behavior === 'stalls' && world.fault('game: stalls', 0.02)) {
      this.#silentUntil = world.elapsedMs + world.between(1_000, 40_000)
      return
    }
    if (world.faultsEnabled && world.chance(0.1)) this.#others = this.#mayHavePlayers ? this.#somePlayers() : []
    if (this.players.length > 0) this.hadPlayers = true
    if (this.deps.isProbed) return
    const answer = this.#send((later) => this.#receive(later))
    const readable = this.#readsLate ? this.#unread : answer
    this.#unread = answer
    if (readable) this.#receive(readable)
    if (answer) this.#wasAnswered = true
    else if (this.behavior === 'needs-agent' && !this.#wasAnswered) this.#tryFirstHeartbeat()
    if (!answer && this.behavior === 'backs-off') this.#silentUntil = world.elapsedMs + world.between(30_000, 90_000)
  }

  #tryFirstHeartbeat(): void {
    this.#firstTriedAt ??= this.world.elapsedMs
    if (this.world.elapsedMs - this.#firstTriedAt >= firstHeartbeatTriesMs) this.#exitWithFault(1)
  }

  #receive(answer: HeartbeatAnswer): void {
    const { state } = this
    if (this.running) this.#handle(answer)
    if (this.#allowsHold && this.state !== state) this.world.after(0, () => this.#heartbeat())
  }

  /** Returns random players: often as many as before, but not the same ones. */
  #somePlayers(): readonly string[] {
    return Array.from({ length: this.world.between(0, 2) }, () => `player-${this.world.between(1, 5)}`)
  }

  #send(later?: (answer: HeartbeatAnswer) => void): HeartbeatAnswer | undefined {
    this.#followRooms()
    const health = this.#health()
    const heartbeat = {
      state: this.state,
      players: this.players,
      ...(health && { health }),
      ...(this.deps.rooms?.report ?? (this.#ended && { endedSession: this.#ended })),
    }
    if ((this.#playsOn || this.deps.rooms) && this.world.fault('heartbeat: repeated late', 0.02)) {
      this.world.after(this.world.between(1, 60_000), () => void (this.running && this.deps.send(heartbeat)))
    }
    return this.deps.send(heartbeat, this.#allowsHold ? later : undefined)
  }

  #health(): Heartbeat['health'] {
    if (this.behavior === 'always-unhealthy') return 'Unhealthy'
    if (this.behavior === 'turns-unhealthy' && this.world.faultsEnabled && this.#heartbeats > 10) return 'Unhealthy'
    if (this.behavior === 'flaky-health' && this.world.faultsEnabled)
      return this.#heartbeats % 3 === 0 ? 'Healthy' : 'Unhealthy'
    return this.#heartbeats % 3 === 0 ? undefined : 'Healthy'
  }

  #handle(answer: HeartbeatAnswer): void {
    if (this.deps.rooms) {
      if (this.state !== 'Initializing') this.deps.rooms.answered(answer)
      this.#followRooms()
      if (answer.operation === 'Terminate' && this.behavior !== 'ignores-terminate') this.#shutDown()
      return
    }
    const session = answer.sessionConfig?.sessionId
    if (this.#hasEnded(answer)) return
    if (session !== undefined && session !== this.session) {
      this.deps.onSession(session)
      this.session = session
    }
    if (answer.operation === 'Active' && this.state === 'StandingBy') this.#play()
    if (answer.operation === 'Terminate' && this.behavior !== 'ignores-terminate') this.#shutDown()
  }

  #play(): void {
    const { world } = this
    this.state = 'Active'
    world.after(world.between(5_000, this.longestMatchMs), () => {
      // Matches do not end while the fleet has to reach quiescence.
      if (!world.faultsEnabled) return
      if (this.#playsOn && world.chance(0.8)) this.#playOn()
      else if (world.chance(0.1)) this.exit(1)
      else if (this.deps.log && this.running) this.#waitForEnd(this.deps.log)
      else this.exit(0)
    })
  }

  /** A game without an SDK is open before it has a session, and now and then somebody looks in. */
  get #mayHavePlayers(): boolean {
    if (this.isOver) return false
    return this.session !== undefined || (this.deps.isProbed && this.state === 'StandingBy' && this.world.chance(0.2))
  }

  /** A game with several sessions is Active while there are any. */
  #followRooms(): void {
    if (!this.deps.rooms || (this.state !== 'StandingBy' && this.state !== 'Active')) return
    this.session = this.deps.rooms.first
    this.state = this.session === undefined ? 'StandingBy' : 'Active'
    if (this.session === undefined) this.#others = []
  }

  /** Its match is over, which only its log says. */
  #waitForEnd(log: GameLog): void {
    this.isOver = true
    this.#others = []
    this.#guests = []
    log.print(`match over, ${this.session}`)
  }

  /** Ends its session and waits for the next one. */
  #playOn(): void {
    if (!this.running || this.state !== 'Active' || this.session === undefined) return
    this.deps.onSessionEnd(this.session)
    this.#ended = { sessionID: this.session, number: (this.#ended?.number ?? 0) + 1 }
    this.session = undefined
    this.#guests = []
    this.#others = []
    this.hadPlayers = false
    this.state = 'StandingBy'
    this.#heartbeat()
  }

  /** True if the game has ended this session, whether the fleet knows that or not. */
  hasEndedSession(sessionID: string): boolean {
    return this.#ended?.sessionID === sessionID
  }

  /** True if the answer has the session that the game ended last, because the fleet does not know that yet. */
  #hasEnded({ endedSessions = 0, operation, sessionConfig }: HeartbeatAnswer): boolean {
    if (operation === 'Terminate' || !this.#ended) return false
    return sessionConfig?.sessionId === this.#ended.sessionID && endedSessions < this.#ended.number
  }

  #shutDown(): void {
    if (this.#hasReceivedTerminate) return
    this.#hasReceivedTerminate = true
    const { world } = this
    if (this.#onTerminate === 'reports Terminating') this.state = 'Terminating'
    if (this.#onTerminate === 'stops sending') this.#silentUntil = Infinity
    world.after(world.between(0, this.#shutdownMs), () => this.exit(0))
  }
}
