/** The fleet facade: the interface that a host app calls. */
import type { Heartbeat, HeartbeatAnswer, ParkedHeartbeat } from '../rules/game/heartbeat.js'
import type { DemandRecording } from '../rules/demand/demand-day.js'
import type { AllocationInput, OwnAllocationRequest } from '../rules/model/allocation-request.js'
import type { ApplyResult, BuildSpec, BuildSpecInput, RefLike, RunSpec } from '../rules/model/resources.js'
import type { ServerData, ServerDataUpdate } from '../rules/lifecycle/server-data.js'
import type { GameServer, GameServerBuild, GameServerBuildDetail, GameServerDetail } from '../rules/model/wire.js'
import type { AllOptions, AuditedCallOptions, CallOptions, Page, PageOptions } from './call-options.js'
import type { LogsOptions } from './backend.js'
import type { EventListener, EventReader, FleetEvent, FleetEventType, ReadEventsOptions } from './events.js'
import type { FleetProblem } from '../rules/model/problems.js'
import type { FleetActivity, FleetHealth, FleetObserver, FleetStats } from './observer.js'
import type { DrainOptions, DrainResult } from './options.js'
import type {
  AllocateManyOptions,
  AllocateOptions,
  Allocation,
  BatchResult,
  OwnAllocation,
  Sessions,
} from './sessions.js'
import type { FleetStore } from './store.js'

export type { FleetHealth, FleetStats } from './observer.js'
export type { FleetProblem, ProblemKind, Severity } from '../rules/model/problems.js'
export type { AllocateManyOptions, AllocateOptions } from './sessions.js'
export type { FleetStore } from './store.js'

/** Input of `builds.create`. `metadata` and `spec` are fully validated; `status`, `apiVersion` and `kind` are ignored. */
export interface GameServerBuildInput {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: BuildSpecInput
}

/** Returns its argument, so that a compiler and an editor check a build where it is written: `const arena = defineBuild({ … })`. */
export function defineBuild(build: GameServerBuildInput): GameServerBuildInput {
  return build
}

/** Input of `builds.update`: the fields to change. `run` replaces the whole template and its ports. */
export type BuildUpdate = {
  readonly [name in Exclude<keyof BuildSpec, 'buildID'>]?: BuildSpec[name] | undefined
} & { readonly run?: RunSpec | undefined }

export interface AppliedBuild {
  readonly result: ApplyResult
  readonly build: GameServerBuild
}

/** If a `RefLike` is a string, it names a resource in the `default` namespace. */
export interface Builds {
  /** Creates a build. Resolves when it is durable; its servers are started afterwards. Throws `invalid` or `exists`. */
  create(build: GameServerBuildInput, options?: AuditedCallOptions): Promise<GameServerBuild>
  /**
   * Creates a build, or gives the build that has its name exactly this spec: fields that are absent are removed, as with a file that
   * is applied again after each edit. A changed template, port or metadata starts a rolling update, as with `update`. Does not
   * end a drain. Throws `invalid`, also if the buildID differs from that of the existing build, or `exists` if another build has this
   * buildID.
   */
  apply(build: GameServerBuildInput, options?: AuditedCallOptions): Promise<AppliedBuild>
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  list(options?: CallOptions): Promise<readonly GameServerBuild[]>
  /** Lists builds one page at a time. Throws `invalid` for a limit out of range or a `continue` that is not from this list. */
  page(options?: PageOptions): Promise<Page<GameServerBuild>>
  /** Yields all builds, oldest first. Reads a page at a time, and throws what `page` throws. */
  all(options?: AllOptions): AsyncGenerator<GameServerBuild, void>
  /** Changes `standingBy`, `max` or both. Never terminates an Active server. Throws `invalid` or `not-found`. */
  patch(
    ref: RefLike,
    change: { readonly standingBy?: number; readonly max?: number },
    options?: AuditedCallOptions,
  ): Promise<GameServerBuild>
  /**
   * Changes any part of a spec except its buildID; `undefined` removes an optional field. Changing the template, ports or
   * metadata starts a rolling update, which replaces idle servers a few at a time and never replaces Active ones. To roll
   * back, update again with the earlier values. Throws `invalid` or `not-found`.
   */
  update(ref: RefLike, change: BuildUpdate, options?: AuditedCallOptions): Promise<GameServerBuild>
  /**
   * The demand for a build on the last days, today included, as it was recorded. Throws `not-found`, and `unsupported` if nothing is
   * recorded: see `limits.demandDays`.
   */
  demand(ref: RefLike, options?: CallOptions): Promise<DemandRecording>
  /**
   * Stops allocating and creating servers until `resume` is called, even across restarts, and terminates idle servers.
   * Resolves when no servers remain, or at the deadline. Throws `invalid` or `not-found`.
   */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends a drain, so that the build is scaled to its spec again. Throws `not-found`. */
  resume(ref: RefLike, options?: AuditedCallOptions): Promise<GameServerBuild>
  /**
   * Deletes a build and terminates all its servers, including Active ones. When this resolves, its name can be reused.
   * Throws `not-found`.
   */
  delete(ref: RefLike, options?: AuditedCallOptions): Promise<void>
}

