/**
 * The records of builds, servers and details, as the engine uses them and a store keeps them. Records are immutable: a
 * change creates a new record. Their public form is defined in `wire.ts`.
 */
import type { GameSpec } from '../game/probes.js'
import type { Counter, ServerData, ValueList } from '../lifecycle/server-data.js'
import type { Ending, EndingReason } from '../lifecycle/termination.js'
import type { ScalingSpec } from '../scaling/policies.js'
import type { AllocationOrder } from './allocation-request.js'
import type { Condition } from './build-status.js'

export type { AllocationRequest } from './allocation-request.js'

export { type Ending, type EndingReason, endingReasons } from '../lifecycle/termination.js'

export { type Condition, type ConditionType, conditionTypes } from './build-status.js'

/** Identifies a build, server or detail. */
export interface Ref {
  readonly namespace: string
  readonly name: string
}

/** A name in the namespace `default`, or a name and namespace. */
export type RefLike = string | { readonly name: string; readonly namespace?: string }

/** A Kubernetes PodTemplateSpec. Every backend uses this format. */
export type PodTemplateSpec = Readonly<Record<string, unknown>>

export interface BuildSpec {
  /** Identifies the build in an allocation request. 1 to 128 characters, unique in the whole fleet. */
  readonly buildID: string
  /** Number of idle servers to keep ready. */
  readonly standingBy: number
  /** Maximum number of servers, idle and Active together. */
  readonly max: number
  /** Container ports to make public, in the order in which `status.ports` will list them. May be empty. */
  readonly portsToExpose: readonly number[]
  /** Number of crashes after which the build is Unhealthy and gets no new servers. Absent: no limit. */
  readonly crashesToMarkUnhealthy?: number
  /** Limits for this build that replace the fleet's. */
  readonly health?: HealthLimits
  readonly template: PodTemplateSpec
  /** By what the game speaks to the fleet. `none`: it does not, and the fleet asks it, as `game` says. Default: `gsdk`. */
  readonly sdk?: GameSdk
  /** What to ask a game without an SDK. Given with `sdk: 'none'`, and only then. */
  readonly game?: GameSpec
  /** What a terminating server that sends heartbeats gets first. Default: `HeartbeatFirst`. */
  readonly termination?: TerminationOrder
  /**
   * Ends a session if its game reports no player within this time, counted from the game's first heartbeat after the allocation. Never
   * ends one in which the game has reported a player. An integer ≥ 1. Default: unlimited.
   */
  readonly claimSeconds?: number
  /**
   * Number of players that a session has room for, so that seats can be reserved. 1 to 5,000. Applies to running sessions at once.
   * Absent: unknown, and seats cannot be reserved.
   */
  readonly seatsPerSession?: number
  /**
   * How many sessions a server runs at the same time, if its game takes several. 1 to 1,000. Default: 1. A change starts no rolling update:
   * a server that has more keeps them and takes no others.
   */
  readonly sessionsPerServer?: number
  /**
   * Number of sessions for which there is room at once, on running servers and on those standing by. As many more servers are kept standing
   * by as that takes. Absent: only `standingBy` counts.
   */
  readonly standingBySessions?: number
  /** Policies by which the number of servers kept ready follows demand; `standingBy` is one of them. Absent: it is `standingBy`. */
  readonly scaling?: ScalingSpec
  /** The build's part of the fleet's budget. Without a budget, it has no effect. */
  readonly budget?: BuildBudget
  /** When a server may be evicted, for example by a node scale-down. Default: `whenIdle`. */
  readonly eviction?: Eviction
  /** Passed to every game server through its SDK. */
  readonly buildMetadata?: Readonly<Record<string, string>>
  /** The counters of each server and what they begin with, by name. */
  readonly counters?: Readonly<Record<string, Counter>>
  /** The lists of each server and what they begin with, by name. */
  readonly lists?: Readonly<Record<string, ValueList>>
  /** Labels of the build, by which a selector may name it. Not those of its servers, which begin with the template's. */
  readonly labels?: Readonly<Record<string, string>>
  /** Which server an allocation that gives no order takes. Default: `first-ready`. */
  readonly order?: AllocationOrder
}

/** `gsdk`: the PlayFab GSDK or the package's own, which send heartbeats. `none`: nothing. */
export const gameSdks = ['gsdk', 'none'] as const
export type GameSdk = (typeof gameSdks)[number]

/**
 * `HeartbeatFirst`: `Terminate` in a heartbeat answer, and the termination signal near the end of the grace period.
 * `SignalFirst`: the signal at once, and `Terminate` in heartbeat answers as well.
 */
