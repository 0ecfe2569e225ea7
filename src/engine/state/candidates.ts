/**
 * The servers of a build that may get the next session or the next players: those that can be allocated, those whose games take further
 * sessions, and those whose sessions have free seats. Servers with the same labels, counters and lists that run the same template, the
 * current one or an earlier one, form a group, so that a selector is evaluated once for all of them.
 *
 * A build without such needs has no index. Free places are indexed if its servers may have several sessions, the servers that can be
 * allocated from the first request that selects servers of the build, their machines from the first order by machine, and free seats from
 * the first search for them.
 */
import { seatsOf, sessionsPerServer } from '../../rules/lifecycle/server-sessions.js'
import { canonical } from '../../rules/model/values.js'
import { noData, type ServerData } from '../../rules/lifecycle/server-data.js'
import type { Bucket, BuildEntry, ServerEntry } from './entries.js'
import { type Link, LinkedSet, unlinked } from './linked-set.js'
import { type Machine, type MachineLoads, machineOf } from './machine-loads.js'
import { isBeingAllocated, isCurrent, isHeard, serversOf } from './queries.js'

const allocatableBuckets = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const
export type AllocatableBucket = (typeof allocatableBuckets)[number]

/** Servers that no selector tells apart. */
export interface Group {
  /** Of their data. */
  readonly key: string
  /** Of one of them. The others may have other annotations, on which no selector depends. */
  readonly data: ServerData | undefined
  /** Whether they run the current template. */
  readonly isCurrent: boolean
  size: number
}

/** Servers that can be allocated, those that have been standing by for the longest first. */
export type Lists = Map<Group, LinkedSet<ServerEntry>>

/** Servers by how many places or seats are free. */
export type ByFree = Map<number, Set<ServerEntry>>

/** The servers in one of the buckets of those that can be allocated. */
export interface Allocatable {
  /** Those that have been standing by for the longest first. */
  readonly servers: LinkedSet<ServerEntry>
  readonly groups: Lists
  /** By the name of the machine. Empty until a request asks for an order by machine. */
  readonly machines: Map<string, MachineServers>
}

export interface MachineServers {
  readonly machine: Machine
  readonly groups: Lists
}

/** Where a server is in the index of its build. */
export interface CandidatePosition {
  /** Undefined while it is no candidate. */
  group: Group | undefined
  /** Of `data`. Kept while it is no candidate. */
  key: string | undefined
  data: ServerData | undefined
  /** Undefined while it cannot be allocated. */
  bucket: AllocatableBucket | undefined
  machine: MachineServers | undefined
  /** How many further sessions it takes, if it has sessions. */
  freePlaces: number
  /** The same once its game is heard. */
  awaitedPlaces: number
  /** In its session. */
  freeSeats: number
  /** In the order of time among those that can be allocated. */
  readonly timeLink: Link<ServerEntry>
  /** Among those of its group. */
  readonly groupLink: Link<ServerEntry>
  /** Among those of its group on its machine. */
  readonly machineLink: Link<ServerEntry>
}

export class Candidates {
  readonly #build: BuildEntry
  readonly #groups = { current: new Map<string, Group>(), outdated: new Map<string, Group>() }
  /** Undefined until a request selects servers. */
  #allocatable: Readonly<Record<AllocatableBucket, Allocatable>> | undefined
  #machines: MachineLoads | undefined
  readonly #withFreePlaces = new Map<Group, ByFree>()
  /**
   * Undefined until a request looks for free seats. A hold counts until its lapse is recorded, a moment after its time, so a session may
   * have more free seats than shown here and never fewer.
   */
  #withFreeSeats: Map<Group, ByFree> | undefined
  #sessionsPerServer = 1
  #freePlaces = 0
  /** Of servers that are not heard yet, for example after a restart of the host: nobody gets them, and no server is started for them. */
  #awaitedPlaces = 0
  /** Whether the game that stood by last takes several sessions. */
  #isShared = true

  constructor(build: BuildEntry) {
    this.#build = build
    this.specChanged()
  }

  /** True if servers of the build may have several sessions. */
  get takesSeveral(): boolean {
    return this.#sessionsPerServer > 1
  }

  /** How many sessions a new server is expected to take. */
  get placesPerServer(): number {
    return this.#isShared ? this.#sessionsPerServer : 1
  }

