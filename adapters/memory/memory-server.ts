/** What a test holds of one server of the memory backend: it plays the game server's part. */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import type { GameState, Heartbeat, HeartbeatAnswer, SessionConfig } from '../../src/rules/game/heartbeat.js'
import type { Ref } from '../../src/rules/model/resources.js'

export interface MemoryServer {
  readonly ref: Ref
  /** What it was started with. */
  readonly spec: InstanceSpec
  /** As `list` shows it; the last one when it is gone. */
  readonly instance: Instance
  /** `gone`: ended and forgotten. */
  readonly phase: Instance['phase'] | 'gone'
  /** What it says of itself, as its SDK remembers it: Initializing, StandingBy, Active once it was told so… */
  readonly state: GameState
  /** What it says of its health. Healthy at first. */
  readonly health: Heartbeat['health']
  /** Who it says is connected. */
  readonly connected: readonly string[]
  /** The session that it was told of. */
  readonly session: SessionConfig | undefined
  /** The last answer that it got. */
  readonly answer: HeartbeatAnswer | undefined
  /** Resolves with its session; rejects with `closed` when it ends without one. */
  readonly allocated: Promise<SessionConfig>
  /** Says that it is ready for players: a heartbeat StandingBy. */
  ready(): HeartbeatAnswer
  /**
   * Beats now, and from now on by itself when the backend has a clock. What is given is remembered for later beats.
   * Throws `closed` when it does not run and `unavailable` when no fleet listens.
   */
  heartbeat(change?: Partial<Heartbeat>): HeartbeatAnswer
  /** Says who is connected now. */
  players(players: readonly string[]): HeartbeatAnswer
  /** Says that it is unhealthy, now and in later beats. */
  unhealthy(): HeartbeatAnswer
  /** Hangs: it runs on and says nothing more until the test lets it beat. */
  silence(): void
  /** Its process ends with this code, 0 by default. */
  exit(code?: number): void
  /** It is there no more and nobody knows why, as when its machine is lost. */
  vanish(): void
}
