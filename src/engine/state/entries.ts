/** What the engine holds of each build and of each server while it leads. Changed through the inventory only. */
import type { Instance } from '../../contracts/backend.js'
import { isAllocatable } from '../../rules/planning/allocation.js'
import { type Backoff, noBackoff } from '../../rules/lifecycle/backoff.js'
import { type HealthMemory, noReports } from '../../rules/lifecycle/health.js'
import type { HeartbeatAnswer, SessionConfig } from '../../rules/game/heartbeat.js'
import { sessionHostId } from '../../rules/model/names.js'
import type { Build, Ref, Server, Session } from '../../rules/model/resources.js'
import type { BuildCounts } from '../../rules/model/status.js'
import { templateHash } from '../../rules/planning/template-hash.js'
import { type Link, LinkedSet, unlinked } from './linked-set.js'

/**
 * Where a server stands for the engine: its state, with StandingBy told apart by whether it can be handed out, and idle
 * servers by whether they run what their build now says (`old…`: they do not).
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

export interface ServerEntry {
  readonly build: BuildEntry
  readonly ref: Ref
  readonly hostId: string
  /** The present truth. Changed through the inventory only. */
  record: Server
  /** What the store holds, as far as this host knows. Differs from `record` until that is saved. */
  stored: Server | undefined
  /** Absent until the record has been created in the store. */
  revision: string | undefined
  /** Its record was removed from the store by somebody else: there is nothing left to write. */
  recordDeleted: boolean
  bucket: Bucket
  /** Its place in its bucket. */
  readonly bucketLink: Link<ServerEntry>
  /** Its place among those that have, or have not, spoken. */
  readonly heartbeatLink: Link<ServerEntry>
  /** The session to which it is being handed out: not durable yet, so nobody is told yet. */
  intent: Session | undefined
  /** The write of `intent` was not answered: the server is nobody's until the store has been read again. */
  uncertain: boolean
  saving: Promise<void> | undefined
  /** Something is being done about it that ends by itself. */
  busy: boolean
  /** Pause after something about it failed. */
  retry: Backoff
  /** The backend has been asked for it, by this host or by one before. */
  createRequested: boolean
  instance: Instance | undefined
  /** Number of the observation that `instance` is from; a listing begun earlier knows less. */
  observationSeq: number
  /** Why it does not run yet, in words. */
  pendingReason: string | undefined
  healthReports: HealthMemory
  /** By `Listening`: when it last spoke, or since when this host waits for it to. */
  silentSince: number
  /** By `Listening`: when this host first knew that its process runs. */
  runningSince: number | undefined
  /** Elapsed ms at which it came to stand by, as far as this host can know. */
  standingBySince: number | undefined
  /** Elapsed ms at which its session began, as far as this host can know. */
  activeSince: number | undefined
  /** Elapsed ms at which it began to end. */
  terminatingSince: number | undefined
  /** It has played and still talked when it began to end: its heartbeats tell it. */
  learnsByHeartbeat: boolean
  /** Its crash is in the build's durable count. */
  crashCounted: boolean
  /** The backend knows, by this host, that players may be on it. */
  isProtected: boolean
  players: readonly string[]
  /** Revision of its detail; absent while it has none in the store. */
  detailRevision: string | undefined
  /** That it was started with, once its build has another spec. */
  startMetadata: SessionConfig['metadata'] | undefined
  /** What its heartbeats are answered while Active: the same object each time. */
  sessionAnswers: { readonly active: HeartbeatAnswer; readonly lasting: HeartbeatAnswer } | undefined
}

export interface BuildEntry {
  readonly ref: Ref
  record: Build
  revision: string
  /** Its record is gone; its servers are on their way out. */
  deleted: boolean
  readonly buckets: Readonly<Record<Bucket, LinkedSet<ServerEntry>>>
  /** Servers to be saved, started or ended. */
  readonly needsAction: Set<ServerEntry>
  /** Servers that have not spoken to anybody yet, those that run for longest first. */
  readonly awaitingFirstHeartbeat: LinkedSet<ServerEntry>
  /** Servers that spoke before this host was there, or before it was away, and have yet to speak again. */
  readonly awaitingHeartbeat: LinkedSet<ServerEntry>
  /** Servers that have spoken to this host, longest silent first. */
  readonly heartbeating: LinkedSet<ServerEntry>
  /** Of its present spec. */
  templateHash: string
  backoff: Backoff
  /** What was its present template when a server of that crashed last, in the rolling change that is under way. */
  crashedTemplate: string | undefined
  /** An operator drains it. */
  draining: boolean
  writing: boolean
}

