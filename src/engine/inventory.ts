/**
 * All builds and servers that this host knows, indexed so that no event costs more in a larger fleet. Synchronous and
 * without I/O: what is decided here is decided at once, and nobody can come in between.
 */
import type { Instance } from '../backend.js'
import { type Backoff, noBackoff } from '../rules/backoff.js'
import { isAllocatable, sessionKey } from '../rules/allocation.js'
import { type HealthMemory, noReports } from '../rules/health.js'
import type { HeartbeatAnswer } from '../rules/heartbeat.js'
import { sessionHostId } from '../rules/names.js'
import { type Build, draftOf, keyOf, type Ref, type Server, type Session } from '../rules/resources.js'
import type { BuildCounts } from '../rules/status.js'
import { templateHash } from '../rules/template-hash.js'
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
  | 'oldPending'
  | 'oldInitializing'
  | 'oldReady'
  | 'oldUnready'
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
  recordGone: boolean
  bucket: Bucket
  /** Its place in its bucket. */
  readonly placed: Link<ServerEntry>
  /** Its place among those that have, or have not, spoken. */
  readonly listened: Link<ServerEntry>
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
  asked: boolean
  instance: Instance | undefined
  /** Number of the observation that `instance` is from; a listing begun earlier knows less. */
  observed: number
  /** Why it does not run yet, in words. */
  pendingReason: string | undefined
  reports: HealthMemory
  /** Elapsed ms: of its last heartbeat, or since when this host waits for the first. */
  heardAt: number
  /** Elapsed ms at which this host first knew that its process runs. */
  runsSince: number | undefined
  /** Elapsed ms at which it began to end. */
  endingSince: number | undefined
  /** It has played and still talked when it began to end: its heartbeats tell it. */
  told: boolean
  /** Its crash is in the build's durable count. */
  crashCounted: boolean
  /** The backend knows, by this host, that players may be on it. */
  isProtected: boolean
  players: readonly string[]
  /** Revision of its detail; absent while it has none in the store. */
  detailRevision: string | undefined
  /** What its heartbeats are answered while Active: the same object each time. */
  answers: { readonly active: HeartbeatAnswer; readonly lasting: HeartbeatAnswer } | undefined
}

export interface BuildEntry {
  readonly ref: Ref
  record: Build
  revision: string
  /** Its record is gone; its servers are on their way out. */
  deleted: boolean
  readonly buckets: Readonly<Record<Bucket, LinkedSet<ServerEntry>>>
  /** Servers to be saved, started or ended. */
  readonly todo: Set<ServerEntry>
  /** Servers whose first heartbeat to this host is awaited, longest first. */
  readonly unheard: LinkedSet<ServerEntry>
  /** Servers that have spoken to this host, longest silent first. */
  readonly heard: LinkedSet<ServerEntry>
  /** Of its present spec. */
  templateHash: string
  backoff: Backoff
  /** An operator drains it. */
  draining: boolean
  changing: boolean
}

export interface Inventory {
  readonly builds: ReadonlyMap<string, BuildEntry>
  readonly servers: ReadonlyMap<string, ServerEntry>
  /** Every build with servers or a record, deleted ones included. */
  readonly everyBuild: ReadonlySet<BuildEntry>
  buildByID(buildID: string): BuildEntry | undefined
  serverBySession(sessionID: string): ServerEntry | undefined
  serverByHostId(hostId: string): ServerEntry | undefined
  addBuild(record: Build, revision: string): BuildEntry
  /** A build whose record is gone already, for servers that it has left behind. */
  addDeletedBuild(record: Build): BuildEntry
  replaceBuild(build: BuildEntry, record: Build, revision: string): void
  /** Frees its name and its buildID; the entry stays until its last server is gone. */
  deleteBuild(build: BuildEntry): void
  addServer(build: BuildEntry, record: Server, revision: string | undefined): ServerEntry
  /** Makes `record` the present truth and keeps every index equal to it. */
  update(entry: ServerEntry, record: Server): void
  /** Takes a ready server out of reach of everybody else. */
  reserve(entry: ServerEntry, session: Session): void
  /** Ends a reservation with the record that has the session. */
  grant(entry: ServerEntry, record: Server): void
  /** Ends a reservation: the server is as its record says. */
  release(entry: ServerEntry): void
  remove(entry: ServerEntry): void
}

