/** One server of the memory backend, as a test controls it: the test acts as the game. */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import type { GameState, Heartbeat, HeartbeatAnswer, SessionConfig } from '../../src/rules/game/heartbeat.js'
import type { Ref } from '../../src/rules/model/resources.js'

export interface MemoryServer {
  readonly ref: Ref
  /** The spec that it was created with. */
  readonly spec: InstanceSpec
  /** As `list` returns it; the last known one when it is gone. */
  readonly instance: Instance
  /** `gone`: destroyed or vanished. */
  readonly phase: Instance['phase'] | 'gone'
  /** State in its heartbeats: Initializing, StandingBy, Active after the fleet's answer says so… */
  readonly state: GameState
  /** Health in its heartbeats. Healthy at first. */
  readonly health: Heartbeat['health']
  /** Connected players in its heartbeats. */
  readonly connected: readonly string[]
  /** The session that it received. */
  readonly session: SessionConfig | undefined
  /** The last answer to a heartbeat. */
  readonly answer: HeartbeatAnswer | undefined
  /** Resolves with its session; rejects with `closed` when it ends without one. */
  readonly allocated: Promise<SessionConfig>
  /** Sends a heartbeat with state StandingBy: ready for players. */
  ready(): HeartbeatAnswer
  /**
   * Sends a heartbeat now and, when the backend has a clock, regularly from now on. Later heartbeats repeat the changes.
   * Throws `closed` when the server does not run and `unavailable` when no fleet listens.
   */
  heartbeat(change?: Partial<Heartbeat>): HeartbeatAnswer
  /** Sends a heartbeat with these connected players. */
  players(players: readonly string[]): HeartbeatAnswer
  /** Sends a heartbeat with health Unhealthy. */
  unhealthy(): HeartbeatAnswer
  /** Hangs: it keeps running but sends no heartbeat until the test sends one. */
  silence(): void
  /** Its process exits with this code. Default 0. */
  exit(code?: number): void
  /** It disappears without an exit, as when its machine is lost. */
  vanish(): void
}
