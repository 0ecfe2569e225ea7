/** What a fleet reports of itself: statistics, health, and measurements of its own work. Nothing is measured unless an observer is added. */
import type { EndingReason, Ref } from '../rules/model/resources.js'
import type { BuildCounts, BuildHealth, ConditionType } from '../rules/model/build-status.js'
import type { IsolationStatus } from './backend.js'
import type { ErrorCode } from './errors.js'

export type BackendOperation =
  'create' | 'destroy' | 'list' | 'prepare' | 'protect' | 'unprotect' | 'find' | 'stdin' | 'exec'
export type StoreCollection = 'builds' | 'servers' | 'details' | 'demand'
export type StoreOperation = 'get' | 'list' | 'create' | 'update' | 'delete'

/** Durations are in ms. The methods are called synchronously during the measured work, so they must return quickly. */
export interface FleetObserver {
  /** A call to `allocate` settled. `outcome` is `ok` or the error code. */
  allocated?(outcome: 'ok' | ErrorCode, ms: number): void
  /**
   * A request to the HTTP APIs of this host was answered, also if another host has carried it out. `outcome` is `ok` or the error code.
   * Not called for a request that another host has forwarded to this one.
   */
  answered?(operation: string, outcome: 'ok' | ErrorCode): void
  /** A build was reconciled. */
  reconciled?(ms: number): void
  /** A call to the backend settled. */
  backendCall?(operation: BackendOperation, outcome: CallOutcome, ms: number): void
  /** A call to the store settled. */
  storeCall?(collection: StoreCollection, operation: StoreOperation, outcome: CallOutcome, ms: number): void
  /** The leader began to answer a request that this host has forwarded, or the request failed. An attempt that is repeated counts again. */
  forwarded?(kind: ForwardedKind, outcome: ForwardedOutcome, ms: number): void
}

/** The observers of a fleet, as parts outside the engine report to them. */
export interface ObserverReports {
  /** True if there are none, so that nothing need be measured. */
  readonly isEmpty: boolean
  report(report: (observer: FleetObserver) => void): void
}

export type ForwardedKind = 'call' | 'heartbeat'

/** `unsent`: the leader could not be reached. `unknown`: the connection broke after the request was sent. */
export type ForwardedOutcome = 'ok' | 'unsent' | 'unknown'

/** `conflict`: the store works, but rejected the call because the record had changed or been deleted. */
export type CallOutcome = 'ok' | 'conflict' | 'failed'

/** The statistics of a build. */
export interface BuildStats {
  readonly build: Ref
  /** From its spec. */
  readonly standingBy: number
  /** From its spec. */
  readonly max: number
  readonly health: BuildHealth
  /** True while all the servers that should stand by do so with the current template, and nothing keeps the build from starting more. */
  readonly ready: boolean
  /** The conditions that are set. */
  readonly conditions: readonly ConditionType[]
  /** Number of crashes since the build was created. */
  readonly crashes: number
  readonly servers: BuildCounts
  /** Number of servers, without those that are Terminating, that run the current template, and an earlier one. */
  readonly templates: { readonly updated: number; readonly outdated: number }
  /** Number of players connected to its servers. */
  readonly players: number
  /** Number of callers waiting for one of its servers. */
  readonly waiting: number
}

/** What happened in one minute. */
export interface ActivityMinute {
  /** When the minute began: wall time in ms, a multiple of 60,000. */
  readonly at: number
  /** Number of servers in each state. Like `players`, as counted last in this minute; counted every 10 s. */
  readonly servers: BuildCounts
  /** How many were wanted to stand by: decided by scaling policies, or `standingBy`. Counted as the servers are. */
  readonly wanted: number
  /** Number of connected players. */
  readonly players: number
  /** The highest number of waiting callers that was counted. */
  readonly waiting: number
  readonly allocations: number
  /** Calls that got no server, because none was ready. */
  readonly refused: number
  /**
   * Half of the minute's allocations took at most this long, in ms, from the call until the allocation was durable. At most a tenth too
   * long. Absent without allocations.
   */
  readonly p50Ms?: number
  /** The same for 99 % of the minute's allocations. */
  readonly p99Ms?: number
  readonly crashes: number
}

export interface ActivityCrash {
  /** Wall time in ms. */
  readonly at: number
  readonly build: Ref
  readonly server: Ref
  readonly reason: EndingReason
  /** A human-readable sentence. */
  readonly message: string
  /** The last lines that the server has printed, joined by ` | `. Absent until they are read, and if there are none. */
  readonly output?: string | undefined
}

/** The last hour of a fleet, or of one build. It is kept in memory, and begins when this host becomes the leader. */
export interface FleetActivity {
  /** Wall time in ms at which the records begin. */
  readonly since: number
  /** Since then: sessions that were given a server, and hours of servers, whatever their state; counted every 10 s. */
  readonly totals: { readonly sessions: number; readonly serverHours: number }
  /** Oldest first, with the current minute: at most 60. Minutes in which this host was suspended are absent. */
  readonly minutes: readonly ActivityMinute[]
  /**
   * The latest crashes, newest first, at most 50 in all: those of the last hour, and the latest ten of each build, however old, which the
   * store keeps and which may be older than `since`.
   */
  readonly crashes: readonly ActivityCrash[]
}

export function callOutcome(outcome: 'ok' | ErrorCode): CallOutcome {
  if (outcome === 'ok') return 'ok'
  return outcome === 'conflict' || outcome === 'not-found' ? 'conflict' : 'failed'
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
  /**
   * True if this host can serve calls: it is the leader, is not draining, and its store and backend work. Or it forwards calls, has once been
   * able to lead, and reaches the leader or could lead now.
   */
  readonly ready: boolean
  /** True if this host is the leader. */
  readonly leads: boolean
  /**
   * False if this host could neither lead nor find out who does for a minute, such as without valid credentials. `problems` says why.
   */
  readonly canLead: boolean
  /** True if the store works. */
  readonly store: boolean
  /** True if the backend works. */
  readonly backend: boolean
  /** A sentence for each problem; empty if `ready`. */
  readonly problems: readonly string[]
  /**
   * How this host separates game servers, and which limits hold. Only for backends that depend on the machine for this: the
   * process backend.
   */
  readonly isolation?: IsolationStatus
  /** True if the backend measures what servers use: see `servers.usage`. Absent if it does not. */
  readonly measuresUsage?: true
}
