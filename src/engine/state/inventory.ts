/**
 * Keeps every build and server in memory, indexed so that the cost of handling an event does not grow with the fleet.
 * Synchronous and without I/O, so decisions made here cannot interleave.
 */
import { gamePortsOf } from '../../rules/validation/pod-template.js'
import { initialData, repairedData } from '../../rules/lifecycle/server-data.js'
import { sessionByKey, sessionsPerServer, sessionWithId } from '../../rules/lifecycle/server-sessions.js'
import { type Build, type BuildSpec, draftOf, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/names.js'
import type { NameableBuild } from '../../rules/planning/selection.js'
import { templateHash } from '../../rules/planning/rollout.js'
import { candidatesOf, freePlacesOn } from './candidates.js'
import {
  type Bucket,
  type BuildEntry,
  clearSession,
  newBuild,
  newServer,
  noPlaces,
  type Place,
  type ServerEntry,
} from './entries.js'
import { MachineLoads } from './machine-loads.js'
import { NamedBuilds } from './named-builds.js'
import { PlayerIndex } from './player-index.js'
import { bucketOf, isDraining, isReady, placeOf, serverCount, serversOf } from './queries.js'
import type { ScalingState } from './scaling-state.js'
import { SessionIndex } from './session-index.js'

/** What an inventory reports, in the order in which it happened. */
export type Change = ServerReplaced | BuildReplaced | PlacesChange

/** A server's record was replaced. */
export interface ServerReplaced {
  readonly type: 'server'
  readonly entry: ServerEntry
  readonly before: Server
  readonly record: Server
  /** The buckets that the server was in before, and came into. */
  readonly from: Bucket
  readonly to: Bucket
}

/** A build's record was replaced. */
export interface BuildReplaced {
  readonly type: 'build'
  readonly build: BuildEntry
  readonly before: Build
}

/**
 * `ready`: a server that has been heard has become ready to be allocated. `places`: a server takes more sessions than before, in addition to its
 * current sessions. `released`: the last place on a server was given up.
 */
interface PlacesChange {
  readonly type: 'ready' | 'places' | 'released'
  readonly entry: ServerEntry
}

export class Inventory {
  readonly #handler: (change: Change) => void
  readonly #handled: () => void
  readonly #builds = new Map<string, BuildEntry>()
  readonly #everyBuild = new Set<BuildEntry>()
  readonly #named = new NamedBuilds()
  readonly #servers = new Map<string, ServerEntry>()
  readonly #sessions = new SessionIndex()
  readonly #serversByHostId = new Map<string, ServerEntry>()
  readonly #removed = new RemovedServers()
  readonly players = new PlayerIndex()
  #machineLoads: MachineLoads | undefined
  /** Changes that are not handled yet. */
  readonly #changes: Change[] = []
  #isHandling = false
  /** Builds that have a record, by `namespace/name`. */
  readonly builds: ReadonlyMap<string, BuildEntry> = this.#builds
  /** All servers, by `namespace/name`. */
  readonly servers: ReadonlyMap<string, ServerEntry> = this.#servers
  /** Every build that has a record or servers, including deleted builds. */
  readonly everyBuild: ReadonlySet<BuildEntry> = this.#everyBuild

  /**
   * `handler` is called for each change in the same tick, once the change is complete and those before it have been handled. Changes that a
   * handler makes wait for their turn, so none is handled inside another. `handled` is called when none is left.
   */
  constructor(handler: (change: Change) => void, handled: () => void = () => {}) {
    this.#handler = handler
    this.#handled = handled
  }

  /** True while changes are being handled. */
  get isHandling(): boolean {
    return this.#isHandling
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

  /** The servers on each machine. Counted from the first call on. */
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
    this.#indexCandidates(build)
    this.#handle()
    return build
  }

  /** Adds an entry for a build whose record has been deleted but that still has servers. */
  addDeletedBuild(record: Build): BuildEntry {
    const build = newBuild(record)
    this.#everyBuild.add(build)
    return build
  }

  replaceBuild(build: BuildEntry, record: Build, revision: string): void {
    const before = build.record
    build.record = record
    build.revision = revision
    build.draining = isDraining(record)
    if (before.spec !== record.spec) this.#specChanged(build, before.spec)
    this.#changes.push({ type: 'build', build, before })
    this.#handle()
  }

  #specChanged(build: BuildEntry, before: BuildSpec): void {
    const { record } = build
    this.#named.changed(build, before)
    build.templateHash = templateHash(record.spec)
    build.formerData = build.initialData
    build.initialData = initialData(record.spec)
    build.gamePorts = gamePortsOf(record.spec.template)
    for (const entry of [...serversOf(build)]) this.#place(entry)
    this.#indexCandidates(build)
  }

  /** Frees the build's name and buildID. The entry stays until the last server is removed. */
  deleteBuild(build: BuildEntry): void {
    build.deleted = true
    const key = keyOf(build.record)
    if (this.#builds.get(key) === build) this.#builds.delete(key)
    this.#named.delete(build)
    if (serverCount(build) === 0) this.#everyBuild.delete(build)
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
    build.candidates?.update(entry)
    build.candidates?.updatePlaces(entry)
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
    this.#handle()
  }

  /** Marks a Pending or Initializing server as late. */
  markLate(entry: ServerEntry): void {
    entry.late = true
    this.#place(entry)
    this.#handle()
  }

  /** Sets which idle servers are replaced for their age. */
  setAged(scaling: ScalingState, aged: ReadonlySet<ServerEntry>): void {
    const changed = [...scaling.aged, ...aged]
    scaling.aged = aged
    for (const entry of changed) if (this.#servers.get(keyOf(entry.record)) === entry) this.#place(entry)
    this.#handle()
  }

  /** Call when it has changed whether the server is heard. */
  heardChanged(entry: ServerEntry): void {
    this.#place(entry)
    entry.build.candidates?.update(entry)
    this.placesChanged(entry)
  }

  /** Call when it may have changed how many sessions the server takes beside those in its record. */
  placesChanged(entry: ServerEntry): void {
    this.#updatePlaces(entry)
    this.#handle()
  }

  /** Sets the list of connected players. */
  setPlayers(entry: ServerEntry, players: readonly string[]): void {
    this.players.changed(entry, entry.players, players)
    entry.build.players += players.length - entry.players.length
    entry.players = players
    entry.build.candidates?.update(entry)
  }

  /** Takes a free place on a server, so that no other caller gets it. */
  take(place: Place): void {
    const { entry, key, state } = place
    const isTaken = entry.places.length > 0 || entry.record.sessions.length > 0
    if (isTaken && !entry.build.candidates?.hasFreePlace(entry))
      throw new Error(`server ${entry.record.name} has no free place`)
    entry.places = entry.places.length === 0 ? [place] : [...entry.places, place]
    if (state !== 'held') this.#sessions.add(key, entry)
    this.#place(entry)
    this.placesChanged(entry)
  }

  /** The session of a place that is held is to be written. */
  reserve(place: Place): void {
    place.state = 'reserved'
    this.#sessions.add(place.key, place.entry)
    this.placesChanged(place.entry)
  }

  /** Gives up a place, whose session needs another server. Does nothing if that has happened before. */
  release(place: Place): void {
    const { entry, key } = place
    if (!entry.places.includes(place)) return
    this.#unlist(place, 'lost')
    if (!sessionByKey(entry.record, key) && !placeOf(entry, key)) this.#sessions.remove(key, entry)
    if (entry.places.length === 0) this.#changes.push({ type: 'released', entry })
    this.#place(entry)
    this.placesChanged(entry)
  }

  /** Gives up all places of a server. */
  releaseAll(entry: ServerEntry): void {
    for (const place of entry.places) this.release(place)
  }

  /** Sets the server's record to one that has sessions of places, which are durable then. */
  grant(entry: ServerEntry, record: Server): void {
    const had = entry.record.sessions.length
    let granted = 0
    for (const place of entry.places) {
      // One that is held is not indexed, and its batch does not expect it.
      if (place.state === 'held' || !sessionWithId(record, place.session.id)) continue
      this.#unlist(place, 'durable')
      granted++
    }
    // `take` has already indexed these sessions.
    if (had > 0 || granted < record.sessions.length) return this.update(entry, record)
    this.#setRecord(entry, record)
    this.#handle()
  }

  /** True if this host has recently removed the server. */
  hasRemoved(uid: string): boolean {
    return this.#removed.has(uid)
  }

  remove(entry: ServerEntry): void {
    this.#removed.add(entry.record.uid)
    this.#servers.delete(keyOf(entry.record))
    this.#serversByHostId.delete(entry.hostId)
    this.#sessions.removeAll(entry.record, entry)
    for (const { key } of entry.places) this.#sessions.remove(key, entry)
    this.players.remove(entry)
    const { build } = entry
    build.players -= entry.players.length
    build.buckets[entry.bucket].delete(entry)
    build.needsAction.delete(entry)
    build.withoutPort.delete(entry)
    build.candidates?.remove(entry)
    this.#machineLoads?.remove(entry)
    build.heartbeating.delete(entry)
    build.awaitingFirstHeartbeat.delete(entry)
    build.awaitingHeartbeat.delete(entry)
    entry.nextHeartbeatLink.set?.delete(entry)
    if (build.deleted && serverCount(build) === 0) this.#everyBuild.delete(build)
  }

  #unlist(place: Place, state: 'durable' | 'lost'): void {
    const { entry } = place
    place.state = state
    const left = entry.places.filter((other) => other !== place)
    entry.places = left.length > 0 ? left : noPlaces
  }

  #indexCandidates(build: BuildEntry): void {
    if (build.candidates) build.candidates.specChanged()
    else if (sessionsPerServer(build.record.spec) > 1) candidatesOf(build)
    if (!build.candidates?.takesSeveral) return
    const { active, reserved } = build.buckets
    const free = [...active, ...reserved].filter((entry) => freePlacesOn(entry) > 0)
    for (const entry of free) this.#changes.push({ type: 'places', entry })
  }

  #updatePlaces(entry: ServerEntry): void {
    if (entry.build.candidates?.updatePlaces(entry)) this.#changes.push({ type: 'places', entry })
  }

  #setRecord(entry: ServerEntry, record: Server): void {
    const { record: before, bucket: from } = entry
    if (before === record) return
    entry.record = record
    const to = this.#move(entry)
    this.#changes.push({ type: 'server', entry, before, record, from, to })
    if (to !== from && isReady(to)) this.#changes.push({ type: 'ready', entry })
    entry.build.candidates?.update(entry)
    if (before.node !== record.node) this.#machineLoads?.update(entry)
    if (before.sessions !== record.sessions) {
      this.players.sessionsChanged(entry, before, record)
    }
    this.#updatePlaces(entry)
  }

  #place(entry: ServerEntry): void {
    const from = entry.bucket
    const to = this.#move(entry)
    if (to !== from && isReady(to)) this.#changes.push({ type: 'ready', entry })
  }

  /** Moves a server into the bucket in which it belongs. */
  #move(entry: ServerEntry): Bucket {
    const bucket = bucketOf(entry)
    if (bucket === entry.bucket) return bucket
    entry.build.buckets[bucket].add(entry)
    entry.bucket = bucket
    entry.build.candidates?.update(entry)
    this.#machineLoads?.update(entry)
    if (bucket !== 'ready') entry.nextHeartbeatLink.set?.delete(entry)
    return bucket
  }

  #handle(): void {
    if (this.#isHandling || this.#changes.length === 0) return
    this.#isHandling = true
    const failures: unknown[] = []
    for (const change of this.#changes) {
      try {
        this.#handler(change)
      } catch (error) {
        // The remaining changes are still handled.
        failures.push(error)
      }
    }
    this.#changes.length = 0
    this.#isHandling = false
    this.#handled()
    if (failures.length > 0) throw failures[0]
  }
}

export function lookUp<T>(map: ReadonlyMap<string, T>, ref: Ref): T | undefined {
  return map.get(keyOf(ref))
}

/** As many as leave in the minutes for which a write can be late, even on a large fleet. */
const maxRemembered = 10_000

/**
 * Remembers the servers that this host has removed last, because a write of such a server may take effect late and create its record
 * again. Processes that outlive the server know its token, so that record must never become a server again.
 */
class RemovedServers {
  readonly #uids = new Set<string>()

  add(uid: string): void {
    this.#uids.add(uid)
    if (this.#uids.size <= maxRemembered) return
    // Sets keep the order of insertion.
    for (const oldest of this.#uids) {
      this.#uids.delete(oldest)
      return
    }
  }

  has(uid: string): boolean {
    return this.#uids.has(uid)
  }
}
