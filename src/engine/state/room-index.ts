/**
 * The sessions of a build that have free seats, by their number, for servers with the same labels, counters and lists. Kept from the first
 * request that looks for sessions of this build with room, so other builds do no work for it.
 *
 * A hold counts until its lapse is recorded, a moment after its time, so a session may have more room than shown here and never less.
 */
import { seatsOf } from '../../rules/lifecycle/seats.js'
import { noData, type ServerData } from '../../rules/model/server-data.js'
import { dataKeyOf } from './data-groups.js'
import type { BuildEntry, ServerEntry } from './entries.js'
import { isHeard } from './queries.js'

interface Group {
  readonly key: string
  /** Of one of its servers. The others may have other annotations. */
  readonly data: ServerData
  readonly byFree: Map<number, Set<ServerEntry>>
}

interface Position {
  readonly group: Group
  readonly data: ServerData | undefined
  readonly free: number
}

export class RoomIndex {
  readonly #groups = new Map<string, Group>()
  readonly #positions = new Map<ServerEntry, Position>()

  constructor({ buckets }: Pick<BuildEntry, 'buckets'>) {
    for (const entry of buckets.active) this.place(entry)
  }

  /** Call when the record or the players of a server have changed, or whether it is heard. */
  place(entry: ServerEntry): void {
    const { data } = entry.record
    const before = this.#positions.get(entry)
    const free = freeIn(entry)
    if (before?.free === free && before.data === data) return
    if (before) this.remove(entry)
    if (free === 0) return
    const key = before && before.data === data ? before.group.key : dataKeyOf(data)
    const group = this.#groups.get(key) ?? { key, data: data ?? noData, byFree: new Map<number, Set<ServerEntry>>() }
    this.#groups.set(key, group)
    const sessions = group.byFree.get(free) ?? new Set<ServerEntry>()
    group.byFree.set(free, sessions.add(entry))
    this.#positions.set(entry, { group, data, free })
  }

  remove(entry: ServerEntry): void {
    const place = this.#positions.get(entry)
    if (!place) return
    const { group, free } = place
    this.#positions.delete(entry)
    const sessions = group.byFree.get(free)
    if (sessions?.delete(entry) && sessions.size === 0) group.byFree.delete(free)
    if (group.byFree.size === 0) this.#groups.delete(group.key)
  }

  /** Sessions of servers that fit with at least so many free seats, in sets with the same number of them. */
  *withRoom(
    seats: number,
    fits: (data: ServerData) => boolean,
  ): Generator<{ readonly free: number; readonly sessions: ReadonlySet<ServerEntry> }> {
    for (const { data, byFree } of this.#groups.values()) {
      let mayFit: boolean | undefined
      for (const [free, sessions] of byFree) {
        if (free >= seats && (mayFit ??= fits(data))) yield { free, sessions }
      }
    }
  }
}

/** 0 for a server whose players are not known for certain, because this host has not heard its game. */
function freeIn(entry: ServerEntry): number {
  const { bucket, build, players, record } = entry
  const { seatsPerSession } = build.record.spec
  const [session] = record.sessions
  if (bucket !== 'active' || !session || seatsPerSession === undefined || !isHeard(entry)) return 0
  return seatsOf(seatsPerSession, players, session.holds, undefined).free
}
