/**
 * The records of builds, servers and details that the engine works on and a store keeps. Immutable: a change creates a new
 * record. Their public shape is in `wire.ts`.
 */

/** Identifies a build, server or detail. */
export interface Ref {
  readonly namespace: string
  readonly name: string
}

/** A name in the namespace `default`, or a name and namespace. */
export type RefLike = string | { readonly name: string; readonly namespace?: string }

/** A Kubernetes PodTemplateSpec, on every backend. */
export type PodTemplateSpec = Readonly<Record<string, unknown>>

export interface BuildSpec {
  /** Identifies the build in an allocation request. Unique in the whole fleet, 1 to 128 characters. */
  readonly buildID: string
  /** How many idle servers to keep ready. */
  readonly standingBy: number
  /** Maximum number of servers, idle and Active together. */
  readonly max: number
  /** Container ports to make public, in the order in which `status.ports` lists them. May be empty. */
  readonly portsToExpose: readonly number[]
  /** Crashes after which the build is Unhealthy and gets no new servers. Absent: never. */
  readonly crashesToMarkUnhealthy?: number
  /** Limits of this build in place of the fleet's. */
  readonly health?: HealthLimits
  readonly template: PodTemplateSpec
  /** Passed to every game server through its SDK. */
  readonly buildMetadata?: Readonly<Record<string, string>>
}

/** Integers of at least 1. Default: the fleet's limit, or unlimited where the fleet has none. */
export interface HealthLimits {
  /** From the start of the process to its first heartbeat. */
  readonly firstHeartbeatSeconds?: number
  /** Time without a heartbeat after which a server is Unhealthy; at least two heartbeat intervals. */
  readonly silenceSeconds?: number
  /** From the start of the process to standing by. Default: unlimited. */
  readonly initializingSeconds?: number
  /** A longer session sets the condition `LongSession`. Default: unlimited. */
  readonly sessionSeconds?: number
  /** Terminates servers whose session exceeds `sessionSeconds`. Default: false. */
  readonly endLongSessions?: boolean
}

/** A current condition of a build that its operator should know about. */
export interface Condition {
  /**
   * - `Crashing`: a server crashed recently; creation backs off.
   * - `CreateBlocked`: the backend cannot start servers now.
   * - `LongSession`: a session is longer than the build allows.
   * - `Draining`: an operator drains the build; servers are neither allocated nor created.
   * - `Clamped`: standingBy was edited to more than max in the store, and counts as max.
   * - `Invalid`: the spec was edited in the store and is invalid; no servers are created.
   */
  readonly type: ConditionType
  /** One word for programs: an error code, `NonZeroExit`, `Silent`… */
  readonly reason: string
  /** A sentence for people. */
  readonly message: string
  /** Wall time in ms. */
  readonly since: number
}

export const conditionTypes = ['Crashing', 'CreateBlocked', 'LongSession', 'Draining', 'Clamped', 'Invalid'] as const
export type ConditionType = (typeof conditionTypes)[number]

export interface Build extends Ref {
  /** Distinguishes this build from a later one of the same name. */
  readonly uid: string
  /** Wall time in ms. */
  readonly createdAt: number
  readonly spec: BuildSpec
  /** Crashes since the build was created. Survives restarts. */
  readonly crashes: number
  /** Uids of servers whose crash is included in `crashes` and whose record may still exist. Ensures that each crash counts once. */
  readonly countedCrashes: readonly string[]
  readonly conditions: readonly Condition[]
}

export const serverStates = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const
export type ServerState = (typeof serverStates)[number]

export const healths = ['Healthy', 'Unhealthy', 'Unknown'] as const
/** `Unknown` until the first heartbeat. */
export type Health = (typeof healths)[number]

/** One exposed port: the number in the template, and the number that players connect to. */
export interface PortPair {
  readonly container: number
  readonly public: number
}

export interface Session {
  /** A GUID. */
  readonly id: string
  readonly cookie?: string
  readonly initialPlayers: readonly string[]
}

/** Why a server terminates. Set once, together with the state Terminating. */
export interface Ending {
  /** One word for programs. */
  readonly reason: EndingReason
  /** A sentence for people. */
  readonly message: string
  /** Counts towards the build's crashes. */
  readonly crash: boolean
  /** Wall time in ms. */
  readonly at: number
}

export const endingReasons = [
  /** The process exited with code 0, or the game reported that it is ending. */
  'Exited',
  'NonZeroExit',
  /** Its instance no longer exists, for an unknown reason. */
  'Gone',
  'NeverSpoke',
  'NeverReady',
  'Silent',
  'ReportedUnhealthy',
  'SessionTooLong',
  'ScaledDown',
  /** Replaced by a rolling update. */
  'Replaced',
  'Deleted',
  'BuildDeleted',
  'Drained',
] as const
export type EndingReason = (typeof endingReasons)[number]

export interface Server extends Ref {
  /** Distinguishes this server from a later one of the same name. */
  readonly uid: string
  /** The secret half of `sessionHostId`: authenticates heartbeats of this server. */
  readonly token: string
  /** Name of its build, in the same namespace. */
  readonly build: string
  readonly buildUid: string
  /** Hash of the template that it was started with; differs from its build's after an update. */
  readonly templateHash: string
  /** Grace period of the template that it was started with. Absent in older records: that of its build. */
  readonly graceSeconds?: number | undefined
  /** Wall time in ms, like every time below. */
  readonly createdAt: number
  readonly state: ServerState
  readonly health: Health
  /** Known once its process is running. */
  readonly address?: string | undefined
  readonly node?: string | undefined
  readonly ports?: readonly PortPair[] | undefined
  readonly reachedInitializingOn?: number | undefined
  readonly reachedStandingByOn?: number | undefined
  readonly reachedActiveOn?: number | undefined
  readonly session?: Session | undefined
  readonly ending?: Ending | undefined
}

/** A mutable copy of a server's record. */
export type ServerDraft = { -readonly [K in keyof Server]: Server[K] }

/**
 * Copies a record for a change. Lists every field, so that all records have one hidden class: reading and copying them is
 * a large part of the cost of an allocation.
 */
export function draftOf(server: Server): ServerDraft {
  return {
    namespace: server.namespace,
    name: server.name,
    uid: server.uid,
    token: server.token,
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
    session: server.session,
    ending: server.ending,
  }
}

/** The players connected to a server. A separate record, since it changes often and no decision depends on it. */
export interface Detail extends Ref {
  /** Name of the build of its server. */
  readonly build: string
  readonly players: readonly string[]
}

export interface AllocationRequest {
  readonly buildID: string
  /** A GUID. The same sessionID always gets the same server while that server exists. */
  readonly sessionID: string
  /** Passed to the game server through its SDK. */
  readonly sessionCookie?: string
  /** Ids of the players expected to connect first. */
  readonly initialPlayers?: readonly string[]
}

/** A ref as one string, for map keys and messages. Neither part contains a slash. */
export function keyOf(ref: Ref): string {
  return `${ref.namespace}/${ref.name}`
}
