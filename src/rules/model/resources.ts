/**
 * The nouns of the fleet: builds, servers and details, as records that the engine works on and a store keeps.
 * Plain and frozen in spirit: a change makes a new record. How they look on the wire is `wire.ts`.
 */

/** Names one thing within its namespace. */
export interface Ref {
  readonly namespace: string
  readonly name: string
}

/** A name in the namespace `default`, or a name with its namespace. */
export type RefLike = string | { readonly name: string; readonly namespace?: string }

/** A Kubernetes PodTemplateSpec as its author wrote it, whichever the backend. Read through `template.ts`. */
export type PodTemplateSpec = Readonly<Record<string, unknown>>

export interface BuildSpec {
  /** What an allocation names. Unique in the whole fleet, 1 to 128 characters. */
  readonly buildID: string
  /** How many idle servers to keep ready. */
  readonly standingBy: number
  /** The most servers there may be, idle and Active together. */
  readonly max: number
  /** Container ports, in the order in which `status.ports` shows them. May be empty. */
  readonly portsToExpose: readonly number[]
  /** Crashes after which the build is Unhealthy and gets no new servers. Absent: never. */
  readonly crashesToMarkUnhealthy?: number
  /** Limits of this build in place of the fleet's. */
  readonly health?: HealthLimits
  readonly template: PodTemplateSpec
  /** Handed to every game server through its SDK. */
  readonly buildMetadata?: Readonly<Record<string, string>>
}

/** All whole numbers, at least 1. What is absent is as the fleet has it, or without limit where it has none. */
export interface HealthLimits {
  /** Within which the first heartbeat must come, once the process runs. */
  readonly firstHeartbeatSeconds?: number
  /** Silence after which a server is Unhealthy; taken as two heartbeats when it is less. */
  readonly silenceSeconds?: number
  /** Within which a server must be standing by, once its process runs. Without limit when absent. */
  readonly initializingSeconds?: number
  /** Longer sessions set the condition `LongSession`. Without limit when absent. */
  readonly sessionSeconds?: number
  /** True: a session that is too long is ended. Otherwise no limit ever ends a match. */
  readonly endLongSessions?: boolean
}

/** Something that is true of a build now and that its operator should know. */
export interface Condition {
  /** `Crashing`: a server crashed lately, creation backs off. `CreateBlocked`: the backend cannot start servers now. `LongSession`: a session
   * lasts longer than the build allows. `Draining`: an operator drains it: nothing is handed out, nothing is created. `Clamped`: standingBy
   * was set above max past the API, and counts as max. `Invalid`: its spec breaks a rule since it was edited past the API: nothing is created. */
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
  /** Tells this build from a later one of the same name. */
  readonly uid: string
  /** Wall time in ms. */
  readonly createdAt: number
  readonly spec: BuildSpec
  /** Crashes since the build was made. Survives restarts. */
  readonly crashes: number
  /** Uids of servers whose crash is in `crashes` already and whose record may still exist: counts each once. */
  readonly countedCrashes: readonly string[]
  readonly conditions: readonly Condition[]
}

export const serverStates = ['Pending', 'Initializing', 'StandingBy', 'Active', 'Terminating'] as const
export type ServerState = (typeof serverStates)[number]

export const healths = ['Healthy', 'Unhealthy', 'Unknown'] as const
/** `Unknown` until the first heartbeat. */
export type Health = (typeof healths)[number]

/** One exposed port: the number inside the template, and the number that players connect to. */
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

/** Why a server ends. Set once, together with the state Terminating. */
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
  /** Its process ended with code 0, or the game said that it ends. */
  'Exited',
  'NonZeroExit',
  /** Its instance is not there any more and nobody knows why. */
  'Gone',
  'NeverSpoke',
  'NeverReady',
  'Silent',
  'ReportedUnhealthy',
  'SessionTooLong',
  'ScaledDown',
  /** It runs a template that its build no longer has. */
  'Replaced',
  'Deleted',
  'BuildDeleted',
  'Drained',
] as const
export type EndingReason = (typeof endingReasons)[number]

export interface Server extends Ref {
  /** Tells this server from a later one of the same name. */
  readonly uid: string
  /** The secret half of `sessionHostId`: who knows it may speak for this server. */
  readonly token: string
  /** Name of its build, in the same namespace. */
  readonly build: string
  readonly buildUid: string
  /** Of what it was started with: tells whether its build still wants it so. See `template-hash.ts`. */
  readonly templateHash: string
  /** How long it may take to end by itself, as its template says. Absent in records of before: as its build says now. */
  readonly graceSeconds?: number | undefined
  /** Wall time in ms, as every time below. */
  readonly createdAt: number
  readonly state: ServerState
  readonly health: Health
  /** Known once its process runs. */
  readonly address?: string | undefined
  readonly node?: string | undefined
  readonly ports?: readonly PortPair[] | undefined
  readonly reachedInitializingOn?: number | undefined
  readonly reachedStandingByOn?: number | undefined
  readonly reachedActiveOn?: number | undefined
  readonly session?: Session | undefined
  readonly ending?: Ending | undefined
}

/** A server's record on its way to become another one. */
export type ServerDraft = { -readonly [K in keyof Server]: Server[K] }

/**
 * A copy to be changed. Names every field, so that all records have the same fields in the same order wherever they come
 * from: reading and copying them is a large part of what an allocation costs, and is fastest when they are all alike.
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

/** Who is connected to a server. Changes often and belongs to nobody's hot path, so it is a record of its own. */
export interface Detail extends Ref {
  /** Name of the build of its server. */
  readonly build: string
  readonly players: readonly string[]
}

export interface AllocationRequest {
  readonly buildID: string
  /** A GUID; the same one always gets the same server, as long as that exists. */
  readonly sessionID: string
  /** Handed to the game server through its SDK. */
  readonly sessionCookie?: string
  /** User ids of players expected to connect first. */
  readonly initialPlayers?: readonly string[]
}

/** One string for a ref, for maps and messages. Neither part can hold a slash. */
export function keyOf(ref: Ref): string {
  return `${ref.namespace}/${ref.name}`
}
