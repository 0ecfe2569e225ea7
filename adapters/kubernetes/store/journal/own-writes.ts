/**
 * Which versions of servers this host has written itself since it took the journal over. Only those are allocated through the journal: an earlier
 * leader does not know them, so a late write of its own is a conflict, and cannot give the server to another session. All others are
 * allocated by a write of their status. No I/O.
 */
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'

export class OwnWrites {
  readonly #owner: () => string | undefined
  readonly #revisions = new Map<string, string>()
  #since: string | undefined

  constructor(owner: () => string | undefined) {
    this.#owner = owner
  }

  has(ref: Ref, revision: string): boolean {
    return this.#since !== undefined && this.#since === this.#owner() && this.#revisions.get(keyOf(ref)) === revision
  }

  wrote(ref: Ref, revision: string): void {
    const owner = this.#owner()
    if (owner !== this.#since) {
      this.#since = owner
      this.#revisions.clear()
    }
    if (owner !== undefined) this.#revisions.set(keyOf(ref), revision)
  }

  forget(ref: Ref): void {
    this.#revisions.delete(keyOf(ref))
  }
}
