/**
 * The model of a game server process: starts, gets ready, plays, and ends as its character has it. It speaks to the
 * fleet like any SDK does, and remembers what it was told.
 */
import type { GameState, Heartbeat, HeartbeatAnswer } from '../../rules/game/heartbeat.js'
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
  /** Ends with 1 soon after it got ready. */
  | 'crashes-when-ready'
  /** Ends with 1 at some moment. */
  | 'crashes'
  /** Ends with 0 though nobody has played. */
  | 'ends-idle'
  /** Says Unhealthy always, as SDKs do without a health callback. */
  | 'always-unhealthy'
  /** Says Healthy, then Unhealthy. */
  | 'turns-unhealthy'
  /** Says Healthy and Unhealthy by turns, never often enough in a row to be ended for it. */
  | 'ails'
  /** Stops talking for a while now and then. */
  | 'stalls'
  /** Goes on talking after it was told to end, until it is killed. */
  | 'ignores-terminate'

export const oddCharacters: readonly Character[] = [
  'never-ready',
  'mute',
  'crashes-at-start',
  'crashes',
  'ends-idle',
  'always-unhealthy',
  'turns-unhealthy',
  'ails',
  'stalls',
  'ignores-terminate',
]

export interface GameWires {
  /** Sends a heartbeat; undefined when it got lost or nobody answered. */
  send(heartbeat: Heartbeat): HeartbeatAnswer | undefined
  exited(code: number): void
  /** It was told of a session. */
  told(sessionID: string): void
}

const beatMs = 2_000

export class GameModel {
  state: GameState = 'Initializing'
  running = true
  /** The session it plays, once it was told. */
  session: string | undefined
  players: readonly string[] = []
  #silentUntil = 0
  #beats = 0

  constructor(
    readonly world: World,
    readonly character: Character,
    readonly longestMatchMs: number,
    readonly wires: GameWires,
  ) {
    if (character === 'crashes-at-start') world.after(world.between(50, 3_000), () => this.#misbehave(1))
    if (character === 'crashes') world.after(world.between(1_000, 600_000), () => this.#misbehave(1))
    if (character === 'ends-idle') world.after(world.between(1_000, 300_000), () => this.#misbehave(0))
    if (character !== 'never-ready' && character !== 'mute') {
      world.after(world.between(10, 8_000), () => {
        if (this.state === 'Initializing') this.state = 'StandingBy'
        this.#beat()
        if (character === 'crashes-when-ready') world.after(world.between(500, 30_000), () => this.#misbehave(1))
      })
    }
    if (character !== 'mute') world.after(world.between(0, 1_000), () => this.#loop())
  }

  /** As by a signal: ends at once or within the grace period, by its character. */
  terminate(graceMs: number, kill: () => void): void {
    const { world } = this
    if (this.character === 'ignores-terminate' || world.chance(0.2)) world.after(graceMs, kill)
    else world.after(world.between(0, Math.min(beatMs, graceMs)), () => (this.running ? this.exit(0) : undefined))
  }

  exit(code: number): void {
    if (!this.running) return
    this.disappear()
    this.wires.exited(code)
  }

  /** Ends without a word to anybody. */
  disappear(): void {
    this.running = false
    // Beats that were on their way, or a helper process that outlives the game and goes on with its old id.
    if (this.world.fault('game: talks after its end', 0.1)) this.#haunt(this.world.between(1, 15))
  }

  #haunt(beats: number): void {
    if (beats === 0) return
    this.world.after(this.world.between(1, beatMs), () => {
      const told = this.#send()?.sessionConfig?.sessionId
      if (told !== undefined && told !== this.session) this.wires.told(told)
      this.#haunt(beats - 1)
    })
  }

  /** Once all is to go well, this does as well. */
  #misbehave(code: number): void {
    if (this.world.faulty) this.exit(code)
  }

  #loop(): void {
    if (!this.running) return
    this.#beat()
    this.world.after(beatMs, () => this.#loop())
  }

  #beat(): void {
    const { world } = this
    if (!this.running || world.elapsedMs < this.#silentUntil) return
    this.#beats++
    if (this.character === 'never-ready' && !world.faulty && this.state === 'Initializing') this.state = 'StandingBy'
    if (this.character === 'stalls' && world.fault('game: stalls', 0.02)) {
      this.#silentUntil = world.elapsedMs + world.between(1_000, 40_000)
      return
    }
    if (world.faulty && world.chance(0.1)) this.players = this.session ? this.#somePlayers() : []
    const answer = this.#send()
    if (answer && this.running) this.#hear(answer)
  }

  /** Often as many as before, but others. */
  #somePlayers(): readonly string[] {
    return Array.from({ length: this.world.between(0, 2) }, () => `player-${this.world.between(1, 5)}`)
  }

  #send(): HeartbeatAnswer | undefined {
    const health = this.#health()
    return this.wires.send({ state: this.state, players: this.players, ...(health && { health }) })
  }

  #health(): Heartbeat['health'] {
    if (this.character === 'always-unhealthy') return 'Unhealthy'
    if (this.character === 'turns-unhealthy' && this.world.faulty && this.#beats > 10) return 'Unhealthy'
    if (this.character === 'ails' && this.world.faulty) return this.#beats % 3 === 0 ? 'Healthy' : 'Unhealthy'
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
      world.after(world.between(5_000, this.longestMatchMs), () => {
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
