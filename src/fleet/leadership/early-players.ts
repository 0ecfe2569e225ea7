/**
 * Remembers which servers' games have reported players while this host ran no engine: it may have been elected and still be reading the
 * store. Otherwise a session whose players came and left meanwhile would end as unclaimed.
 */
import type { Heartbeat } from '../../rules/game/heartbeat.js'

/** Ids come from the network, so their number and length have limits. */
const maxServers = 20_000
const maxIdLength = 100

export class EarlyPlayers {
  #servers = new Set<string>()

  heard(sessionHostId: string, { players, state }: Heartbeat): void {
    if (state !== 'Active' || players.length === 0 || sessionHostId.length > maxIdLength) return
    // The last ones are kept: a host may hear games of others for days.
    this.#servers.delete(sessionHostId)
    this.#servers.add(sessionHostId)
    const [oldest] = this.#servers
    if (oldest !== undefined && this.#servers.size > maxServers) this.#servers.delete(oldest)
  }

  /** Returns the ids of these servers and forgets them. */
  take(): Iterable<string> {
    const servers = this.#servers
    this.#servers = new Set()
    return servers
  }
}
