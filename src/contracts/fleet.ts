/** The facade: what a host app calls. */
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

/** Input of `builds.create`. Validated in full; `status`, `apiVersion` and `kind` are ignored. */
export interface GameServerBuildInput {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: GameServerBuild['spec']
}

/** Input of `builds.update`: the fields to change. */
export type BuildUpdate = {
  readonly [name in Exclude<keyof BuildSpec, 'buildID'>]?: BuildSpec[name] | undefined
}

/** A string `RefLike` names a resource in the `default` namespace. */
export interface Builds {
  /** Throws `invalid` or `exists`. Resolves when the build is durable; its servers are started afterwards. */
  create(build: GameServerBuildInput, options?: CallOptions): Promise<GameServerBuild>
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  list(options?: CallOptions): Promise<readonly GameServerBuild[]>
  /** Changes `standingBy`, `max` or both. Throws `invalid` or `not-found`. Never ends an Active server. */
  patch(
    ref: RefLike,
    change: { readonly standingBy?: number; readonly max?: number },
    options?: CallOptions,
  ): Promise<GameServerBuild>
  /**
   * Changes any part of a spec except its buildID; `undefined` removes an optional field. A change of template, ports or
   * metadata starts a rolling update: idle servers are replaced a few at a time, Active ones never. A rollback is another
   * update. Throws `invalid` or `not-found`.
   */
  update(ref: RefLike, change: BuildUpdate, options?: CallOptions): Promise<GameServerBuild>
  /**
   * Stops allocating and creating servers until `resume`, also across restarts, and ends idle servers. Resolves when no
   * servers remain, or at the deadline. Throws `invalid` or `not-found`.
   */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends a drain: the build is scaled to its spec again. Throws `not-found`. */
  resume(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  /** Deletes a build and ends all its servers, Active ones included. Its name is free when this resolves. Throws `not-found`. */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
}

export interface Servers {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServer>
  /** All servers, or those of one build. Throws `not-found` if that build does not exist. */
  list(options?: CallOptions & { readonly build?: RefLike }): Promise<readonly GameServer[]>
  /** Ends and replaces a server: at once if it is idle, after its match if it is Active. Throws `invalid` or `not-found`. */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends and replaces a server, even an Active one, after its grace period. Throws `not-found`. */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
  /**
   * Lines of the server's stdout and stderr. With `follow`, continues until the server has ended. The signal ends the
   * iteration without an error. Throws `unsupported` if the backend keeps no logs; the first read rejects with `not-found`
   * if there are none of this server. The process backend also keeps the logs of servers that have ended.
   */
  logs(ref: RefLike, options?: LogsOptions): AsyncIterableIterator<string>
}

/** Players connected to servers, as reported by their heartbeats. */
export interface Details {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerDetail>
  /** The details of all servers of a build. Throws `not-found`. */
  ofBuild(ref: RefLike, options?: CallOptions): Promise<GameServerBuildDetail>
}

export interface AllocateOptions extends CallOptions {
  /**
   * How long to wait in ms if no server is standing by. Default 0: reject at once. At most `limits.maxWaitMs`. A waiting
   * caller counts as demand until 3 s after its timeout, so a retry finds the server that was started for it.
   */
  readonly waitMs?: number
}

/** What `explain` returns: a server's current state and its history. */
export interface ServerHistory {
  /** Absent if the server no longer exists. */
  readonly server?: GameServer
  /** Its events in the log, oldest first. */
  readonly events: readonly FleetEvent[]
  /** The same events as text: one line each, with an ISO 8601 time and the message. */
  readonly text: string
}

export interface FleetStats {
  /** This host leads. */
  readonly leads: boolean
  /** Heartbeats received since this fleet was created. */
  readonly heartbeats: number
  /** Empty while another host leads. */
  readonly builds: readonly BuildStats[]
}

export interface FleetHealth {
  /** This host can serve calls: it leads, does not drain, and its store and backend work. */
  readonly ready: boolean
  /** This host leads. */
  readonly leads: boolean
  /** The store works. */
  readonly store: boolean
  /** The backend works. */
  readonly backend: boolean
  /** A sentence for each problem; empty if `ready`. */
  readonly problems: readonly string[]
}

/**
 * Calls on builds, servers and details, and `allocate`, `explain` and `drain`, also throw `not-leader`, `closed` and
 * `aborted`; calls that write throw `unavailable` if the store does not accept the write.
 */
export interface Fleet {
  readonly builds: Builds
  readonly servers: Servers
  readonly details: Details
  /** `host:port` where game servers reach the agent. Absent if this fleet has none. */
  readonly agentAddress: string | undefined
  /**
   * Allocates a server to a session. The same `sessionID` always gets the same server. The allocation is durable when this
   * resolves. Throws `invalid`, `not-found` (no build has this buildID), `none-standing-by` or `max-reached` (also after
   * `waitMs`), `unavailable`, `not-leader`, `draining`, `closed`, `aborted`.
   */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  /** Handles one heartbeat of a game server in constant time, without I/O. Never throws; unknown servers get an answer too. */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /** Adds a listener for one type of event, or for all with `*`, until the returned function is called. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /**
   * Reads events in order, first from the log and then as they are emitted, until the signal fires or the fleet is closed. A
   * reader that asks for events no longer in the log, or falls behind it, gets one `EventsDropped` in their place.
   */
  events(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped>
  /** Adds an observer of call durations, until the returned function is called. For metrics, see `gamekeeper/metrics`. */
  observe(observer: FleetObserver): () => void
  /** Current statistics. Walks over all servers. */
  stats(): FleetStats
  /** Probes the store and the backend; results are cached for 2 s. Never rejects. */
  health(): Promise<FleetHealth>
  /** Why a server is in its state or has ended. Throws `not-found` if it does not exist and the log has no events of it. */
  explain(server: RefLike, options?: CallOptions): Promise<ServerHistory>
  /**
   * Stops allocating, ends idle servers, and lets Active ones finish. Resolves when no servers remain, or at the deadline.
   * Throws `invalid`.
   */
  drain(options?: DrainOptions): Promise<DrainResult>
  /** Closes this host's part of the fleet. Game servers keep running, and the next host takes them over. */
  close(): Promise<void>
}
