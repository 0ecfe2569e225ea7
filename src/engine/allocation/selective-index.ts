/** Indexes waiting callers that select servers by the buildIDs that they name, each in the order of arrival. */
import { type Link, LinkedSet, unlinked } from '../state/linked-set.js'

interface Place<T> {
  readonly link: Link<Place<T>>
  readonly ticket: number
  readonly waiter: T
}

export class SelectiveIndex<T extends { readonly ticket: number }> {
  readonly #byID = new Map<string, LinkedSet<Place<T>>>()
  readonly #places = new Map<T, ReadonlyMap<string, Place<T>>>()

  get size(): number {
    return this.#places.size
  }

  add(waiter: T, buildIDs: Iterable<string>): void {
    const places = new Map<string, Place<T>>()
    this.#places.set(waiter, places)
    for (const id of buildIDs) {
      if (places.has(id)) continue
      const place: Place<T> = { link: unlinked(), ticket: waiter.ticket, waiter }
      const waiters = this.#byID.get(id) ?? new LinkedSet<Place<T>>(({ link }) => link)
      insertByTicket(waiters, place)
      this.#byID.set(id, waiters)
      places.set(id, place)
    }
  }

  delete(waiter: T): void {
    for (const [id, place] of this.#places.get(waiter) ?? []) {
      const waiters = this.#byID.get(id)
      if (waiters?.delete(place) && waiters.size === 0) this.#byID.delete(id)
    }
    this.#places.delete(waiter)
  }

  /** The callers that name this buildID, in the order of arrival. During the iteration, the current one may be deleted. */
  *naming(buildID: string): Generator<T> {
    for (const { waiter } of this.#byID.get(buildID) ?? []) yield waiter
  }

  /** The callers that name any of these buildIDs, in the order of arrival. */
  namingAny(buildIDs: readonly string[]): readonly T[] {
    const found = new Set<T>()
    for (const id of buildIDs) for (const waiter of this.naming(id)) found.add(waiter)
    const all = [...found]
    return buildIDs.length > 1 ? all.sort((a, b) => a.ticket - b.ticket) : all
  }
}

export function insertByTicket<T extends { readonly ticket: number }>(queue: LinkedSet<T>, waiter: T): void {
  if (queue.last && queue.last.ticket > waiter.ticket) {
    for (const other of queue) if (other.ticket > waiter.ticket) return queue.addBefore(other, waiter)
  }
  queue.add(waiter)
}