export interface InventoryListener {
  /** A server can be handed out from now on. Called in the same tick. */
  ready(entry: ServerEntry): void
  /** A reservation came to nothing. Called before anybody else can have the server. */
  released(entry: ServerEntry): void
  /** The record of a server changed; it was in the bucket `from`. */
  changed(entry: ServerEntry, before: Server, from: Bucket): void
}

export function createInventory(listener: InventoryListener): Inventory {
  const builds = new Map<string, BuildEntry>()
  const everyBuild = new Set<BuildEntry>()
  const buildsByID = new Map<string, BuildEntry>()
  const servers = new Map<string, ServerEntry>()
  const bySession = new Map<string, ServerEntry>()
  const byHostId = new Map<string, ServerEntry>()

  function place(entry: ServerEntry): void {
    const bucket = bucketOf(entry)
    if (bucket === entry.bucket) return
    entry.build.buckets[bucket].add(entry)
    entry.bucket = bucket
    if (isReady(bucket)) listener.ready(entry)
  }

  function become(entry: ServerEntry, record: Server): void {
    const { record: before, bucket: from } = entry
    if (before === record) return
    entry.record = record
    place(entry)
    listener.changed(entry, before, from)
  }

  function index(session: Session | undefined, entry: ServerEntry): void {
    if (session) bySession.set(sessionKey(session.id), entry)
  }

  function unindex(session: Session | undefined, entry: ServerEntry): void {
    if (!session) return
    const key = sessionKey(session.id)
    if (bySession.get(key) === entry) bySession.delete(key)
  }

  /** Edited by hand, two builds may claim one buildID: it is the first one's for as long as that claims it. */
  function passOnID(buildID: string): void {
    buildsByID.delete(buildID)
    for (const build of builds.values()) if (build.record.spec.buildID === buildID) claimID(build)
  }

  function claimID(build: BuildEntry): void {
    const { buildID } = build.record.spec
    if (!buildsByID.has(buildID)) buildsByID.set(buildID, build)
  }

  function newBuild(record: Build, revision: string, deleted: boolean): BuildEntry {
    const build: BuildEntry = {
      ref: refOf(record),
      record,
      revision,
      deleted,
      buckets: newBuckets(),
      todo: new Set(),
      unheard: new LinkedSet(({ listened }) => listened),
      heard: new LinkedSet(({ listened }) => listened),
      templateHash: templateHash(record.spec),
      backoff: noBackoff,
      draining: isDrained(record),
      changing: false,
    }
    everyBuild.add(build)
    return build
  }

  return {
    builds,
    servers,
    everyBuild,
    buildByID: (buildID) => buildsByID.get(buildID),
    serverBySession: (sessionID) => bySession.get(sessionKey(sessionID)),
    serverByHostId: (hostId) => byHostId.get(hostId),

    addBuild(record, revision) {
      const build = newBuild(record, revision, false)
      builds.set(keyOf(record), build)
      claimID(build)
      return build
    },

    addDeletedBuild: (record) => newBuild(record, '', true),

    replaceBuild(build, record, revision) {
      const { spec: before } = build.record
      build.record = record
      build.revision = revision
      build.draining = isDrained(record)
      if (before === record.spec) return
      if (before.buildID !== record.spec.buildID) {
        if (buildsByID.get(before.buildID) === build) passOnID(before.buildID)
        claimID(build)
      }
      build.templateHash = templateHash(record.spec)
      for (const entry of [...serversOf(build)]) place(entry)
    },

    deleteBuild(build) {
      build.deleted = true
      const key = keyOf(build.record)
      if (builds.get(key) === build) builds.delete(key)
      if (buildsByID.get(build.record.spec.buildID) === build) passOnID(build.record.spec.buildID)
      if (isEmpty(build)) everyBuild.delete(build)
    },

    addServer(build, read, revision) {
      const record = draftOf(read)
      const entry = newServer(build, record, revision)
      servers.set(keyOf(record), entry)
      byHostId.set(entry.hostId, entry)
      index(record.session, entry)
      const bucket = bucketOf(entry)
      entry.bucket = bucket
      build.buckets[bucket].add(entry)
      if (isReady(bucket)) listener.ready(entry)
      return entry
    },

    update(entry, record) {
      const before = entry.record.session
      if (before !== record.session) {
        unindex(before, entry)
        index(record.session, entry)
      }
      become(entry, record)
    },

    reserve(entry, session) {
      entry.intent = session
      index(session, entry)
      place(entry)
    },

    grant(entry, record) {
      const { intent } = entry
      entry.intent = undefined
      entry.uncertain = false
      // As intended, which it is known by already.
      if (intent && intent === record.session) return become(entry, record)
      // Another host may have given it to another session than this one meant to.
      if (intent?.id !== record.session?.id) unindex(intent, entry)
      this.update(entry, record)
    },

    release(entry) {
      const session = entry.intent
      entry.intent = undefined
      entry.uncertain = false
      if (session && entry.record.session?.id !== session.id) unindex(session, entry)
      listener.released(entry)
      place(entry)
    },

    remove(entry) {
      servers.delete(keyOf(entry.record))
      byHostId.delete(entry.hostId)
      unindex(entry.record.session, entry)
      unindex(entry.intent, entry)
      const { build } = entry
      build.buckets[entry.bucket].delete(entry)
      build.todo.delete(entry)
      build.heard.delete(entry)
      build.unheard.delete(entry)
      if (build.deleted && isEmpty(build)) everyBuild.delete(build)
    },
  }
}

