/**
 * The model of a game server process: starts, gets ready, plays, and ends as its character has it. It speaks to the
 * fleet like any SDK does, and remembers what it was told.
 */
import type { GameState, Heartbeat, HeartbeatAnswer } from '../../rules/heartbeat.js'
import type { World } from './world.js'

export type Character =
  /** Ready soon, plays, ends with 0. */
  | 'good'
  /** Never says that it is ready, though it beats. */
  | 'never-ready'
  /** Never says anything. */
  | 'mute'
  /** Ends with 1 soon after its start. */
  | 'crashes-at-start'
  /** Ends with 1 at some moment. */
  | 'crashes'
  /** Ends with 0 though nobody has played. */
  | 'ends-idle'
  /** Says Unhealthy always, as SDKs do without a health callback. */
  | 'always-unhealthy'
  /** Says Healthy, then Unhealthy. */
  | 'turns-unhealthy'
  /** Stops talking for a while now and then. */
  | 'stalls'
  /** Goes on talking after it was told to end, until it is killed. */
  | 'ignores-terminate'

export interface GameWires {
  /** Sends a heartbeat; undefined when it got lost or nobody answered. */
  send(heartbeat: Heartbeat): HeartbeatAnswer | undefined
  exited(code: number): void
  /** It was told of a session. */
  told(sessionID: string): void
}

export class GameModel {
  state: GameState = 'Initializing'
  running = true
  /** The session it plays, once it was told. */
  session: string | undefined
  #silentUntil = 0
  #beats = 0
  #players = 0

  constructor(
    readonly world: World,
    readonly character: Character,
    readonly wires: GameWires,
  ) {
    const { after, between } = bound(world)
    if (character === 'crashes-at-start') after(between(50, 3_000), () => this.#misbehave(1))
    if (character === 'crashes') after(between(1_000, 600_000), () => this.#misbehave(1))
    if (character === 'ends-idle') after(between(1_000, 300_000), () => this.#misbehave(0))
    if (character !== 'never-ready' && character !== 'mute') {
      after(between(10, 8_000), () => {
        if (this.state === 'Initializing') this.state = 'StandingBy'
        this.#beat()
      })
    }
    if (character !== 'mute') after(between(0, 1_000), () => this.#loop())
  }

  /** As by a signal: ends at once or within the grace period, by its character. */
  terminate(graceMs: number, kill: () => void): void {
    const { world } = this
    if (this.character === 'ignores-terminate' || world.chance(0.2)) world.after(graceMs, kill)
    else world.after(world.between(0, Math.min(2_000, graceMs)), () => (this.running ? this.exit(0) : undefined))
  }

  exit(code: number): void {
    if (!this.running) return
    this.running = false
    this.wires.exited(code)
  }

  /** Once all is to go well, this does as well. */
  #misbehave(code: number): void {
    if (this.world.faulty) this.exit(code)
  }

  #loop(): void {
    if (!this.running) return
    this.#beat()
    this.world.after(2_000, () => this.#loop())
  }

  #beat(): void {
    if (!this.running || this.world.elapsedMs < this.#silentUntil) return
    this.#beats++
    if (this.character === 'never-ready' && !this.world.faulty && this.state === 'Initializing')
      this.state = 'StandingBy'
    if (this.character === 'stalls' && this.world.fault('game: stalls', 0.02)) {
      this.#silentUntil = this.world.elapsedMs + this.world.between(1_000, 40_000)
      return
    }
    if (this.world.chance(0.1)) this.#players = this.session ? this.world.between(0, 3) : 0
    const players = Array.from({ length: this.#players }, (_, i) => `player-${i}`)
    const health = this.#health()
    const answer = this.wires.send({ state: this.state, players, ...(health && { health }) })
    if (answer && this.running) this.#hear(answer)
  }

  #health(): Heartbeat['health'] {
    if (this.character === 'always-unhealthy') return 'Unhealthy'
    if (this.character === 'turns-unhealthy' && this.world.faulty && this.#beats > 10) return 'Unhealthy'
    return this.#beats % 3 === 0 ? undefined : 'Healthy'
  }

  #hear(answer: HeartbeatAnswer): void {
    const { world } = this
    const told = answer.sessionConfig?.sessionId
    if (told !== undefined && told !== this.session) {
      this.wires.told(told)
      this.session = told
    }
    if (answer.operation === 'Active' && this.state === 'StandingBy') {
      this.state = 'Active'
      world.after(world.between(5_000, 400_000), () => {
        // While the fleet is to come to rest, matches go on.
        if (world.faulty) this.exit(world.chance(0.1) ? 1 : 0)
      })
    }
    if (answer.operation === 'Terminate' && this.character !== 'ignores-terminate') {
      this.state = 'Terminating'
      world.after(world.between(0, 1_000), () => this.exit(0))
    }
  }
}

function bound(world: World) {
  return {
    after: (ms: number, fn: () => void) => world.after(ms, fn),
    between: (least: number, most: number) => world.between(least, most),
  }
}
