/** The interface with which a test controls one server of the memory backend: the test acts as the game. */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import type {
  GameState,
  Heartbeat,
  HeartbeatAnswer,
  NumberedSessionConfig,
  SessionConfig,
} from '../../src/rules/game/heartbeat.js'
import type { Ref } from '../../src/rules/model/resources.js'

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
