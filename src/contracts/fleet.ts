/** The facade: what a host app holds in its hands. */
import type { LogsOptions } from './backend.js'
import type { CallOptions } from './call-options.js'
import type { EventListener, EventsDropped, FleetEvent, FleetEventType, ReadEventsOptions } from './events.js'
import type { BuildStats, FleetObserver } from './observer.js'
import type { DrainOptions, DrainResult } from './options.js'
import type { Heartbeat, HeartbeatAnswer } from '../rules/game/heartbeat.js'
import type { AllocationRequest, BuildSpec, RefLike } from '../rules/model/resources.js'
import type {
  Allocation,
  GameServer,
  GameServerBuild,
  GameServerBuildDetail,
  GameServerDetail,
} from '../rules/model/wire.js'

/** What `builds.create` takes: `status`, `apiVersion` and `kind` may stand there and are ignored. Checked in full. */
export interface GameServerBuildInput {
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly spec: GameServerBuild['spec']
}

/** What `builds.update` changes. */
export type BuildUpdate = {
  readonly [name in Exclude<keyof BuildSpec, 'buildID'>]?: BuildSpec[name] | undefined
}

export interface Builds {
  /** Throws `invalid` or `exists`. The build is durable when this resolves; its servers follow. */
  create(build: GameServerBuildInput, options?: CallOptions): Promise<GameServerBuild>
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  list(options?: CallOptions): Promise<readonly GameServerBuild[]>
  /** Changes standingBy, max or both. Throws `invalid` or `not-found`. Never ends an Active server. */
  patch(
    ref: RefLike,
    change: { readonly standingBy?: number; readonly max?: number },
    options?: CallOptions,
  ): Promise<GameServerBuild>
  /**
   * Changes a spec, all but its buildID; `undefined` takes an optional field away. A change of template, ports or
   * metadata replaces idle servers a few at a time, never an Active one; going back is the same call. Throws `invalid`
   * or `not-found`.
   */
  update(ref: RefLike, change: BuildUpdate, options?: CallOptions): Promise<GameServerBuild>
  /** Hands out and creates nothing any more, also after a restart, until `resume`; ends what is idle. */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends a drain: the build is scaled as its spec says again. */
  resume(ref: RefLike, options?: CallOptions): Promise<GameServerBuild>
  /** Ends all its servers, Active ones included. Throws `not-found`. Its name is free when this resolves. */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
}

export interface Servers {
  /** Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServer>
  /** All, or those of one build; throws `not-found` when there is no such build. */
  list(options?: CallOptions & { readonly build?: RefLike }): Promise<readonly GameServer[]>
  /** Ends it if it is idle, and waits for the end of its match if it is Active. It is replaced. Throws `not-found`. */
  drain(ref: RefLike, options?: DrainOptions): Promise<DrainResult>
  /** Ends a server, also an Active one: it is told, has its grace period, and is replaced. Throws `not-found`. */
  delete(ref: RefLike, options?: CallOptions): Promise<void>
  /**
   * What its game has written to stdout and stderr, line by line. With `follow` it goes on until the server has ended;
   * a signal that fires ends it quietly. Throws `unsupported` if this backend keeps no logs, and on the first read
   * `not-found` if there is none of this server. The process backend keeps those of servers that have ended as well.
   */
  logs(ref: RefLike, options?: LogsOptions): AsyncIterableIterator<string>
}

export interface Details {
  /** Who is connected to a server. Throws `not-found`. */
  get(ref: RefLike, options?: CallOptions): Promise<GameServerDetail>
  /** Who is connected to the servers of a build. Throws `not-found`. */
  ofBuild(ref: RefLike, options?: CallOptions): Promise<GameServerBuildDetail>
}

export interface AllocateOptions extends CallOptions {
  /**
   * How long to wait for a server when none stands by. Default 0: refuse at once. At most `limits.maxWaitMs`. Who waits is
   * demand, and for 3 s more when his time is up, so that the server that is being started for him is there when he asks
   * again.
   */
  readonly waitMs?: number
}

export interface Explanation {
  /** As it is now; absent when it is gone. */
  readonly server?: GameServer
  /** What happened to it, oldest first. */
  readonly events: readonly FleetEvent[]
  /** The same in sentences, a line each, with the time of day. */
  readonly text: string
}

export interface FleetStats {
  readonly leads: boolean
  /** Answered since this fleet was opened. */
  readonly heartbeats: number
  /** Empty while another host leads. */
  readonly builds: readonly BuildStats[]
}

export interface FleetHealth {
  /** Calls can be sent here: this host leads and hands out, and its store and its backend answer. */
  readonly ready: boolean
  readonly leads: boolean
  readonly store: boolean
  readonly backend: boolean
  /** A sentence for each thing that is not as it should be. */
  readonly problems: readonly string[]
}

export interface Fleet {
  readonly builds: Builds
  readonly servers: Servers
  readonly details: Details
  /** `host:port` where game servers reach the agent. Absent when this fleet started none. */
  readonly agentAddress: string | undefined
  /**
   * Hands out a server: the same `sessionID` always gets the same one. Durable when it resolves. Throws `invalid`,
   * `not-found` (no such buildID), `none-standing-by` or `max-reached` (also after `waitMs`), `unavailable`,
   * `not-leader`, `draining`, `closed`, `aborted`.
   */
  allocate(request: AllocationRequest, options?: AllocateOptions): Promise<Allocation>
  /** One heartbeat of a game server: constant work, no I/O. Anything is answered; see the agent. */
  heartbeat(sessionHostId: string, heartbeat: Heartbeat): HeartbeatAnswer
  /** Listens to one type of event, or to all with `*`, until the returned function is called. */
  on<T extends FleetEventType | '*'>(type: T, listener: EventListener<T>): () => void
  /**
   * Events by number, from the log and then as they happen, until the signal fires or, behind the last of them, this
   * fleet is closed. A reader that asks for what the log no longer holds, or falls behind it, gets one `EventsDropped`
   * and goes on.
   */
  events(options?: ReadEventsOptions): AsyncIterableIterator<FleetEvent | EventsDropped>
  /** Tells how long calls and passes take, until the returned function is called. For metrics, see `gamekeeper/metrics`. */
  observe(observer: FleetObserver): () => void
  /** Numbers of this moment. Walks over all servers. */
  stats(): FleetStats
  /** Asks store and backend, at most every 2 s. Never rejects. */
  health(): Promise<FleetHealth>
  /** Why a server is as it is, or why it was ended: what the log still knows of it. Throws `not-found` when that is nothing. */
  explain(server: RefLike, options?: CallOptions): Promise<Explanation>
  /** No new allocation, idle servers end, Active ones go on to their end. Resolves when all are gone, or at the deadline. */
  drain(options?: DrainOptions): Promise<DrainResult>
  /** Lets go of everything and leaves the game servers running: the next host finds them again. */
  close(): Promise<void>
}
