/** What the engine keeps in memory about each build and each server during a leadership term. Changed through the inventory. */
import type { Instance } from '../../contracts/backend.js'
import type { HeartbeatAnswer, SessionConfig } from '../../rules/game/heartbeat.js'
import type { Backoff } from '../../rules/lifecycle/backoff.js'
import type { HealthReports } from '../../rules/lifecycle/health.js'
import type { Build, Ref, Server, Session } from '../../rules/model/resources.js'
import type { Link, LinkedSet } from './linked-set.js'

/**
 * A server's state, with two further distinctions: whether a StandingBy server can be allocated (`ready` or `unready`), and
 * whether an idle server runs the build's current template (`outdated…` if it does not).
 */
export type Bucket =
  | 'pending'
  | 'initializing'
  | 'ready'
  | 'unready'
  | 'outdatedPending'
  | 'outdatedInitializing'
  | 'outdatedReady'
  | 'outdatedUnready'
  | 'reserved'
  | 'active'
  | 'terminating'

/** After a restart, the `…Since` fields in elapsed ms are estimates derived from the record's wall-clock times. */
export interface ServerEntry {
  readonly build: BuildEntry
  readonly ref: Ref
  /** The sessionHostId in the path of the server's heartbeats. */
  readonly hostId: string
  /** The current record, whether saved or not. Changed only through the inventory. */
  record: Server
  /** The record as last known to be in the store. Differs from `record` until `record` is saved. */
  stored: Server | undefined
  /** Revision of the record in the store. Undefined until the record has been created there. */
  revision: string | undefined
  /** True if another writer has deleted the record from the store, so that it must not be written again. */
  recordDeleted: boolean
  bucket: Bucket
  /** The server's position in its bucket. */
  readonly bucketLink: Link<ServerEntry>
  /** The server's position in one of the build's three heartbeat lists. */
  readonly heartbeatLink: Link<ServerEntry>
  /** The session that the server is being allocated to. Not durable yet, so the caller has not been answered. */
  intent: Session | undefined
  /** True if the outcome of writing `intent` is unknown. The server then stays reserved until the store has been read back. */
  uncertain: boolean
  /** The write in progress, if any. */
  saving: Promise<void> | undefined
  /** True while an action for this server is in progress. */
  busy: boolean
  /** The back-off after failed actions for this server. */
  retry: Backoff
  /** True if this host or an earlier leader has called `backend.create` for this server. */
  createRequested: boolean
  instance: Instance | undefined
  /**
   * Sequence number of the observation that set `instance`. A list that was requested earlier is out of date for this
   * server.
   */
  observationSeq: number
  /** A sentence saying why the server is still Pending. */
  pendingReason: string | undefined
  healthReports: HealthReports
  /** Time of the last heartbeat, or the time since which this host has been waiting for one, on the responsive clock. */
  silentSince: number
  /** Time at which this host first saw the server's process running, on the responsive clock. */
  runningSince: number | undefined
  /** Elapsed ms. */
  standingBySince: number | undefined
  /** Elapsed ms. */
  activeSince: number | undefined
  /** Elapsed ms. */
  terminatingSince: number | undefined
  /**
   * True if the server had a session and was sending heartbeats when it began to terminate, so that the answer to the next
   * heartbeat tells the game to exit.
   */
  terminatesByHeartbeat: boolean
  /** True if the server's crash is included in the build's durable count. */
  crashCounted: boolean
  /** True if this host has called `backend.protect` for this server. */
  isProtected: boolean
  players: readonly string[]
  /** Revision of the server's detail record. Undefined while the store has none. */
  detailRevision: string | undefined
  /** The build metadata that the server was started with. Set when the build's spec changes. */
  startMetadata: SessionConfig['metadata'] | undefined
  /**
   * Heartbeat answers while the server is Active, built once and reused: `active` is sent until the game reports Active, and
   * `continue` after that.
   */
  sessionAnswers: { readonly active: HeartbeatAnswer; readonly continue: HeartbeatAnswer } | undefined
}

export interface BuildEntry {
  readonly ref: Ref
  record: Build
  revision: string
  /** True if the build's record has been deleted. Its servers are then terminating. */
  deleted: boolean
  readonly buckets: Readonly<Record<Bucket, LinkedSet<ServerEntry>>>
  /** Servers that must be saved, started, protected or destroyed. */
  readonly needsAction: Set<ServerEntry>
  /** Running servers that have never sent a heartbeat, in the order in which they started. */
  readonly awaitingFirstHeartbeat: LinkedSet<ServerEntry>
  /** Servers that sent heartbeats before this host became the leader or was suspended, but have sent none since. */
  readonly awaitingHeartbeat: LinkedSet<ServerEntry>
  /** Servers that have sent heartbeats to this host, least recent heartbeat first. */
  readonly heartbeating: LinkedSet<ServerEntry>
  /** Template hash of the build's current spec. */
  templateHash: string
  backoff: Backoff
  /**
   * Template hash of the most recent server that crashed while running the current template. Holds up a rolling update to
   * that template.
   */
  crashedTemplate: string | undefined
  /** True while an operator is draining the build. */
  draining: boolean
  /** True while the build's record is being written. */
  writing: boolean
}
