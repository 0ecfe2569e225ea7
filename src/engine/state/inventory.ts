/**
 * Keeps every build and server in memory, indexed so that the cost of handling an event does not grow with the fleet.
 * Synchronous and without I/O, so decisions made here cannot interleave.
 */
import { gamePortsOf } from '../../rules/game/game-ports.js'
import { sessionsPerServer } from '../../rules/lifecycle/sessions.js'
import { initialData } from '../../rules/lifecycle/server-data.js'
import { type Build, draftOf, keyOf, type Ref, type NewSession, type Server } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/session-ids.js'
import type { NameableBuild, Selection } from '../../rules/planning/selection.js'
import { templateHash } from '../../rules/planning/template-hash.js'
import { repairedData } from '../../rules/validation/server-data.js'
import { clearSession, newBuild, newServer } from './create-entries.js'
import type { Bucket, BuildEntry, ServerEntry } from './entries.js'
import { MachineLoads } from './machine-loads.js'
import { NamedBuilds } from './named-builds.js'
import { expectedOn, heldFor, PlayerIndex } from './player-index.js'
import { SessionIndex } from './session-index.js'
import { SlotIndex } from './slot-index.js'
import { bucketOf, isDraining, isEmpty, isReady, serversOf } from './queries.js'
import { RemovedServers } from './removed-servers.js'

export interface InventoryListener {
  /** A server that has been heard has become ready to be allocated. Called in the same tick. */
  ready(entry: ServerEntry): void
  /** A server takes more sessions than before, beside those that it has. Called in the same tick. */
  hasRoom(entry: ServerEntry): void
  /** A server's reservation was cancelled. Called before another caller can reserve the server. */
  released(entry: ServerEntry): void
  /** A server's record has changed. `from` is the bucket that the server was in before. */
  changed(entry: ServerEntry, before: Server, from: Bucket): void
}

export class Inventory {
  readonly #listener: InventoryListener
  readonly #builds = new Map<string, BuildEntry>()
  readonly #everyBuild = new Set<BuildEntry>()
  readonly #named = new NamedBuilds()
  readonly #servers = new Map<string, ServerEntry>()
  readonly #sessions = new SessionIndex()
  readonly #serversByHostId = new Map<string, ServerEntry>()
  readonly #removed = new RemovedServers()
  readonly players = new PlayerIndex()
  #machineLoads: MachineLoads | undefined
  /** Builds that have a record, by `namespace/name`. */
  readonly builds: ReadonlyMap<string, BuildEntry> = this.#builds
  /** All servers, by `namespace/name`. */
  readonly servers: ReadonlyMap<string, ServerEntry> = this.#servers
  /** Every build that has a record or servers, including deleted builds. */
  readonly everyBuild: ReadonlySet<BuildEntry> = this.#everyBuild

  constructor(listener: InventoryListener) {
    this.#listener = listener
  }

  buildByID(buildID: string): BuildEntry | undefined {
    return this.#named.byID(buildID)
  }

  /** The builds whose specs have these labels, of which there is at least one, oldest first. */
  buildsWithLabels(labels: Readonly<Record<string, string>>): readonly BuildEntry[] {
    return this.#named.withLabels(labels)
  }

