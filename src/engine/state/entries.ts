/** What the engine holds in memory for each build and each server during a leadership term. Changed through the inventory. */
import type { Instance } from '../../contracts/backend.js'
import type { HeartbeatAnswer, SessionConfig } from '../../rules/game/heartbeat.js'
import type { Backoff } from '../../rules/lifecycle/backoff.js'
import type { HealthReports } from '../../rules/lifecycle/health.js'
import type { Build, Ref, Server, Session } from '../../rules/model/resources.js'
import type { Link, LinkedSet } from './linked-set.js'

/**
 * A server's state, with two distinctions added: StandingBy servers by whether they can be allocated, and idle servers by
 * whether they run the build's current template (`outdated…`: they do not).
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

/** Fields named `…Since` that hold elapsed ms are estimates after a restart, derived from the record's wall-clock times. */
export interface ServerEntry {
  readonly build: BuildEntry
  readonly ref: Ref
  /** The sessionHostId in the path of its heartbeats. */
  readonly hostId: string
  /** The current record, saved or not. Changed through the inventory only. */
  record: Server
  /** The record as last known to be in the store. Differs from `record` until that is saved. */
  stored: Server | undefined
  /** Absent until the record has been created in the store. */
  revision: string | undefined
  /** Another writer has deleted the record from the store, so it must not be written again. */
  recordDeleted: boolean
  bucket: Bucket
  /** Its position in its bucket. */
  readonly bucketLink: Link<ServerEntry>
  /** Its position in one of the build's three heartbeat lists. */
  readonly heartbeatLink: Link<ServerEntry>
  /** The session it is being allocated to. Not durable yet, so no caller has been answered. */
  intent: Session | undefined
  /** The outcome of writing `intent` is unknown: the server stays reserved until the store has been read back. */
  uncertain: boolean
  /** The write in progress. */
  saving: Promise<void> | undefined
  /** A server action is in progress. */
  busy: boolean
  /** Back-off after a failed server action. */
  retry: Backoff
  /** `backend.create` has been called for it, by this host or an earlier leader. */
  createRequested: boolean
  instance: Instance | undefined
  /** Sequence number of the observation that set `instance`; a list requested before it is out of date for this server. */
  observationSeq: number
  /** Why it is still Pending, as a sentence. */
  pendingReason: string | undefined
  healthReports: HealthReports
  /** On the responsive clock: its last heartbeat, or the time from which this host has waited for one. */
  silentSince: number
  /** On the responsive clock: when this host first saw its process running. */
  runningSince: number | undefined
  /** Elapsed ms. */
  standingBySince: number | undefined
  /** Elapsed ms. */
  activeSince: number | undefined
  /** Elapsed ms. */
  terminatingSince: number | undefined
  /** It had a session and was sending heartbeats when it began to terminate: the next answer tells the game to exit. */
  terminatesByHeartbeat: boolean
  /** Its crash is included in the build's durable count. */
  crashCounted: boolean
  /** This host has called `backend.protect` for it. */
  isProtected: boolean
  players: readonly string[]
  /** Revision of its detail record; absent while the store has none. */
  detailRevision: string | undefined
  /** The build metadata that it was started with. Set when the spec of its build changes. */
  startMetadata: SessionConfig['metadata'] | undefined
  /** Heartbeat answers while Active, built once and reused: `active` until the game reports Active, then `continue`. */
  sessionAnswers: { readonly active: HeartbeatAnswer; readonly continue: HeartbeatAnswer } | undefined
}

export interface BuildEntry {
  readonly ref: Ref
  record: Build
  revision: string
  /** Its record has been deleted; its servers are terminating. */
  deleted: boolean
  readonly buckets: Readonly<Record<Bucket, LinkedSet<ServerEntry>>>
  /** Servers to save, start, protect or destroy. */
  readonly needsAction: Set<ServerEntry>
  /** Running servers that have never sent a heartbeat, longest running first. */
  readonly awaitingFirstHeartbeat: LinkedSet<ServerEntry>
  /** Servers that sent heartbeats before this host led, or before it was suspended, and none since. */
  readonly awaitingHeartbeat: LinkedSet<ServerEntry>
  /** Servers that have sent heartbeats to this host, longest silent first. */
  readonly heartbeating: LinkedSet<ServerEntry>
  /** Template hash of its current spec. */
  templateHash: string
  backoff: Backoff
  /** The template hash of the last current server that crashed; holds up the rolling update to that template. */
  crashedTemplate: string | undefined
  /** An operator is draining it. */
  draining: boolean
  /** A write of its record is in progress. */
  writing: boolean
}