/** One server, or all servers on a node. */
export type MaintenanceTarget = RefLike | { readonly node: string }

export interface MaintenanceResult {
  /** Number of servers that have the announcement, or whose announcement was withdrawn. */
  readonly servers: number
}

export interface ReserveOptions extends AuditedCallOptions {
  /** How long the server is reserved from now on, in ms: an integer from 1 to 604,800,000, which is 7 days. */
  readonly forMs: number
}

export interface ServerFilter {
  /** Only the servers of this build. Default: all servers. */
  readonly build?: RefLike
}

export interface Servers {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServer>
  /** Lists all servers, or only those of one build. Throws `not-found` if that build does not exist. */
  list(options?: CallOptions & ServerFilter): Promise<readonly GameServer[]>
  /**
   * Lists servers one page at a time. Throws `not-found` if the build does not exist, and `invalid` for a limit out of range or a
   * `continue` that is not from this list with this filter.
   */
  page(options?: PageOptions & ServerFilter): Promise<Page<GameServer>>
  /** Yields all servers, or those of one build, oldest first. Reads a page at a time, and throws what `page` throws. */
  all(options?: AllOptions & ServerFilter): AsyncGenerator<GameServer, void>
  /**
   * Changes labels, annotations, counters and lists of a server, all of them or none. Resolves when the change is durable. It survives
   * restarts, and changes in counters and lists never pass their capacity, however many calls are made at once. Throws `invalid`, also
   * for a counter or list that the spec of the server's build does not declare, `out-of-range` if a count or list would leave its
   * range or there would be too many labels or annotations, or `not-found`, also for a server that is terminating. After
   * `unavailable`, the change may still take effect.
   */
  update(ref: RefLike, change: ServerDataUpdate, options?: AuditedCallOptions): Promise<GameServer>
  /**
   * Terminates and replaces a server: immediately if it is idle, after its match if it is Active. Throws `invalid` or
   * `not-found`.
   */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /**
   * Announces that maintenance begins at `at`, a time in the future (a Date or wall time in ms, rounded down to a second; at most
   * 365 days ahead). The server, or every server on a node, receives it with its next heartbeats, and so do servers that start
   * on the node before that time. Replaces an earlier announcement of the same kind; one for a single server takes precedence
   * over one for its node. Survives restarts. Resolves when it is durable. Throws `invalid`, or `not-found` if there is no such
   * server or none on the node.
   */
  announceMaintenance(
    target: MaintenanceTarget,
    at: Date | number,
    options?: AuditedCallOptions,
  ): Promise<MaintenanceResult>
  /** Withdraws the announcement for a server or a node. Resolves when that is durable. Throws `not-found`. */
  withdrawMaintenance(target: MaintenanceTarget, options?: AuditedCallOptions): Promise<MaintenanceResult>
  /**
   * Reserves an idle server for `forMs`, or renews its reservation: until then it is neither allocated to a request that does not name it
   * (`AllocationRequest.server`), nor scaled down, nor replaced by a rolling update, and another is started in its place as far as `max`
   * allows. The reservation lapses by itself, survives restarts, and ends when the server is allocated. Drains, `delete`, crashes and
   * failed health checks still end the server. Resolves when it is durable. Throws `invalid`, `in-use` if the server has a session
   * or is being allocated, `draining`, or `not-found`, also for a server that is terminating. After `unavailable`, it may still take effect.
   */
  reserve(ref: RefLike, options: ReserveOptions): Promise<GameServer>
  /** Ends the reservation of a server, if there is one. Resolves when that is durable. Throws `not-found`. */
  release(ref: RefLike, options?: AuditedCallOptions): Promise<GameServer>
  /** Terminates a server with its grace period, even if it is Active, and replaces it. Throws `not-found`. */
  delete(ref: RefLike, options?: AuditedCallOptions): Promise<void>
  /**
   * Yields the lines of the server's stdout and stderr. With `follow`, continues until the server has ended. If the signal
   * fires, the iteration ends without an error. Throws `unsupported` if the backend keeps no logs; the first read rejects
   * with `not-found` if there are no logs for this server. The process backend also keeps the logs of servers that have
   * ended. A line longer than 1 MiB is yielded in pieces. The secret in the server's sessionHostId, which GSDK clients print, is
   * replaced by `***`.
   */
  logs(ref: RefLike, options?: LogsOptions): AsyncIterableIterator<string>
  /**
   * Sends a line to the standard input of a server whose build has `stdin: true`; a line break at its end is optional. What the game
   * answers is in its log. Resolves once the backend has taken the line, which does not mean that the game has read it. Throws
   * `invalid` for more than one line, other control characters or more than 4095 bytes, `not-found`, `no-stdin` if the server
   * takes no input now, or `unsupported` if the backend cannot do this. After `unavailable`, the line may have arrived.
   */
  writeStdin(ref: RefLike, line: string, options?: AuditedCallOptions): Promise<void>
  /**
   * Measures what a running server uses. The CPU is the average since the last measurement of this server, at most a minute ago, and else over
   * half a second, which the call then waits. Throws `not-found`, or `unsupported` if the backend or its system does not measure it.
   */
  usage(ref: RefLike, options?: CallOptions): Promise<ServerUsage>
}

