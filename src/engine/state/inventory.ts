/**
 * All builds and servers that this host knows, indexed so that no event costs more in a larger fleet. Synchronous and
 * without I/O: what is decided here is decided at once, and nobody can come in between.
 */
import { sessionKey } from '../../rules/planning/allocation.js'
import { type Build, draftOf, keyOf, type Ref, type Server, type Session } from '../../rules/model/resources.js'
import { templateHash } from '../../rules/planning/template-hash.js'
import {
  type Bucket,
  bucketOf,
  type BuildEntry,
  isCurrent,
  isDrained,
  isEmpty,
  isReady,
  newBuild,
  newServer,
  type ServerEntry,
  serversOf,
} from './entries.js'

export interface Inventory {
  readonly builds: ReadonlyMap<string, BuildEntry>
  readonly servers: ReadonlyMap<string, ServerEntry>
  /** Every build with servers or a record, deleted ones included. */
  readonly everyBuild: ReadonlySet<BuildEntry>
  buildByID(buildID: string): BuildEntry | undefined
  serverBySession(sessionID: string): ServerEntry | undefined
  serverByHostId(hostId: string): ServerEntry | undefined
  /** A match is on record on a server of this name, in whichever namespace. */
  isPlaying(name: string): boolean
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

  function enter(build: BuildEntry): BuildEntry {
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

    isPlaying(name) {
      for (const { record } of everyBuild) {
        const { namespace } = record
        if (servers.get(keyOf({ namespace, name }))?.record.state === 'Active') return true
      }
      return false
    },

    addBuild(record, revision) {
      const build = enter(newBuild(record, revision))
      builds.set(keyOf(record), build)
      claimID(build)
      return build
    },

    addDeletedBuild: (record) => enter(newBuild(record)),

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
      for (const entry of serversOf(build)) if (isCurrent(entry)) entry.startMetadata = before.buildMetadata ?? {}
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
      build.needsAction.delete(entry)
      build.heartbeating.delete(entry)
      build.awaitingFirstHeartbeat.delete(entry)
      build.awaitingHeartbeat.delete(entry)
      if (build.deleted && isEmpty(build)) everyBuild.delete(build)
    },
  }
}

/** Refs of namespaces and names cannot hold a slash, so keys are unique. */
export function lookUp<T>(map: ReadonlyMap<string, T>, ref: Ref): T | undefined {
  return map.get(keyOf(ref))
}
