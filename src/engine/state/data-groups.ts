/**
 * Groups the servers of a build that can be allocated by their labels, counters and lists, so that a selector is evaluated once for all
 * servers that have the same. Kept from the first request that selects servers of the build, so other builds do no work for it.
 */
import { canonical } from '../../rules/model/canonical.js'
import { noData, type ServerData } from '../../rules/model/server-data.js'
import type { Bucket, BuildEntry, ServerEntry } from './entries.js'

const allocatable = ['ready', 'outdatedReady', 'unheard', 'outdatedUnheard'] as const
export type AllocatableBucket = (typeof allocatable)[number]

export interface DataGroup {
  readonly key: string
  /** Of one of its servers. The others may have other annotations, on which no selector depends. */
  readonly data: ServerData | undefined
  /** In the order in which they became ready. */
  readonly servers: Readonly<Record<AllocatableBucket, Set<ServerEntry>>>
}

interface Place {
  readonly group: DataGroup
  readonly bucket: AllocatableBucket
  readonly data: ServerData | undefined
}

export class DataGroups {
  readonly #groups = new Map<string, DataGroup>()
  readonly #places = new Map<ServerEntry, Place>()

  constructor({ buckets }: Pick<BuildEntry, 'buckets'>) {
    for (const bucket of allocatable) for (const entry of buckets[bucket]) this.place(entry)
  }

  /** The groups that have a server. */
  get all(): Iterable<DataGroup> {
    return this.#groups.values()
  }

  /** Call when the bucket or the data of a server have changed. */
  place(entry: ServerEntry): void {
    const { bucket } = entry
    const { data } = entry.record
    const before = this.#places.get(entry)
    if (before?.bucket === bucket && before.data === data) return
    const key = before?.data === data && before ? before.group.key : keyOf(data)
    // Only its annotations have changed: it keeps its place.
    if (before?.bucket === bucket && before.group.key === key) {
      this.#places.set(entry, { ...before, data })
      return
    }
    if (before) this.remove(entry)
    if (!isAllocatable(bucket)) return
    const group = this.#groups.get(key) ?? newGroup(key, data)
    this.#groups.set(key, group)
    group.servers[bucket].add(entry)
    this.#places.set(entry, { group, bucket, data })
  }

  remove(entry: ServerEntry): void {
    const place = this.#places.get(entry)
    if (!place) return
    const { group, bucket } = place
    this.#places.delete(entry)
    group.servers[bucket].delete(entry)
    if (allocatable.every((name) => group.servers[name].size === 0)) this.#groups.delete(group.key)
  }
}

function isAllocatable(bucket: Bucket): bucket is AllocatableBucket {
  return allocatable.some((name) => name === bucket)
}

function keyOf({ labels, counters, lists }: ServerData = noData): string {
  return canonical([labels, counters, lists])
}

function newGroup(key: string, data: ServerData | undefined): DataGroup {
  const set = () => new Set<ServerEntry>()
  return { key, data, servers: { ready: set(), outdatedReady: set(), unheard: set(), outdatedUnheard: set() } }
}
