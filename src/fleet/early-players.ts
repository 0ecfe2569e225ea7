/**
 * Remembers which servers' games have reported players while this host ran no engine: it may have been elected and still be reading the
 * store. Without that, a session whose players came and left meanwhile would end as if nobody had come.
 */
import type { Heartbeat } from '../rules/game/heartbeat.js'

/** Ids come from the network, so their number has a limit. */
const maxServers = 20_000

export class EarlyPlayers {
  #servers = new Set<string>()

  heard(sessionHostId: string, { players, state }: Heartbeat): void {
    if (state !== 'Active' || players.length === 0 || this.#servers.size >= maxServers) return
    this.#servers.add(sessionHostId)
  }

  /** Returns the ids of these servers and forgets them. */
  take(): Iterable<string> {
    const servers = this.#servers
    this.#servers = new Set()
    return servers
  }
}
