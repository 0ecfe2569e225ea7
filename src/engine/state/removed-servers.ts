/**
 * Remembers the servers that this host has removed last, because a write of such a server may take effect late and create its record
 * again. Processes that outlive the server know its token, so that record must never become a server again.
 */

/** As many as leave in the minutes for which a write can be late, even on a large fleet. */
const maxRemembered = 10_000

export class RemovedServers {
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