  /** The build, as a selector may name it. */
  nameable(build: BuildEntry): NameableBuild {
    return { hasID: (id) => this.#named.byID(id) === build, spec: build.record.spec }
  }

  serverBySession(sessionID: string): ServerEntry | undefined {
    return this.#sessions.get(sessionKey(sessionID))
  }

  /** Like `serverBySession`, for a caller that has the session's key already. */
  serverBySessionKey(key: string): ServerEntry | undefined {
    return this.#sessions.get(key)
  }

  /** The servers with a session on each machine. Counted from the first call on. */
  get machineLoads(): MachineLoads {
    return (this.#machineLoads ??= new MachineLoads(this.#servers.values()))
  }

  serverByHostId(hostId: string): ServerEntry | undefined {
    return this.#serversByHostId.get(hostId)
  }

  /** True if a server with this name is Active, in any namespace, and the store could not read its token. */
  isActiveWithoutToken(name: string): boolean {
    for (const { record } of this.#everyBuild) {
      const server = this.#servers.get(keyOf({ namespace: record.namespace, name }))?.record
      if (server?.tokenLost && server.state === 'Active') return true
    }
    return false
  }

  addBuild(record: Build, revision: string): BuildEntry {
    const build = newBuild(record, revision)
    this.#everyBuild.add(build)
    this.#builds.set(keyOf(record), build)
    this.#named.add(build)
    this.#indexSlots(build)
    return build
  }

  /** Adds an entry for a build whose record has been deleted but that still has servers. */
  addDeletedBuild(record: Build): BuildEntry {
    const build = newBuild(record)
    this.#everyBuild.add(build)
    return build
  }

  replaceBuild(build: BuildEntry, record: Build, revision: string): void {
    const { spec: before } = build.record
    build.record = record
    build.revision = revision
    build.draining = isDraining(record)
    if (before === record.spec) return
    this.#named.changed(build, before)
    build.templateHash = templateHash(record.spec)
    build.formerData = build.initialData
    build.initialData = initialData(record.spec)
    build.gamePorts = gamePortsOf(record.spec.template)
    if (before.seatsPerSession !== record.spec.seatsPerSession) build.rooms = undefined
    for (const entry of [...serversOf(build)]) this.#place(entry)
    this.#indexSlots(build)
  }

  /** Frees the build's name and buildID. The entry stays until the last server is removed. */
  deleteBuild(build: BuildEntry): void {
    build.deleted = true
    const key = keyOf(build.record)
    if (this.#builds.get(key) === build) this.#builds.delete(key)
    this.#named.delete(build)
    if (isEmpty(build)) this.#everyBuild.delete(build)
  }

  /** Adds a server. `revision` is undefined if its record is not in the store yet. */
  addServer(build: BuildEntry, original: Server, revision: string | undefined): ServerEntry {
    const record = draftOf(original)
    // Data that someone has edited in the store may be invalid, and an earlier leader may have died before it stored them.
    if (record.data) record.data = repairedData(record.data, build.initialData)
    else if (record.state === 'Pending' && record.templateHash === build.templateHash) record.data = build.initialData
    const entry = newServer(build, record, revision)
    this.#servers.set(keyOf(record), entry)
    this.#serversByHostId.set(entry.hostId, entry)
    this.#sessions.addAll(record, entry)
    entry.bucket = bucketOf(entry)
    build.buckets[entry.bucket].add(entry)
    build.groups?.place(entry)
    build.slots?.place(entry)
    this.#machineLoads?.update(entry)
    return entry
  }

  /** Replaces a server's record and updates every index. */
  update(entry: ServerEntry, record: Server): void {
    this.#sessions.replace(entry.record, record, entry)
    if (entry.record.state === 'Active' && record.state === 'StandingBy') {
      this.players.remove(entry)
      clearSession(entry)
    }
    this.#setRecord(entry, record)
  }

  /** Marks a Pending or Initializing server as late. */
  markLate(entry: ServerEntry): void {
    entry.late = true
    this.#place(entry)
  }

  /** Call when it has changed whether the server is heard. */
  heardChanged(entry: ServerEntry): void {
    this.#place(entry)
    entry.build.rooms?.place(entry)
    this.slotsChanged(entry)
  }

  /** Call when it has changed how many sessions the server takes beside those in its record. */
  slotsChanged(entry: ServerEntry): void {
    if (entry.build.slots?.place(entry)) this.#listener.hasRoom(entry)
  }

  /** Sets the list of connected players. */
  setPlayers(entry: ServerEntry, players: readonly string[]): void {
    this.players.changed(entry, entry.players, players)
    entry.build.players += players.length - entry.players.length
    entry.players = players
    entry.build.rooms?.place(entry)
  }

  /** Reserves a server that can be allocated for a session, so that no other caller gets it. */
  reserve(entry: ServerEntry, session: NewSession, selection?: Selection): void {
    if (entry.intent) throw new Error(`server ${entry.record.name} is reserved for another session already`)
    entry.held = false
    entry.intent = session
    entry.selection = selection
    this.#sessions.add(session, entry)
    this.#place(entry)
    this.slotsChanged(entry)
  }

  /** Keeps a server that can be allocated for an atomic batch, so that no other caller gets it. `reserve` or `release` follows. */
  hold(entry: ServerEntry): void {
    entry.held = true
    this.#place(entry)
  }

  /** Turns a reservation into an allocation: sets the server's record to `record`, which contains the session. */
  grant(entry: ServerEntry, record: Server): void {
    const { intent } = entry
    entry.intent = undefined
    entry.selection = undefined
    entry.uncertain = false
    const [first] = record.sessions
    // `reserve` has already indexed this session.
    if (intent && intent.id === first?.id) return this.#setRecord(entry, record)
    // Another host may have allocated the server to another session.
    if (intent?.id !== first?.id) this.#sessions.remove(intent, entry)
    this.update(entry, record)
  }

  /** Cancels a reservation, or gives up a server that is held. */
  release(entry: ServerEntry): void {
    const session = entry.intent
    entry.held = false
    entry.intent = undefined
    entry.selection = undefined
    entry.uncertain = false
    if (session && entry.record.sessions[0]?.id !== session.id) this.#sessions.remove(session, entry)
    this.#listener.released(entry)
    this.#place(entry)
    this.slotsChanged(entry)
  }

  /** True if this host has removed the server, lately. */
  hasRemoved(uid: string): boolean {
    return this.#removed.has(uid)
  }

  remove(entry: ServerEntry): void {
    this.#removed.add(entry.record.uid)
    this.#servers.delete(keyOf(entry.record))
    this.#serversByHostId.delete(entry.hostId)
    this.#sessions.removeAll(entry.record, entry)
    this.#sessions.remove(entry.intent, entry)
    this.players.remove(entry)
    const { build } = entry
    build.players -= entry.players.length
    build.buckets[entry.bucket].delete(entry)
    build.needsAction.delete(entry)
    build.withoutPort.delete(entry)
    build.groups?.remove(entry)
    build.rooms?.remove(entry)
    build.slots?.remove(entry)
    this.#machineLoads?.remove(entry)
    build.heartbeating.delete(entry)
    build.awaitingFirstHeartbeat.delete(entry)
    build.awaitingHeartbeat.delete(entry)
    entry.nextHeartbeatLink.set?.delete(entry)
    if (build.deleted && isEmpty(build)) this.#everyBuild.delete(build)
  }

  #indexSlots(build: BuildEntry): void {
    build.slots = sessionsPerServer(build.record.spec) > 1 ? new SlotIndex(build) : undefined
    for (const entry of build.slots?.all ?? []) this.#listener.hasRoom(entry)
  }

  #setRecord(entry: ServerEntry, record: Server): void {
    const { record: before, bucket: from } = entry
    if (before === record) return
    entry.record = record
    this.#place(entry)
    if (before.data !== record.data || before.node !== record.node) entry.build.groups?.place(entry)
    if (before.node !== record.node) this.#machineLoads?.update(entry)
    if (before.sessions !== record.sessions) {
      this.players.changed(entry, heldFor(before.sessions[0]), heldFor(record.sessions[0]))
      this.players.changed(entry, expectedOn(before), expectedOn(record))
    }
    entry.build.rooms?.place(entry)
    this.#listener.changed(entry, before, from)
    this.slotsChanged(entry)
  }

  #place(entry: ServerEntry): void {
    const bucket = bucketOf(entry)
    if (bucket === entry.bucket) return
    entry.build.buckets[bucket].add(entry)
    entry.bucket = bucket
    entry.build.groups?.place(entry)
    this.#machineLoads?.update(entry)
    if (bucket !== 'ready') entry.nextHeartbeatLink.set?.delete(entry)
    if (isReady(bucket)) this.#listener.ready(entry)
  }
}

export function lookUp<T>(map: ReadonlyMap<string, T>, ref: Ref): T | undefined {
  return map.get(keyOf(ref))
}