/** Without a revision it is one whose record is gone already. */
export function newBuild(record: Build, revision?: string): BuildEntry {
  return {
    ref: refOf(record),
    record,
    revision: revision ?? '',
    deleted: revision === undefined,
    buckets: newBuckets(),
    needsAction: new Set(),
    awaitingFirstHeartbeat: new LinkedSet(({ heartbeatLink: listened }) => listened),
    awaitingHeartbeat: new LinkedSet(({ heartbeatLink: listened }) => listened),
    heartbeating: new LinkedSet(({ heartbeatLink: listened }) => listened),
    templateHash: templateHash(record.spec),
    backoff: noBackoff,
    crashedTemplate: undefined,
    draining: isDrained(record),
    writing: false,
  }
}

export function newServer(build: BuildEntry, record: Server, revision: string | undefined): ServerEntry {
  return {
    build,
    ref: refOf(record),
    hostId: sessionHostId(record.name, record.token),
    record,
    stored: revision === undefined ? undefined : record,
    revision,
    recordDeleted: false,
    bucket: 'pending',
    bucketLink: unlinked(),
    heartbeatLink: unlinked(),
    intent: undefined,
    uncertain: false,
    saving: undefined,
    busy: false,
    retry: noBackoff,
    createRequested: revision !== undefined,
    instance: undefined,
    observationSeq: 0,
    pendingReason: undefined,
    healthReports: noReports,
    silentSince: 0,
    runningSince: undefined,
    standingBySince: undefined,
    activeSince: undefined,
    terminatingSince: undefined,
    learnsByHeartbeat: false,
    crashCounted: false,
    isProtected: false,
    players: [],
    detailRevision: undefined,
    startMetadata: undefined,
    sessionAnswers: undefined,
  }
}

/** Servers of a build by state, as their records say. */
export function countsOf(build: BuildEntry): BuildCounts {
  const { buckets } = build
  return {
    pending: buckets.pending.size + buckets.outdatedPending.size,
    initializing: buckets.initializing.size + buckets.outdatedInitializing.size,
    standingBy:
      buckets.ready.size +
      buckets.unready.size +
      buckets.outdatedReady.size +
      buckets.outdatedUnready.size +
      buckets.reserved.size,
    active: buckets.active.size,
    terminating: buckets.terminating.size,
  }
}

export function* serversOf(build: BuildEntry): Generator<ServerEntry> {
  for (const bucket of Object.values(build.buckets)) yield* bucket
}

/** Servers that go on, by whether they run what their build now says. Walks over them: for people, not for hot paths. */
export function generationsOf(build: BuildEntry): { readonly updated: number; readonly outdated: number } {
  let updated = 0
  let outdated = 0
  for (const entry of serversOf(build)) {
    if (entry.record.state === 'Terminating') continue
    if (isCurrent(entry)) updated++
    else outdated++
  }
  return { updated, outdated }
}

/** It runs, or is to run, what its build now says. */
export function isCurrent(entry: ServerEntry): boolean {
  return entry.record.templateHash === entry.build.templateHash
}

export function isDrained(record: Build): boolean {
  return record.conditions.some((condition) => condition.type === 'Draining')
}

export function isReady(bucket: Bucket): boolean {
  return bucket === 'ready' || bucket === 'outdatedReady'
}

function newBuckets(): Record<Bucket, LinkedSet<ServerEntry>> {
  const set = () => new LinkedSet<ServerEntry>(({ bucketLink: placed }) => placed)
  return {
    pending: set(),
    initializing: set(),
    ready: set(),
    unready: set(),
    outdatedPending: set(),
    outdatedInitializing: set(),
    outdatedReady: set(),
    outdatedUnready: set(),
    reserved: set(),
    active: set(),
    terminating: set(),
  }
}

export function bucketOf(entry: ServerEntry): Bucket {
  const current = isCurrent(entry)
  switch (entry.record.state) {
    case 'Pending':
      return current ? 'pending' : 'outdatedPending'
    case 'Initializing':
      return current ? 'initializing' : 'outdatedInitializing'
    case 'StandingBy':
      if (entry.intent) return 'reserved'
      if (isAllocatable(entry.record)) return current ? 'ready' : 'outdatedReady'
      return current ? 'unready' : 'outdatedUnready'
    case 'Active':
      return 'active'
    case 'Terminating':
      return 'terminating'
  }
}

function refOf({ namespace, name }: Ref): Ref {
  return Object.freeze({ namespace, name })
}

export function isEmpty(build: BuildEntry): boolean {
  return Object.values(build.buckets).every((bucket) => bucket.size === 0)
}
