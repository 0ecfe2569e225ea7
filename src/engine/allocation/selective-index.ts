/** Indexes waiting callers that select servers by the buildIDs or labels by which they name builds, each in the order of arrival. */
import type { ServerSelector } from '../../rules/model/allocation-request.js'
import type { BuildSpec } from '../../rules/model/resources.js'
import { labelKeys } from '../state/named-builds.js'
import { type Link, LinkedSet, unlinked } from '../state/linked-set.js'

interface Place<T> {
  readonly link: Link<Place<T>>
  readonly ticket: number
  readonly waiter: T
}

export class SelectiveIndex<T extends { readonly ticket: number }> {
  readonly #byKey = new Map<string, LinkedSet<Place<T>>>()
  readonly #places = new Map<T, ReadonlyMap<string, Place<T>>>()

  get size(): number {
    return this.#places.size
  }

  /** `keys`: those of its selectors. */
  add(waiter: T, keys: Iterable<string>): void {
    const places = new Map<string, Place<T>>()
    this.#places.set(waiter, places)
    for (const key of keys) {
      if (places.has(key)) continue
      const place: Place<T> = { link: unlinked(), ticket: waiter.ticket, waiter }
      const waiters = this.#byKey.get(key) ?? new LinkedSet<Place<T>>(({ link }) => link)
      insertByTicket(waiters, place)
      this.#byKey.set(key, waiters)
      places.set(key, place)
    }
  }

  delete(waiter: T): void {
    for (const [key, place] of this.#places.get(waiter) ?? []) {
      const waiters = this.#byKey.get(key)
      if (waiters?.delete(place) && waiters.size === 0) this.#byKey.delete(key)
    }
    this.#places.delete(waiter)
  }

  /**
   * The callers that may name a build with any of these specs, in the order of arrival: some name it by one of its labels only and want
   * others as well. Does not look at more of them than the iteration does.
   */
  *naming(...specs: readonly BuildSpec[]): Generator<T> {
    const keys = new Set(specs.flatMap(buildKeys))
    const queues = [...keys].flatMap((key) => this.#byKey.get(key) ?? [])
    if (queues.length === 1) {
      for (const { waiter } of queues[0] ?? []) yield waiter
      return
    }
    yield* merged(queues)
  }
}

/** The keys under which a waiting caller is found by a build that this selector may name. */
export function selectorKeys({ builds, buildLabels }: ServerSelector): readonly string[] {
  return builds ? builds.map(idKey) : labelKeys(buildLabels).slice(0, 1).map(labelKey)
}

function buildKeys({ buildID, labels }: BuildSpec): readonly string[] {
  return [idKey(buildID), ...labelKeys(labels).map(labelKey)]
}

function idKey(buildID: string): string {
  return `id ${buildID}`
}

function labelKey(label: string): string {
  return `label ${label}`
}

/** Each waiter once. The places in the queues may be deleted during the iteration, up to the current waiter. */
function* merged<T>(queues: readonly LinkedSet<Place<T>>[]): Generator<T> {
  const heads = queues.map((queue) => queue.first)
  for (;;) {
    let next: Place<T> | undefined
    for (const head of heads) if (head && (!next || head.ticket < next.ticket)) next = head
    if (!next) return
    // Before the caller may delete it.
    for (const [i, head] of heads.entries()) if (head?.waiter === next.waiter) heads[i] = head.link.after
    yield next.waiter
  }
}

export function insertByTicket<T extends { readonly ticket: number }>(queue: LinkedSet<T>, waiter: T): void {
  if (queue.last && queue.last.ticket > waiter.ticket) {
    for (const other of queue) if (other.ticket > waiter.ticket) return queue.addBefore(other, waiter)
  }
  queue.add(waiter)
}
