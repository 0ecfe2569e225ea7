/**
 * Groups the servers of a build that can be allocated by their labels, counters and lists, so that a selector is evaluated once for all
 * servers that have the same. Kept from the first request that selects servers of the build, so other builds do no work for it.
 */
import { canonical } from '../../rules/model/canonical.js'
import { noData, type ServerData } from '../../rules/model/server-data.js'
import type { Bucket, BuildEntry, ServerEntry } from './entries.js'
import { type Link, LinkedSet } from './linked-set.js'
import { machineOf } from './machine-loads.js'

const allocatable = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const
export type AllocatableBucket = (typeof allocatable)[number]

/** Those that have been standing by for the longest first. */
export interface GroupedServers {
  readonly all: LinkedSet<ServerEntry>
  /** The same by machine. Empty until a request asks for an order by machine. */
  readonly byMachine: Map<string, LinkedSet<ServerEntry>>
}

export interface DataGroup {
  readonly key: string
  /** Of one of its servers. The others may have other annotations, on which no selector depends. */
  readonly data: ServerData | undefined
  readonly servers: Readonly<Record<AllocatableBucket, GroupedServers>>
}

interface Place {
  readonly group: DataGroup
  readonly bucket: AllocatableBucket
  readonly data: ServerData | undefined
  readonly machine: string
}

export class DataGroups {
  readonly #groups = new Map<string, DataGroup>()
  readonly #places = new Map<ServerEntry, Place>()
  #hasMachines = false

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
  indexMachines(): void {
    if (this.#hasMachines) return
    this.#hasMachines = true
    for (const { servers } of this.#groups.values()) {
      for (const bucket of allocatable) for (const entry of servers[bucket].all) addToMachine(servers[bucket], entry)
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
    if (before) this.remove(entry)
    const group = this.#groups.get(key) ?? newGroup(key, data)
    this.#groups.set(key, group)
    const servers = group.servers[bucket]
    insert(servers.all, entry, ({ groupLink }) => groupLink)
    if (this.#hasMachines) addToMachine(servers, entry)
    this.#places.set(entry, { group, bucket, data, machine })
  }

  remove(entry: ServerEntry): void {
    const place = this.#places.get(entry)
    if (!place) return
    const { group, bucket, machine } = place
    const { all, byMachine } = group.servers[bucket]
    this.#places.delete(entry)
    all.delete(entry)
    const onMachine = byMachine.get(machine)
    if (onMachine?.delete(entry) && onMachine.size === 0) byMachine.delete(machine)
    if (allocatable.every((name) => group.servers[name].all.size === 0)) this.#groups.delete(group.key)
  }
}

function addToMachine({ byMachine }: GroupedServers, entry: ServerEntry): void {
  const machine = machineOf(entry)
  const servers = byMachine.get(machine) ?? new LinkedSet<ServerEntry>(({ machineLink }) => machineLink)
  insert(servers, entry, ({ machineLink }) => machineLink)
  byMachine.set(machine, servers)
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
function sinceOf({ standingBySince = Number.MAX_VALUE }: ServerEntry): number {
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
  const none = (): GroupedServers => ({
    all: new LinkedSet<ServerEntry>(({ groupLink }) => groupLink),
    byMachine: new Map(),
  })
  return { key, data, servers: { ready: none(), outdatedReady: none(), unheard: none(), outdatedUnheard: none() } }
}