  /** How many further sessions the servers that have sessions take in all. */
  get freePlaces(): number {
    return this.#freePlaces + (this.#isShared ? this.#awaitedPlaces : 0)
  }

  /** The servers that have sessions and take further ones. */
  get withFreePlaces(): ReadonlyMap<Group, ByFree> {
    return this.#withFreePlaces
  }

  /** The servers whose players are known for certain and whose sessions have free seats. */
  get withFreeSeats(): ReadonlyMap<Group, ByFree> {
    if (!this.#withFreeSeats) {
      this.#withFreeSeats = new Map()
      for (const entry of this.#build.buckets.active) this.update(entry)
    }
    return this.#withFreeSeats
  }

  /** The servers that can be allocated. */
  get allocatable(): Readonly<Record<AllocatableBucket, Allocatable>> {
    return this.#allocatable ?? this.#indexAllocatable()
  }

  /** The same by machine. */
  allocatableOn(machines: MachineLoads): Readonly<Record<AllocatableBucket, Allocatable>> {
    if (this.#machines) return this.allocatable
    const { allocatable } = this
    this.#machines = machines
    for (const bucket of allocatableBuckets) for (const entry of allocatable[bucket].servers) this.update(entry)
    return allocatable
  }

  /** True if the server, on which an atomic batch holds places, has another one for that batch. */
  hasFreePlace({ isShared, places, record }: ServerEntry): boolean {
    return isShared && record.sessions.length + places.length < this.#sessionsPerServer
  }

  /** Call with whether a game without a session takes several. Returns true if that has changed what is expected of new servers. */
  learned(isShared: boolean): boolean {
    if (!this.takesSeveral || isShared === this.#isShared) return false
    this.#isShared = isShared
    return true
  }

  /** Call when the spec of the build has changed. */
  specChanged(): void {
    const { buckets, record } = this.#build
    this.#sessionsPerServer = sessionsPerServer(record.spec)
    if (!this.takesSeveral) this.#isShared = true
    for (const entry of serversOf(this.#build)) this.update(entry)
    for (const entry of [...buckets.active, ...buckets.reserved]) this.#countPlaces(entry)
  }

  /** Call when the bucket, the record or the players of a server have changed, or whether it is heard. */
  update(entry: ServerEntry): void {
    const bucket = this.#allocatable && isAllocatable(entry.bucket) ? entry.bucket : undefined
    const freeSeats = this.#withFreeSeats ? freeSeatsIn(entry) : 0
    this.#place(entry, bucket, entry.position?.freePlaces ?? 0, freeSeats)
  }

  /** Call when it may have changed how many sessions a server takes beside those that it has. Returns true if it takes more than before. */
  updatePlaces(entry: ServerEntry): boolean {
    return this.takesSeveral && this.#countPlaces(entry)
  }

  remove(entry: ServerEntry): void {
    if (!entry.position) return
    this.#place(entry, undefined, 0, 0)
    this.#awaitedPlaces -= entry.position.awaitedPlaces
    entry.position = undefined
  }

  #indexAllocatable(): Readonly<Record<AllocatableBucket, Allocatable>> {
    const all = (this.#allocatable = {
      ready: newAllocatable(),
      outdatedReady: newAllocatable(),
      unheard: newAllocatable(),
      outdatedUnheard: newAllocatable(),
    })
    for (const bucket of allocatableBuckets) {
      // In their order, each is placed at the end.
      for (const entry of [...this.#build.buckets[bucket]].sort((a, b) => sinceOf(a) - sinceOf(b))) this.update(entry)
    }
    return all
  }

  #countPlaces(entry: ServerEntry): boolean {
    const { position } = entry
    const awaited = this.#placesOnceHeard(entry)
    const before = position?.freePlaces ?? 0
    const free = this.#freePlacesOn(entry)
    this.#awaitedPlaces += awaited - (position?.awaitedPlaces ?? 0)
    if (awaited > 0 || position) positionOf(entry).awaitedPlaces = awaited
    this.#place(entry, position?.bucket, free, position?.freeSeats ?? 0)
    return free > before
  }

  #place(entry: ServerEntry, bucket: AllocatableBucket | undefined, freePlaces: number, freeSeats: number): void {
    const isCandidate = bucket !== undefined || freePlaces > 0 || freeSeats > 0
    if (!isCandidate && !entry.position?.group) return
    const position = positionOf(entry)
    const { group: from } = position
    const to = isCandidate ? this.#groupOf(entry, position) : undefined
    const isMoved = from !== to
    if (isMoved || position.bucket !== bucket || this.#isOnOtherMachine(entry, position))
      this.#placeAllocatable(entry, position, to, bucket)
    if (isMoved || position.freePlaces !== freePlaces) {
      moveByFree(
        this.#withFreePlaces,
        entry,
        { group: from, free: position.freePlaces },
        { group: to, free: freePlaces },
      )
      this.#freePlaces += freePlaces - position.freePlaces
      position.freePlaces = freePlaces
    }
    if (this.#withFreeSeats && (isMoved || position.freeSeats !== freeSeats)) {
      moveByFree(this.#withFreeSeats, entry, { group: from, free: position.freeSeats }, { group: to, free: freeSeats })
      position.freeSeats = freeSeats
    }
    if (!isMoved) return
    position.group = to
    if (to) to.size++
    if (from && --from.size === 0) this.#groupsLike(from).delete(from.key)
  }

  #groupOf(entry: ServerEntry, position: CandidatePosition): Group {
    const { data } = entry.record
    const { group, key: known } = position
    const isOfCurrent = isCurrent(entry)
    if (group && position.data === data && group.isCurrent === isOfCurrent) return group
    const key = known !== undefined && position.data === data ? known : dataKeyOf(data)
    const groups = isOfCurrent ? this.#groups.current : this.#groups.outdated
    const found = groups.get(key) ?? { key, data, isCurrent: isOfCurrent, size: 0 }
    groups.set(key, found)
    position.key = found.key
    position.data = data
    return found
  }

  #groupsLike({ isCurrent: isOfCurrent }: Group): Map<string, Group> {
    return isOfCurrent ? this.#groups.current : this.#groups.outdated
  }

  #isOnOtherMachine(entry: ServerEntry, { bucket, machine }: CandidatePosition): boolean {
    return this.#machines !== undefined && bucket !== undefined && machine?.machine.name !== machineOf(entry)
  }

  #placeAllocatable(
    entry: ServerEntry,
    position: CandidatePosition,
    to: Group | undefined,
    bucket: AllocatableBucket | undefined,
  ): void {
    const all = this.#allocatable
    if (!all) return
    const { bucket: before, group: from, machine } = position
    position.bucket = bucket
    if (before && from) {
      removeFrom(all[before].groups, from, entry, groupLinkOf)
      if (machine) this.#leaveMachine(entry, from, machine, all[before])
      // With other data, it keeps its place in the order of time.
      if (before !== bucket) all[before].servers.delete(entry)
    }
    if (!bucket || !to) return
    if (before !== bucket) insert(all[bucket].servers, entry, timeLinkOf)
    insertInto(all[bucket].groups, to, entry, groupLinkOf)
    if (this.#machines) this.#joinMachine(entry, to, this.#machines, all[bucket])
  }

  #joinMachine(entry: ServerEntry, group: Group, loads: MachineLoads, { machines }: Allocatable): void {
    const name = machineOf(entry)
    const joined: MachineServers = machines.get(name) ?? { machine: loads.use(name), groups: new Map() }
    machines.set(name, joined)
    insertInto(joined.groups, group, entry, machineLinkOf)
    positionOf(entry).machine = joined
  }

  #leaveMachine(entry: ServerEntry, group: Group, left: MachineServers, { machines }: Allocatable): void {
    positionOf(entry).machine = undefined
    removeFrom(left.groups, group, entry, machineLinkOf)
    if (left.groups.size > 0) return
    machines.delete(left.machine.name)
    this.#machines?.release(left.machine)
  }