export const terminationOrders = ['HeartbeatFirst', 'SignalFirst'] as const
export type TerminationOrder = (typeof terminationOrders)[number]

/**
 * `whenIdle`: while it has no session. `never`: servers are protected from their creation, so that an allocation need not protect
 * its server.
 */
export const evictions = ['whenIdle', 'never'] as const
export type Eviction = (typeof evictions)[number]

/** How a build takes part in the budget that all builds of the fleet share. */
export interface BuildBudget {
  /** Number of servers for which room in the budget is kept free, also while the build does not use it. Never more than `max`. Default: 0. */
  readonly guaranteed?: number
  /** Builds with a larger number get their servers first, and take idle ones from others. May be negative. Default: 0. */
  readonly priority?: number
}

/** The numbers are integers ≥ 1. Default: the fleet's limit, or unlimited if the fleet has no such limit. */
export interface HealthLimits {
  /** Time allowed from the start of the process to its first heartbeat. */
  readonly firstHeartbeatSeconds?: number
  /** Time without a heartbeat after which a server is Unhealthy; at least two heartbeat intervals. */
  readonly silenceSeconds?: number
  /**
   * Time after which a server that is still starting is late, so that another is started beside it. Counted from the request
   * to start it until it is standing by.
   */
  readonly lateStartSeconds?: number
  /** Time allowed from the start of the process until the server is standing by. Default: unlimited. */
  readonly initializingSeconds?: number
  /** Session length beyond which the condition `LongSession` is set. Default: unlimited. */
  readonly sessionSeconds?: number
  /** Terminates servers whose session exceeds `sessionSeconds`. Default: false. */
  readonly endLongSessions?: boolean
}

export interface Build extends Ref {
  /** Distinguishes this build from a later one with the same name. */
  readonly uid: string
  /** Wall time in ms. */
  readonly createdAt: number
  readonly spec: BuildSpec
  /** Number of crashes since the build was created. Survives restarts. */
  readonly crashes: number
  /**
   * Uids of servers whose crash is included in `crashes` and whose record may still exist. Ensures that each crash is
   * counted only once.
   */
  readonly countedCrashes: readonly string[]
  readonly conditions: readonly Condition[]
  /** The latest crashes, newest first, at most `keptCrashes`. Absent if there are none. Survives restarts. */
  readonly recentCrashes?: readonly BuildCrash[] | undefined
}

/** How many crashes a build's record keeps. */
export const keptCrashes = 10

export interface BuildCrash {
  /** Wall time in ms. */
  readonly at: number
  /** The server's name, in the namespace of the build. */
  readonly server: string
  readonly reason: EndingReason
  /** A sentence for people. */
  readonly message: string
  /** The last lines that the server has printed, joined by ` | `. Absent if there are none, or the backend has no log. */
  readonly output?: string | undefined
}

export const serverStates = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const
export type ServerState = (typeof serverStates)[number]

export const healths = ['Healthy', 'Unhealthy', 'Unknown'] as const
/** `Unknown` until the server sends its first heartbeat. */
export type Health = (typeof healths)[number]

/** One exposed port: its number in the template, and the number that players connect to. */
export interface PortPair {
  readonly container: number
  readonly public: number
}

export const maintenanceSources = [
  /** An operator announced it for this server. */
  'server',
  /** An operator announced it for the server's node. */
  'node',
  /** The backend reported it for the server's node. */
  'backend',
] as const
export type MaintenanceSource = (typeof maintenanceSources)[number]

/** Announced maintenance, which may interrupt a server. */
export interface Maintenance {
  /** Wall time in ms at which it begins, a whole second. */
  readonly at: number
  readonly source: MaintenanceSource
}

export interface Server extends Ref {
  /** Distinguishes this server from a later one with the same name. */
  readonly uid: string
  /** The secret part of `sessionHostId`, which authenticates this server's heartbeats. */
  readonly token: string
  /** True if the store could not read the token. `token` is then one that no game knows. */
  readonly tokenLost?: true | undefined
  /** Name of the server's build, which is in the same namespace. */
  readonly build: string
  readonly buildUid: string
  /** Hash of the template that the server was started with. Differs from the build's current one after an update. */
  readonly templateHash: string
  /** Grace period from the template that the server was started with. Absent if that is not known: the build's current one applies. */
  readonly graceSeconds?: number | undefined
  /** Wall time in ms, like all times below. */
  readonly createdAt: number
  readonly state: ServerState
  readonly health: Health
  /** Known once the server's process is running. */
  readonly address?: string | undefined
  readonly node?: string | undefined
  readonly ports?: readonly PortPair[] | undefined
  readonly reachedInitializingOn?: number | undefined
  readonly reachedStandingByOn?: number | undefined
  readonly reachedActiveOn?: number | undefined
  /** In the order in which they began, and so of their numbers. Empty if it has none. */
  readonly sessions: readonly Session[]
  /** The highest number that a session of the server has or had. Absent: it never had one. Never decreases. */
  readonly startedSessions?: number | undefined
  readonly maintenance?: Maintenance | undefined
  /** Until when an idle server is reserved. Absent if it is not. */
  readonly reservedUntil?: number | undefined
  /** Labels, annotations, counters and lists. Absent if there are none. */
  readonly data?: ServerData | undefined
  readonly ending?: Ending | undefined
}

