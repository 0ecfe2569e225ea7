/** What a caller asks for: a server of a build, or one that fits a selector, and what to change on it. */
import type { EndedSession } from '../game/heartbeat.js'
import type { ServerDataUpdate } from '../lifecycle/server-data.js'
import type { ServerMetadata } from './wire.js'

export interface AllocationRequest {
  /** The spec.buildID of the build to allocate from. Exactly one of this, `select` and `server` is set. */
  readonly buildID?: string
  /** Which servers fit, most wanted first: the first selector that any server fits wins. */
  readonly select?: readonly ServerSelector[]
  /**
   * The server to allocate, also if it is reserved. It has to be standing by, since such a request does not wait. Not beside `order`. In
   * the namespace `default` unless it says otherwise. Can be the metadata of a server, whose other fields are ignored.
   */
  readonly server?: Pick<ServerMetadata, 'name'> & Partial<ServerMetadata>
  /**
   * 1 to 128 visible characters, with spaces only between others; not `.` or `..`. The same sessionID always gets the same server
   * while that server exists, terminating or not. GUIDs are compared without regard to case, all other ids exactly.
   */
  readonly sessionID: string
  /** Passed to the game server through its SDK. */
  readonly sessionCookie?: string
  /** Ids of the players expected to connect first. */
  readonly initialPlayers?: readonly string[]
  /**
   * Which of the servers that fit the same selector is taken. Default: the order in the spec of the first build that the selector names,
   * the oldest of those with `buildLabels`.
   */
  readonly order?: AllocationOrder
  /** Labels to set on the server together with the session; null removes one. */
  readonly labels?: NonNullable<ServerDataUpdate['labels']>
  /** Annotations to set on the server together with the session; null removes one. */
  readonly annotations?: NonNullable<ServerDataUpdate['annotations']>
  /** Changes of counters, together with the session. A server that they would take out of range does not fit. */
  readonly counters?: NonNullable<ServerDataUpdate['counters']>
  /** Changes of lists, together with the session. A server that they would overfill does not fit. */
  readonly lists?: NonNullable<ServerDataUpdate['lists']>
}

/** An allocation as a caller writes it: exactly one of `buildID`, `select` and `server` says from which servers one is taken. */
export type AllocationInput = Omit<AllocationRequest, 'buildID' | 'select' | 'server'> &
  (
    | { readonly buildID: string; readonly select?: never; readonly server?: never }
    | { readonly select: readonly ServerSelector[]; readonly buildID?: never; readonly server?: never }
    | { readonly server: NonNullable<AllocationRequest['server']>; readonly buildID?: never; readonly select?: never }
  )

/** The session for which a game takes its own server. */
export interface OwnAllocationRequest {
  /** As in an allocation. Default: one that no other server has, the same for a repeated call. */
  readonly sessionID?: string
  readonly sessionCookie?: string
  readonly initialPlayers?: readonly string[]
  /** The session that the game has ended last, if the fleet may not know that yet, as in its heartbeats. */
  readonly endedSession?: EndedSession
}

export const allocationOrders = [
  'first-ready',
  'newest',
  'packed',
  'distributed',
  'least-available',
  'most-available',
] as const

/** Servers that run the current template go first in any order. Of equal servers, the one that has been standing by for longest is taken. */
export interface AllocationOrder {
  /**
   * - `first-ready`: the server that has been standing by for longest.
   * - `newest`: the one that has been standing by for the shortest time.
   * - `packed`: one on the machine where the most servers of the fleet have a session, so that other machines become empty.
   * - `distributed`: one on the machine where the fewest have.
   * - `least-available`, `most-available`: the one whose counter has the least, or the most, left up to its capacity. A server without the
   *   counter comes last.
   */
  readonly by: (typeof allocationOrders)[number]
  /** Name of the counter. Only for `least-available` and `most-available`, and required for them. */
  readonly counter?: string
}

export const selectableStates = ['ready', 'active'] as const

/** A server fits if it is of one of the builds and meets all conditions. Names builds by `builds`, `buildLabels` or both. */
export interface ServerSelector {
  /** BuildIDs. Those that no build has are passed over. */
  readonly builds?: readonly string[]
  /** Labels that the build must have in its spec. Without `builds`, every build that has them is named. */
  readonly buildLabels?: Readonly<Record<string, string>>
  /**
   * `ready`: a server that is standing by. `active`: a server that runs sessions and has room for another one; of several, the one with the
   * most sessions is taken, and `order` is ignored. Default: `ready`.
   */
  readonly state?: (typeof selectableStates)[number]
  /** Labels that the server must have. */
  readonly matchLabels?: Readonly<Record<string, string>>
  readonly matchExpressions?: readonly LabelExpression[]
  readonly counters?: Readonly<Record<string, CounterCondition>>
  readonly lists?: Readonly<Record<string, ListCondition>>
}

export const labelOperators = ['In', 'NotIn', 'Exists', 'DoesNotExist'] as const

/** As in Kubernetes: `NotIn` is also true of a server without the label. */
export interface LabelExpression {
  readonly key: string
  readonly operator: (typeof labelOperators)[number]
  /** For `In` and `NotIn`. */
  readonly values?: readonly string[]
}

/** A server without the counter does not fit. */
export interface CounterCondition {
  readonly minCount?: number
  /** The least that must be left up to the capacity. */
  readonly minAvailable?: number
}

/** A server without the list does not fit. */
export interface ListCondition {
  /** A value that the list must have. */
  readonly contains?: string
  /** The least that must be left up to the capacity. */
  readonly minAvailable?: number
}

/** How long an allocation without `waitMs` waits until the game has confirmed its session. */
export const defaultConfirmMs = 10_000

/** How long an allocation with `confirm` may take in all. */
export function confirmTimeoutMs(waitMs: number | undefined, maxWaitMs: number): number {
  return waitMs ?? Math.min(defaultConfirmMs, maxWaitMs)
}