  #freePlacesOn(entry: ServerEntry): number {
    const { isLeaving, isShared, places, record } = entry
    if (!isShared || isLeaving) return 0
    if (record.health === 'Unhealthy' || !isHeard(entry)) return 0
    const isBegun = record.state === 'StandingBy' ? isBeingAllocated(entry) : record.state === 'Active'
    const taken = record.sessions.length + places.length
    return isBegun && taken > 0 ? Math.max(0, this.#sessionsPerServer - taken) : 0
  }

  #placesOnceHeard(entry: ServerEntry): number {
    const { isLeaving, record } = entry
    if (record.state !== 'Active' || record.health === 'Unhealthy' || isLeaving || isHeard(entry)) return 0
    const taken = record.sessions.length
    return taken === 0 ? 0 : Math.max(0, this.#sessionsPerServer - taken)
  }
}

/** The index of the build's candidates, from now on. */
export function candidatesOf(build: BuildEntry): Candidates {
  return (build.candidates ??= new Candidates(build))
}

/** How many further sessions the server takes, if it has sessions. */
export function freePlacesOn({ position }: ServerEntry): number {
  return position?.freePlaces ?? 0
}

/** A server that has just become ready is placed before its time is known. */
export function sinceOf({ standingBySince = Number.MAX_VALUE }: ServerEntry): number {
  return standingBySince
}