export interface ServerUsage {
  /** When it was measured, wall time in ms. */
  readonly at: number
  readonly memoryBytes: number
  /** CPU cores in use. */
  readonly cpuCores: number
}

/** Players connected to servers, as reported by their heartbeats. */
export interface Details {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerDetail>
  /** Returns the details of all servers of a build. Throws `not-found`. */
  ofBuild(ref: RefLike, options?: CallOptions): Promise<GameServerBuildDetail>
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

/**
 * All calls on builds, servers and details, as well as `allocate`, `explain` and `drain`, can also throw `not-leader`,
 * `closed` and `aborted`. Calls that write throw `unavailable` if the store does not accept the write.
 */
export interface Fleet {
  readonly builds: Builds
  readonly servers: Servers
  readonly details: Details
  readonly sessions: Sessions
  /** `host:port` at which game servers reach the agent. Absent if this fleet has no agent. */
  readonly agentAddress: string | undefined
  /**
   * Allocates a server to a session. The same `sessionID` always gets the same server. Resolves when the allocation is
   * durable or, with `confirm`, when the game has also confirmed the session. With `select`, the server is one that fits, with `server`, the one that
   * is named; with
   * `labels`, `annotations`, `counters` or `lists`, these are changed in the same write. Throws `invalid`, `not-found` (no build has this
   * buildID), `none-standing-by` or `max-reached` (also after `waitMs`), `not-confirmed`, `unavailable`, `not-leader`,
   * `draining`, `closed`, `aborted`.
   */
  allocate(request: AllocationInput, options?: AllocateOptions): Promise<Allocation>
  /**
   * Allocates up to 100 sessions in one call, as `allocate` does, and in one group of writes. Returns a result for each request, in their
   * order. With `atomic`, rejects with the error of one request unless every session has a server; then none was allocated for this call,
   * except after `unavailable`, `not-leader` and `closed`: retry with the same sessionIDs. Throws `invalid`, also for a sessionID that is
   * listed twice, `not-leader`, `closed`, `aborted`.
   */
  allocateMany(requests: readonly AllocationInput[], options?: AllocateManyOptions): Promise<readonly BatchResult[]>
  /**
   * Handles one heartbeat from a game server, in constant time and without I/O. Never throws; unknown servers also get an
   * answer.
   */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /**
   * True if this host leads and a server of the fleet has this id, which contains the server's secret. An endpoint for heartbeats
   * should call it before it reads a body. Never throws.
   */
  knowsServer(sessionHostId: string): boolean
  /**
   * Postpones the answer to a heartbeat that reported StandingBy and was answered with Continue, so that the game learns of its
   * session or its termination at once: for `waitMs`, which is limited to one heartbeat interval unless it is Infinity. While the
   * server is being allocated,
   * for at least 250 ms. Returns a function that cancels the hold, to be called when the game disconnects. Returns undefined
   * if there is nothing to wait for: send the answer that `heartbeat` returned. The next heartbeat of the same server ends the
   * hold. Never throws.
   */
  parkHeartbeat(sessionHostId: string, parked: ParkedHeartbeat): (() => void) | undefined
  /**
   * Changes the data of the server with this id, which contains the server's secret, as `servers.update` does: for an endpoint that games
   * call. Resolves with the data when they are durable. Rejects with `not-found` if no server has this id, and like `servers.update`.
   */
  updateOwnData(sessionHostId: string, change: ServerDataUpdate): Promise<ServerData>
  /**
   * Allocates the server with this id, which contains the server's secret, to a session of its game's own: for an endpoint that games call.
   * Resolves with the session when it is durable; a repeated call does, too. A game that has not reported StandingBy is ready from now on.
   * Rejects with `invalid`, `in-use` if the server has another session, is getting one or is reserved, or if another server has the
   * session, `not-found` if no server has this id or it is terminating, and like `allocate`.
   */
  allocateOwnServer(sessionHostId: string, request?: OwnAllocationRequest): Promise<OwnAllocation>
  /** Adds a listener for one type of event, or for all types with `*`. The returned function removes it. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /**
   * Reads events in order, first from the log and then as they are emitted, until the signal fires or the fleet is closed.
   * If events that the reader has not read yet are no longer in the log, it receives one `EventsDropped` in their place.
   */
  events(options?: ReadEventsOptions): EventReader
  /**
   * Adds an observer that receives the durations of calls. The returned function removes it. For metrics, see
   * `gamekeeper/metrics`.
   */
  observe(observer: FleetObserver): () => void
  /** Returns current statistics. Iterates over all servers. */
  stats(): FleetStats
  /**
   * Returns what happened in the last hour, minute by minute, in the fleet or in one build, as far as this host has been the leader.
   * Iterates over all servers. Throws `invalid`, or `not-found` if the build does not exist.
   */
  activity(options?: CallOptions & ServerFilter): Promise<FleetActivity>
  readonly store: FleetStore
  /** Probes the store and the backend; results are cached for 2 s. Never rejects. */
  health(): Promise<FleetHealth>
  /**
   * Returns what is wrong with the fleet, the worst first: what the health says, and what is wrong with each build and its servers, with
   * the cause, since when, and what to do. Empty if nothing is. On a host that does not lead, only what its health says. Iterates over all
   * servers. Throws `aborted`.
   */
  problems(options?: CallOptions): Promise<readonly FleetProblem[]>
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
