/**
 * The servers of a build that have sessions and room for further ones, by how many more they take, for servers with the same labels,
 * counters and lists. Kept for builds whose spec lets a server have several sessions; other builds do no work for it.
 */
import { sessionsPerServer } from '../../rules/lifecycle/sessions.js'
import { noData, type ServerData } from '../../rules/model/server-data.js'
import { dataKeyOf } from './data-groups.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import { isBeingAllocated, isCurrent, isHeard } from './queries.js'

interface Group {
  readonly key: string
  readonly isCurrent: boolean
  /** Of one of its servers. The others may have other annotations. */
  readonly data: ServerData
  readonly byRoom: Map<number, Set<ServerEntry>>
}

interface Position {
  readonly group: Group
  readonly key: string
  readonly room: number
}

export class SlotIndex {
  /** How many sessions a server may have. */
  readonly #most: number
  readonly #groups = new Map<string, Group>()
  readonly #positions = new Map<ServerEntry, Position>()
  #free = 0
  /** The room of servers that are not heard yet, for example after a restart of the host: nobody gets it, and no server is started for it. */
  readonly #awaiting = new Map<ServerEntry, number>()
  #awaited = 0
  /** Whether the game that stood by last takes several sessions. */
  #isShared: boolean

  constructor({ buckets, record, slots }: Pick<BuildEntry, 'buckets' | 'record' | 'slots'>) {
    this.#most = sessionsPerServer(record.spec)
    this.#isShared = slots?.perServer !== 1
    for (const entry of [...buckets.active, ...buckets.reserved]) this.place(entry)
  }

  /** How many sessions a new server is expected to take. */
  get perServer(): number {
    return this.#isShared ? this.#most : 1
  }

  /** How many further sessions the servers with room take in all. */
  get free(): number {
    return this.#free + (this.#isShared ? this.#awaited : 0)
  }

  /** The servers with room. */
  get all(): readonly ServerEntry[] {
    return [...this.#positions.keys()]
  }

  /** Call with what a game says that has no session yet. Returns true if it is news. */
  heard(isShared: boolean): boolean {
    if (isShared === this.#isShared) return false
    this.#isShared = isShared
    return true
  }

  /** How many further sessions the server takes. */
  roomOf(entry: ServerEntry): number {
    return this.#positions.get(entry)?.room ?? 0
  }

  /** True if the server, on which an atomic batch holds places, has another one for that batch. */
  hasFreePlace({ isShared, places, record }: ServerEntry): boolean {
    return isShared && record.sessions.length + places.length < this.#most
  }

  /** Call when a server has changed. Returns true if it takes more sessions than before. */
  place(entry: ServerEntry): boolean {
    this.#await(entry, this.#roomOnceHeard(entry))
    const before = this.#positions.get(entry)
    const room = this.#roomOn(entry)
    const key = room > 0 ? `${isCurrent(entry)} ${dataKeyOf(entry.record.data)}` : ''
    if ((before?.room ?? 0) === room && (!before || before.key === key)) return false
    if (before) this.#unplace(entry)
    if (room === 0) return false
    const group = this.#groups.get(key) ?? newGroup(key, entry)
    this.#groups.set(key, group)
    const servers = group.byRoom.get(room) ?? new Set<ServerEntry>()
    group.byRoom.set(room, servers.add(entry))
    this.#positions.set(entry, { group, key, room })
    this.#free += room
    return room > (before?.room ?? 0)
  }

  remove(entry: ServerEntry): void {
    this.#await(entry, 0)
    this.#unplace(entry)
  }

  #await(entry: ServerEntry, room: number): void {
    this.#awaited += room - (this.#awaiting.get(entry) ?? 0)
    if (room > 0) this.#awaiting.set(entry, room)
    else this.#awaiting.delete(entry)
  }

  #roomOnceHeard(entry: ServerEntry): number {
    const { isLeaving, record } = entry
    if (record.state !== 'Active' || record.health === 'Unhealthy' || isLeaving || isHeard(entry)) return 0
    const taken = record.sessions.length
    return taken === 0 ? 0 : Math.max(0, this.#most - taken)
  }

  #unplace(entry: ServerEntry): void {
    const place = this.#positions.get(entry)
    if (!place) return
    const { group, room } = place
    this.#positions.delete(entry)
    this.#free -= room
    const servers = group.byRoom.get(room)
    if (servers?.delete(entry) && servers.size === 0) group.byRoom.delete(room)
    if (group.byRoom.size === 0) this.#groups.delete(group.key)
  }

  /** The server with the least room, of those that run the current template if there are any. */
  fullest(
    fits: (data: ServerData) => boolean,
    takes: ((data: ServerData | undefined) => boolean) | undefined,
  ): Fullest | undefined {
    let best: Fullest | undefined
    for (const { byRoom, data, isCurrent } of this.#groups.values()) {
      if (best?.isCurrent && !isCurrent) continue
      const isBetter = (room: number) => !best || (isCurrent && !best.isCurrent) || room < best.room
      if (!isBetter(Math.min(...byRoom.keys())) || !fits(data)) continue
      const found = fullestOf(byRoom, takes)
      if (found && isBetter(found.room)) best = { ...found, isCurrent }
    }
    return best
  }

  #roomOn(entry: ServerEntry): number {
    const { isLeaving, isShared, places, record } = entry
    if (!isShared || isLeaving) return 0
    if (record.health === 'Unhealthy' || !isHeard(entry)) return 0
    const isBegun = record.state === 'StandingBy' ? isBeingAllocated(entry) : record.state === 'Active'
    const taken = record.sessions.length + places.length
    return isBegun && taken > 0 ? Math.max(0, this.#most - taken) : 0
  }
}

export interface Fullest {
  readonly entry: ServerEntry
  readonly room: number
  readonly isCurrent: boolean
}

function newGroup(key: string, entry: ServerEntry): Group {
  return { key, isCurrent: isCurrent(entry), data: entry.record.data ?? noData, byRoom: new Map() }
}

/** The servers of a group may differ in their annotations. */
function fullestOf(
  byRoom: Group['byRoom'],
  takes: ((data: ServerData | undefined) => boolean) | undefined,
): Pick<Fullest, 'entry' | 'room'> | undefined {
  for (const room of [...byRoom.keys()].sort((a, b) => a - b)) {
    for (const entry of byRoom.get(room) ?? []) if (!takes || takes(entry.record.data)) return { entry, room }
  }
  return undefined
}
