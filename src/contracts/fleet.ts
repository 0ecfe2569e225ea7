/** The fleet facade: the interface that a host app calls. */
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import type { AllocationRequest, BuildSpec, RefLike } from '../rules/model/resources.js'
import type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'
import type { LogsOptions } from './backend.js'
import type { CallOptions } from './call-options.js'
import type { EventListener, EventsDropped, FleetEvent, FleetEventType, ReadEventsOptions } from './events.js'
import type { BuildStats, FleetObserver } from './observer.js'
import type { DrainOptions, DrainResult } from './options.js'

/** Input of `builds.create`. `metadata` and `spec` are fully validated; `status`, `apiVersion` and `kind` are ignored. */
export interface GameServerBuildInput {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: GameServerBuild['spec']
}

/** Input of `builds.update`: the fields to change. */
export type BuildUpdate = {
  readonly [name in Exclude<keyof BuildSpec, 'buildID'>]?: BuildSpec[name] | undefined
}

/** If a `RefLike` is a string, it names a resource in the `default` namespace. */
export interface Builds {
  /** Creates a build. Resolves when it is durable; its servers are started afterwards. Throws `invalid` or `exists`. */
  create(build: GameServerBuildInput, options?: CallOptions): Promise<GameServerBuild>
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  list(options?: CallOptions): Promise<readonly GameServerBuild[]>
  /** Changes `standingBy`, `max` or both. Never terminates an Active server. Throws `invalid` or `not-found`. */
  patch(
    ref: RefLike,
    change: { readonly standingBy?: number; readonly max?: number },
    options?: CallOptions,
  ): Promise<GameServerBuild>
  /**
   * Changes any part of a spec except its buildID; `undefined` removes an optional field. Changing the template, ports or
   * metadata starts a rolling update, which replaces idle servers a few at a time and never replaces Active ones. To roll
   * back, update again with the earlier values. Throws `invalid` or `not-found`.
   */
  update(ref: RefLike, change: BuildUpdate, options?: CallOptions): Promise<GameServerBuild>
  /**
   * Stops allocating and creating servers until `resume` is called, even across restarts, and terminates idle servers.
   * Resolves when no servers remain, or at the deadline. Throws `invalid` or `not-found`.
   */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends a drain, so that the build is scaled to its spec again. Throws `not-found`. */
  resume(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  /**
   * Deletes a build and terminates all its servers, including Active ones. When this resolves, its name can be reused.
   * Throws `not-found`.
   */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
}

export interface Servers {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServer>
  /** Lists all servers, or only those of one build. Throws `not-found` if that build does not exist. */
  list(options?: CallOptions & { readonly build?: RefLike }): Promise<readonly GameServer[]>
  /**
   * Terminates and replaces a server: immediately if it is idle, after its match if it is Active. Throws `invalid` or
   * `not-found`.
   */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Terminates a server with its grace period, even if it is Active, and replaces it. Throws `not-found`. */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
  /**
   * Yields the lines of the server's stdout and stderr. With `follow`, continues until the server has ended. If the signal
   * fires, the iteration ends without an error. Throws `unsupported` if the backend keeps no logs; the first read rejects
   * with `not-found` if there are no logs for this server. The process backend also keeps the logs of servers that have
   * ended.
   */
  logs(ref: RefLike, options?: LogsOptions): AsyncIterableIterator<string>
}

/** Players connected to servers, as reported by their heartbeats. */
export interface Details {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerDetail>
  /** Returns the details of all servers of a build. Throws `not-found`. */
  ofBuild(ref: RefLike, options?: CallOptions): Promise<GameServerBuildDetail>
}

export interface AllocateOptions extends CallOptions {
  /**
   * How long to wait, in ms, if no server is standing by. Default: 0, which rejects immediately. Maximum:
   * `limits.maxWaitMs`. A waiting caller counts as demand until 3 s after its timeout, so that the server started for it is
   * still there when it retries.
   */
  readonly waitMs?: number
}

/** What `explain` returns: a server's current state and its history. */
export interface ServerHistory {
  /** Absent if the server no longer exists. */
  readonly server?: GameServer
  /** The server's events that are still in the log, oldest first. */
  readonly events: readonly FleetEvent[]
  /** The same events as text, one per line, with an ISO 8601 time and the message. */
  readonly text: string
}

export interface FleetStats {
  /** True if this host is the leader. */
  readonly leads: boolean
  /** Heartbeats received since this fleet was created. */
  readonly heartbeats: number
  /** Statistics of each build. Empty if another host is the leader. */
  readonly builds: readonly BuildStats[]
}

export interface FleetHealth {
  /** True if this host can serve calls: it is the leader, is not draining, and its store and backend work. */
  readonly ready: boolean
  /** True if this host is the leader. */
  readonly leads: boolean
  /** True if the store works. */
  readonly store: boolean
  /** True if the backend works. */
  readonly backend: boolean
  /** A sentence for each problem; empty if `ready`. */
  readonly problems: readonly string[]
}

/**
 * All calls on builds, servers and details, as well as `allocate`, `explain` and `drain`, can also throw `not-leader`,
 * `closed` and `aborted`. Calls that write throw `unavailable` if the store does not accept the write.
 */
export interface Fleet {
  readonly builds: Builds
  readonly servers: Servers
  readonly details: Details
  /** `host:port` at which game servers reach the agent. Absent if this fleet has no agent. */
  readonly agentAddress: string | undefined
  /**
   * Allocates a server to a session. The same `sessionID` always gets the same server. Resolves when the allocation is
   * durable. Throws `invalid`, `not-found` (no build has this buildID), `none-standing-by` or `max-reached` (also after
   * `waitMs`), `unavailable`, `not-leader`, `draining`, `closed`, `aborted`.
   */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  /**
   * Handles one heartbeat from a game server, in constant time and without I/O. Never throws; unknown servers also get an
   * answer.
   */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /** Adds a listener for one type of event, or for all types with `*`. The returned function removes it. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /**
   * Reads events in order, first from the log and then as they are emitted, until the signal fires or the fleet is closed.
   * If events that the reader has not read yet are no longer in the log, it receives one `EventsDropped` in their place.
   */
  events(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped>
  /**
   * Adds an observer that receives the durations of calls. The returned function removes it. For metrics, see
   * `gamekeeper/metrics`.
   */
  observe(observer: FleetObserver): () => void
  /** Returns current statistics. Iterates over all servers. */
  stats(): FleetStats
  /** Probes the store and the backend; results are cached for 2 s. Never rejects. */
  health(): Promise<FleetHealth>
  /**
   * Explains why a server is in its current state or was terminated. Throws `not-found` if the server does not exist and the
   * log has no events about it.
   */
  explain(server: RefLike, options?: CallOptions): Promise<ServerHistory>
  /**
   * Stops allocating, terminates idle servers, and lets Active ones finish. Resolves when no servers remain, or at the
   * deadline. Throws `invalid`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>
  /** Stops this host's work on the fleet. Game servers keep running, and the next host takes them over. */
  close(): Promise<void>
}
