/**
 * Finds the sessions of a player: those whose game reports the player as connected, that hold a seat for the player, or whose request
 * named the player. A session
 * enters the index with the first search after its allocation, so an allocation does no work for it, and a fleet that searches for no
 * player keeps no index.
 */
import { isUnnamed } from '../../rules/game/probes.js'
import type { Server, Session } from '../../rules/model/resources.js'
import type { BuildEntry, ServerEntry } from './entries.js'

export class PlayerIndex {
  /** How often each server lists a player. */
  readonly #servers = new Map<string, Map<ServerEntry, number>>()
  readonly #indexed = new Set<ServerEntry>()

  /** The first to have the player comes first. Takes time in proportion to the sessions that were allocated since the last call, and to the sessions of this player. */
  find(builds: Iterable<BuildEntry>, player: string): readonly ServerEntry[] {
    for (const build of builds) this.#catchUp(build)
    return [...(this.#servers.get(player)?.keys() ?? [])]
  }

  /** Call when the connected players of a server have changed. */
  changed(entry: ServerEntry, before: readonly string[], after: readonly string[]): void {
    if (!this.#indexed.has(entry)) return
    let same = 0
    // Players mostly join at the end of the list.
    while (same < before.length && before[same] === after[same]) same++
    for (let i = same; i < before.length; i++) this.#remove(entry, before[i] ?? '')
    for (let i = same; i < after.length; i++) this.#add(entry, after[i] ?? '')
  }

  /** Call when the sessions of a server's record have changed. */
  sessionsChanged(entry: ServerEntry, before: Server, after: Server): void {
    if (!this.#indexed.has(entry)) return
    this.changed(entry, heldFor(before.sessions[0]), heldFor(after.sessions[0]))
    this.changed(entry, expectedOn(before), expectedOn(after))
  }

  remove(entry: ServerEntry): void {
    if (!this.#indexed.delete(entry)) return
    for (const player of playersOf(entry)) this.#remove(entry, player)
  }

  /** Servers join the active ones at the end, so the ones that are not indexed yet are the last. */
  #catchUp({ buckets: { active } }: BuildEntry): void {
    const fresh: ServerEntry[] = []
    for (let entry = active.last; entry && !this.#indexed.has(entry); entry = entry.bucketLink.before) fresh.push(entry)
    for (const entry of fresh.reverse()) {
      this.#indexed.add(entry)
      for (const player of playersOf(entry)) this.#add(entry, player)
    }
  }

  #add(entry: ServerEntry, player: string): void {
    // The name says nothing about who it is.
    if (isUnnamed(player)) return
    const servers = this.#servers.get(player) ?? new Map<ServerEntry, number>()
    servers.set(entry, (servers.get(entry) ?? 0) + 1)
    this.#servers.set(player, servers)
  }

  #remove(entry: ServerEntry, player: string): void {
    const servers = this.#servers.get(player)
    const times = servers?.get(entry)
    if (servers === undefined || times === undefined) return
    if (times > 1) servers.set(entry, times - 1)
    else servers.delete(entry)
    if (servers.size === 0) this.#servers.delete(player)
  }
}

function playersOf({ players, record }: ServerEntry): readonly string[] {
  const [session] = record.sessions
  return session ? [...expectedOn(record), ...players, ...heldFor(session)] : players
}

/** The initial players of all sessions of a server. */
function expectedOn(server: Server): readonly string[] {
  if (server.sessions.length <= 1) return server.sessions[0]?.initialPlayers ?? nobody
  return server.sessions.flatMap(({ initialPlayers }) => initialPlayers)
}

/** Those for whom seats of a session are held. */
function heldFor(session: Session | undefined): readonly string[] {
  return session?.holds?.map(({ player }) => player) ?? nobody
}

const nobody: readonly string[] = Object.freeze([])
