/**
 * Groups the servers of a build that can be allocated by their labels, counters and lists, so that a selector is evaluated once for all
 * servers that have the same. Kept from the first request that selects servers of the build, so other builds do no work for it.
 */
import { canonical } from '../../rules/model/canonical.js'
import { noData, type ServerData } from '../../rules/model/server-data.js'
import type { Bucket, BuildEntry, DataLinks, ServerEntry } from './entries.js'
import { type Link, LinkedSet, unlinked } from './linked-set.js'
import { type Machine, type MachineLoads, machineOf } from './machine-loads.js'

const allocatable = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const
export type AllocatableBucket = (typeof allocatable)[number]

type ByBucket<T> = Readonly<Record<AllocatableBucket, T>>

export interface DataGroup {
  readonly key: string
  /** Of one of its servers. The others may have other annotations, on which no selector depends. */
  readonly data: ServerData | undefined
  /** Those that have been standing by for the longest first. */
  readonly servers: ByBucket<LinkedSet<ServerEntry>>
}

/** The servers of a build that are on the same machine, by group. */
export interface ServersOfMachine {
  readonly machine: Machine
  readonly groups: Map<DataGroup, LinkedSet<ServerEntry>>
}

interface Place {
  readonly group: DataGroup
  readonly bucket: AllocatableBucket
  readonly data: ServerData | undefined
  readonly machine: string
}

export class DataGroups {
  /** All servers, those that have been standing by for the longest first. */
  readonly servers = byBucket(() => new LinkedSet(timeLinkOf))
  /** By the name of the machine. Empty until a request asks for an order by machine. */
  readonly byMachine = byBucket(() => new Map<string, ServersOfMachine>())
  readonly #groups = new Map<string, DataGroup>()
  readonly #places = new Map<ServerEntry, Place>()
  #machines: MachineLoads | undefined

  constructor({ buckets }: Pick<BuildEntry, 'buckets'>) {
    for (const bucket of allocatable) {
      // In their order, each is placed at the end.
      for (const entry of [...buckets[bucket]].sort((a, b) => sinceOf(a) - sinceOf(b))) this.place(entry)
    }
  }

  /** The groups that have a server. */
  get all(): Iterable<DataGroup> {
    return this.#groups.values()
  }

  /** Keeps `byMachine` from now on. */
  indexMachines(machines: MachineLoads): void {
    if (this.#machines) return
    this.#machines = machines
    for (const group of this.#groups.values()) {
      for (const bucket of allocatable)
        for (const entry of group.servers[bucket]) this.#addToMachine(entry, bucket, group)
    }
  }

  /** Call when the bucket, the data or the machine of a server has changed. */
  place(entry: ServerEntry): void {
    const { bucket } = entry
    const { data } = entry.record
    const before = this.#places.get(entry)
    const machine = machineOf(entry)
    if (before?.bucket === bucket && before.data === data && before.machine === machine) return
    if (!isAllocatable(bucket)) return this.remove(entry)
    const key = before && before.data === data ? before.group.key : dataKeyOf(data)
    // Only its annotations have changed: it keeps its place.
    if (before?.bucket === bucket && before.group.key === key && before.machine === machine) {
      this.#places.set(entry, { ...before, data })
      return
    }
    if (before) this.#leaveGroup(entry, before)
    const group = this.#groups.get(key) ?? newGroup(key, data)
    this.#groups.set(key, group)
    insert(group.servers[bucket], entry, groupLinkOf)
    if (before?.bucket !== bucket) {
      if (before) this.servers[before.bucket].delete(entry)
      insert(this.servers[bucket], entry, timeLinkOf)
    }
    this.#addToMachine(entry, bucket, group)
    this.#places.set(entry, { group, bucket, data, machine })
  }

  remove(entry: ServerEntry): void {
    const place = this.#places.get(entry)
    if (!place) return
    this.#places.delete(entry)
    this.servers[place.bucket].delete(entry)
    this.#leaveGroup(entry, place)
  }

  #addToMachine(entry: ServerEntry, bucket: AllocatableBucket, group: DataGroup): void {
    if (!this.#machines) return
    const name = machineOf(entry)
    const machines = this.byMachine[bucket]
    const known: ServersOfMachine = machines.get(name) ?? { machine: this.#machines.use(name), groups: new Map() }
    const servers = known.groups.get(group) ?? new LinkedSet(machineLinkOf)
    insert(servers, entry, machineLinkOf)
    known.groups.set(group, servers)
    machines.set(name, known)
  }

  #leaveGroup(entry: ServerEntry, { group, bucket, machine }: Place): void {
    const servers = group.servers[bucket]
    servers.delete(entry)
    this.#leaveMachine(entry, bucket, group, machine)
    if (servers.size === 0 && allocatable.every((name) => group.servers[name].size === 0))
      this.#groups.delete(group.key)
  }

  #leaveMachine(entry: ServerEntry, bucket: AllocatableBucket, group: DataGroup, name: string): void {
    const known = this.byMachine[bucket].get(name)
    const servers = known?.groups.get(group)
    if (!known || !servers?.delete(entry) || servers.size > 0) return
    known.groups.delete(group)
    if (known.groups.size > 0) return
    this.byMachine[bucket].delete(name)
    this.#machines?.release(known.machine)
  }
}

function linksOf(entry: ServerEntry): DataLinks {
  return (entry.dataLinks ??= { time: unlinked(), group: unlinked(), machine: unlinked() })
}

function timeLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return linksOf(entry).time
}

export function groupLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return linksOf(entry).group
}

function machineLinkOf(entry: ServerEntry): Link<ServerEntry> {
  return linksOf(entry).machine
}

/** A server whose data change, or that was not ready for a while, gets its place back. Others belong at the end. */
function insert(
  servers: LinkedSet<ServerEntry>,
  entry: ServerEntry,
  linkOf: (entry: ServerEntry) => Link<ServerEntry>,
): void {
  const since = sinceOf(entry)
  let later: ServerEntry | undefined
  for (let other = servers.last; other && sinceOf(other) > since; other = linkOf(other).before) later = other
  if (later) servers.addBefore(later, entry)
  else servers.add(entry)
}

/** A server that has just become ready is placed before its time is known. */
export function sinceOf({ standingBySince = Number.MAX_VALUE }: ServerEntry): number {
  return standingBySince
}

function isAllocatable(bucket: Bucket): bucket is AllocatableBucket {
  return allocatable.some((name) => name === bucket)
}

/** Equal for data that no selector tells apart. */
export function dataKeyOf({ labels, counters, lists }: ServerData = noData): string {
  return canonical([labels, counters, lists])
}

function newGroup(key: string, data: ServerData | undefined): DataGroup {
  return { key, data, servers: byBucket(() => new LinkedSet(groupLinkOf)) }
}

function byBucket<T>(value: () => T): ByBucket<T> {
  return { ready: value(), outdatedReady: value(), unheard: value(), outdatedUnheard: value() }
}
