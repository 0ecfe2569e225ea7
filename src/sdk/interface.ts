/** What a game gets from `start()`. */
import type { GameState, SessionConfig } from '../rules/game/heartbeat.js'
import type { ServerData, ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import type { GameServerConfig } from './config.js'
import type { Logs } from './game-logs.js'
import type { OwnSession } from './agent-client.js'
import type { RunningSession, SessionCallback } from './callbacks.js'

export type SdkState = Extract<GameState, 'Initializing' | 'StandingBy' | 'Active' | 'Terminating'>

/** Functions for the game. They can be destructured: `const { readyForPlayers, logs } = await start()`. */
export interface Gsdk {
  readonly config: GameServerConfig
  readonly logs: Logs
  readonly state: SdkState
  /** The present session, of several the first, or undefined until the server is allocated, and from `readyForNext()` on until it is allocated again. */
  readonly session: SessionConfig | undefined
  /**
   * Reports StandingBy and resolves with the session once this server is allocated. Later calls return the same promise.
   * Keeps the process alive while the promise is pending. Never rejects: if the server is terminated before it is allocated,
   * the promise stays pending and `onTerminate` callbacks run.
   */
  readonly readyForPlayers: () => Promise<SessionConfig>
  /**
   * Ends the present session and resolves with the next one, once this server is allocated again. The server is standing by meanwhile: it
   * may also be terminated. Reports that no players are connected. Without a session, it is `readyForPlayers()`, and a call while
   * another is pending returns the same promise. Keeps the process alive while the promise is pending. Never rejects. A game with `onSession`
   * ends its sessions one by one instead: for it, the call ends nothing.
   */
  readonly readyForNext: () => Promise<SessionConfig>
  /** The sessions that run now, if the game takes several. Empty for a game without `onSession`. */
  readonly sessions: readonly RunningSession[]
  /**
   * Says that the game takes several sessions at the same time, and calls `fn` with each, as it begins. The build's `sessionsPerServer` says
   * how many there are at most. The server is standing by while none of them runs. Call it before `readyForPlayers()`.
   */
  readonly onSession: (fn: SessionCallback) => void
  /** Reports the connected players. Call it with the whole list each time the list changes. */
  readonly updateConnectedPlayers: (ids: readonly string[]) => void
  /**
   * Changes labels, annotations, counters and lists of this server, all of them or none, and resolves with all its data when the change is
   * durable. Repeats it for 15 s while no host can make it. A change that increments or decrements a counter is not repeated once a host may
   * have made it. Rejects with a FleetError: `invalid`, `out-of-range`, `not-found` if the server is terminating, `unsupported`, or
   * `unavailable`, after which the change may have been made.
   */
  readonly updateData: (change: ServerDataUpdate) => Promise<ServerData>
  /**
   * Takes this server for a session of the game's own, without a caller, and resolves with the session once the game has it, as
   * `readyForPlayers` and `readyForNext` do. The game is ready for players from now on. A call with the sessionID that this server has
   * resolves with it. Repeats the request for 15 s while no host can carry it out. Rejects with a FleetError: `in-use` if a caller
   * has taken the server first, if it is reserved, or if another server has the session; `invalid`, `draining`, `not-found` if the server is
   * terminating, `unsupported`, or `unavailable`, after which the server may have been taken.
   */
  readonly allocateSelf: (request?: OwnSession) => Promise<SessionConfig>
  /**
   * Calls `fn` once when this server has to end, either because a heartbeat answer says so or because of SIGTERM. Calls it
   * immediately if that has already happened. `fn` should save what it must and end the process, which is killed when the
   * grace period is over that starts with that answer or SIGTERM.
   */
  readonly onTerminate: (fn: () => void | Promise<void>) => void
  /**
   * Calls `fn` with the time at which announced maintenance of this server or its machine begins, once for each time that is
   * announced. Calls it immediately if a time is already known. The server is not terminated because of it.
   */
  readonly onMaintenance: (fn: (beginsAt: Date) => void | Promise<void>) => void
  /** Stops heartbeats permanently, removes the SIGTERM handler, and ignores an answer still in flight. */
  readonly stop: () => void
}