/** Servers of a build by state, as their records say. */
export function countsOf(build: BuildEntry): BuildCounts {
  const { buckets } = build
  return {
    pending: buckets.pending.size + buckets.oldPending.size,
    initializing: buckets.initializing.size + buckets.oldInitializing.size,
    standingBy:
      buckets.ready.size +
      buckets.unready.size +
      buckets.oldReady.size +
      buckets.oldUnready.size +
      buckets.reserved.size,
    active: buckets.active.size,
    terminating: buckets.terminating.size,
  }
}

export function* serversOf(build: BuildEntry): Generator<ServerEntry> {
  for (const bucket of Object.values(build.buckets)) yield* bucket
}

/** Refs of namespaces and names cannot hold a slash, so keys are unique. */
export function lookUp<T>(map: ReadonlyMap<string, T>, ref: Ref): T | undefined {
  return map.get(keyOf(ref))
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

function isDrained(record: Build): boolean {
  return record.conditions.some((condition) => condition.type === 'Draining')
}

function isReady(bucket: Bucket): boolean {
  return bucket === 'ready' || bucket === 'oldReady'
}

function newBuckets(): Record<Bucket, LinkedSet<ServerEntry>> {
  const set = () => new LinkedSet<ServerEntry>(({ placed }) => placed)
  return {
    pending: set(),
    initializing: set(),
    ready: set(),
    unready: set(),
    oldPending: set(),
    oldInitializing: set(),
    oldReady: set(),
    oldUnready: set(),
    reserved: set(),
    active: set(),
    terminating: set(),
  }
}

function bucketOf(entry: ServerEntry): Bucket {
  const current = isCurrent(entry)
  switch (entry.record.state) {
    case 'Pending':
      return current ? 'pending' : 'oldPending'
    case 'Initializing':
      return current ? 'initializing' : 'oldInitializing'
    case 'StandingBy':
      if (entry.intent) return 'reserved'
      if (isAllocatable(entry.record)) return current ? 'ready' : 'oldReady'
      return current ? 'unready' : 'oldUnready'
    case 'Active':
      return 'active'
    case 'Terminating':
      return 'terminating'
  }
}

function refOf({ namespace, name }: Ref): Ref {
  return Object.freeze({ namespace, name })
}

function isEmpty(build: BuildEntry): boolean {
  return Object.values(build.buckets).every((bucket) => bucket.size === 0)
}

function newServer(build: BuildEntry, record: Server, revision: string | undefined): ServerEntry {
  return {
    build,
    ref: refOf(record),
    hostId: sessionHostId(record.name, record.token),
    record,
    stored: revision === undefined ? undefined : record,
    revision,
    recordGone: false,
    bucket: 'pending',
    placed: unlinked(),
    listened: unlinked(),
    intent: undefined,
    uncertain: false,
    saving: undefined,
    busy: false,
    retry: noBackoff,
    asked: revision !== undefined,
    instance: undefined,
    observed: 0,
    pendingReason: undefined,
    reports: noReports,
    heardAt: 0,
    runsSince: undefined,
    endingSince: undefined,
    told: false,
    crashCounted: false,
    isProtected: false,
    players: [],
    detailRevision: undefined,
    answers: undefined,
  }
}
