/**
 * Which versions of servers this host has written itself since it became the leader. Only those are allocated through the journal: an earlier
 * leader does not know them, so a late write of its own is a conflict, and cannot give the server to another session. All others are
 * allocated by a write of their status. No I/O.
 */
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'

export class OwnWrites {
  readonly #term: () => number | undefined
  readonly #revisions = new Map<string, string>()
  #since: number | undefined

  constructor(term: () => number | undefined) {
    this.#term = term
  }

  has(ref: Ref, revision: string): boolean {
    return this.#since !== undefined && this.#since === this.#term() && this.#revisions.get(keyOf(ref)) === revision
  }

  wrote(ref: Ref, revision: string): void {
    const term = this.#term()
    if (term !== this.#since) {
      this.#since = term
      this.#revisions.clear()
    }
    if (term !== undefined) this.#revisions.set(keyOf(ref), revision)
  }

  forget(ref: Ref): void {
    this.#revisions.delete(keyOf(ref))
  }
}