export function groupLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return positionOf(entry).groupLink
}

function timeLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return positionOf(entry).timeLink
}

function machineLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return positionOf(entry).machineLink
}

function positionOf(entry: ServerEntry): CandidatePosition {
  return (entry.position ??= {
    group: undefined,
    key: undefined,
    data: undefined,
    bucket: undefined,
    machine: undefined,
    freePlaces: 0,
    awaitedPlaces: 0,
    freeSeats: 0,
    timeLink: unlinked(),
    groupLink: unlinked(),
    machineLink: unlinked(),
  })
}

/** 0 for a server whose players are not known for certain, because this host has not heard its game. */
function freeSeatsIn(entry: ServerEntry): number {
  const { bucket, build, players, record } = entry
  const { seatsPerSession } = build.record.spec
  const [session] = record.sessions
  if (bucket !== 'active' || !session || seatsPerSession === undefined || !isHeard(entry)) return 0
  return seatsOf(seatsPerSession, players, session.holds, undefined).free
}

/** Equal for data that no selector tells apart. */
function dataKeyOf({ labels, counters, lists }: ServerData = noData): string {
  return canonical([labels, counters, lists])
}

function isAllocatable(bucket: Bucket): bucket is AllocatableBucket {
  return bucket === 'ready' || bucket === 'outdatedReady' || bucket === 'unheard' || bucket === 'outdatedUnheard'
}

function newAllocatable(): Allocatable {
  return { servers: new LinkedSet(timeLinkOf), groups: new Map(), machines: new Map() }
}

type LinkOf = (entry: ServerEntry) => Link<ServerEntry>

function insertInto(lists: Lists, group: Group, entry: ServerEntry, linkOf: LinkOf): void {
  const servers = lists.get(group) ?? new LinkedSet(linkOf)
  lists.set(group, servers)
  insert(servers, entry, linkOf)
}

function removeFrom(lists: Lists, group: Group, entry: ServerEntry, linkOf: LinkOf): void {
  const servers = linkOf(entry).set
  if (servers?.delete(entry) && servers.size === 0) lists.delete(group)
}

/** A server whose data change, or that was not ready for a while, gets its place back. Others belong at the end. */
function insert(servers: LinkedSet<ServerEntry>, entry: ServerEntry, linkOf: LinkOf): void {
  const since = sinceOf(entry)
  let later: ServerEntry | undefined
  for (let other = servers.last; other && sinceOf(other) > since; other = linkOf(other).before) later = other
  if (later) servers.addBefore(later, entry)
  else servers.add(entry)
}

interface FreeInGroup {
  readonly group: Group | undefined
  readonly free: number
}

function moveByFree(groups: Map<Group, ByFree>, entry: ServerEntry, from: FreeInGroup, to: FreeInGroup): void {
  const left = from.group && groups.get(from.group)
  if (from.group && left) {
    const servers = left.get(from.free)
    if (servers?.delete(entry) && servers.size === 0) left.delete(from.free)
    if (left.size === 0) groups.delete(from.group)
  }
  if (!to.group || to.free === 0) return
  const joined: ByFree = groups.get(to.group) ?? new Map()
  groups.set(to.group, joined)
  joined.set(to.free, (joined.get(to.free) ?? new Set()).add(entry))
}