/** The mutable form of a server's record. */
export type ServerDraft = { -readonly [K in keyof Server]: Server[K] }

/** Copies a record so that it can be changed. Lists every field so that all records share one hidden class, which makes allocations fast. */
export function draftOf(server: Server): ServerDraft {
  return {
    namespace: server.namespace,
    name: server.name,
    uid: server.uid,
    token: server.token,
    tokenLost: server.tokenLost,
    build: server.build,
    buildUid: server.buildUid,
    templateHash: server.templateHash,
    graceSeconds: server.graceSeconds,
    createdAt: server.createdAt,
    state: server.state,
    health: server.health,
    address: server.address,
    node: server.node,
    ports: server.ports,
    reachedInitializingOn: server.reachedInitializingOn,
    reachedStandingByOn: server.reachedStandingByOn,
    reachedActiveOn: server.reachedActiveOn,
    sessions: server.sessions,
    startedSessions: server.startedSessions,
    maintenance: server.maintenance,
    reservedUntil: server.reservedUntil,
    data: server.data,
    ending: server.ending,
  }
}

/**
 * The players connected to a server. Kept in a separate record, because the list changes often and no decision depends on
 * it.
 */
export interface Detail extends Ref {
  /** Name of the server's build. */
  readonly build: string
  readonly players: readonly string[]
}

/** Converts a ref to a string, for map keys and messages. Unambiguous, because neither part can contain a slash. */
export function keyOf(ref: Ref): string {
  return `${ref.namespace}/${ref.name}`
}

/** What applying a build has done. `unchanged`: the build had this spec already, and nothing was written. */
export type ApplyResult = 'created' | 'updated' | 'unchanged'

/**
 * Short form of `template` and `portsToExpose`, for a game that is one program. A build is stored and returned with these two,
 * whose first container has these fields.
 */
export interface RunSpec {
  /** Program and first arguments. Required by the process backend. Default: the image's. */
  readonly command?: readonly string[]
  /** Arguments that follow the command. */
  readonly args?: readonly string[]
  /** Environment variables. `$(NAME)` inserts the value of an earlier one, or of one that the backend sets. */
  readonly env?: Readonly<Record<string, string>>
  /** Required by the Docker and Kubernetes backends, ignored by the process backend. */
  readonly image?: string
  /** Whether the game's standard input is kept open, for `servers.writeStdin`. Default: false. */
  readonly stdin?: boolean
  /** The public ports. Default: none. */
  readonly ports?: readonly RunPort[]
}

export interface RunPort {
  /** Name by which the game and `allocate` look up the port. */
  readonly name?: string
  /** The number by which the build calls the port, and on which a game in a container listens. */
  readonly port: number
  /** Default: TCP. */
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP'
}

/** A spec as a caller writes it: with `run`, or with `template` and `portsToExpose`. */
export type BuildSpecInput = Omit<BuildSpec, 'portsToExpose' | 'template'> &
  (
    | { readonly run: RunSpec; readonly portsToExpose?: undefined; readonly template?: undefined }
    | (Pick<BuildSpec, 'portsToExpose' | 'template'> & { readonly run?: undefined })
  )

export interface Session {
  readonly id: string
  readonly cookie?: string | undefined
  readonly initialPlayers: readonly string[]
  /** Seats that are held for players who are on their way, at most one for each. Absent if there are none. */
  readonly holds?: readonly SeatHold[] | undefined
  /** Its number among the sessions of its server, none of which has the same. From 1 on; a later session has a higher one. */
  readonly number: number
  /** When it was allocated, wall time in ms. */
  readonly startedAt: number
  /** True once its game has been asked to end it, while others go on. */
  readonly ending?: true | undefined
  /** True once a game without an SDK has been told of it. */
  readonly told?: true | undefined
}

/** A session that no server has yet. */
export type NewSession = Pick<Session, 'id' | 'cookie' | 'initialPlayers' | 'holds'>

/** A seat of a session, held for a player. */
export interface SeatHold {
  readonly player: string
  /** Wall time in ms. */
  readonly until: number
}
