/**
 * An insertion-ordered set whose operations all take constant time: an intrusive doubly linked list. A JavaScript Set is
 * slower in two cases: repeatedly taking the first member iterates over the slots of deleted ones, and moving a member
 * between sets costs a hash lookup in each.
 */

/** A member's position in a set. If several sets use the same link, a member can be in only one of them at a time. */
export interface Link<T extends object> {
  set: LinkedSet<T> | undefined
  before: T | undefined
  after: T | undefined
}

export function unlinked<T extends object>(): Link<T> {
  return { set: undefined, before: undefined, after: undefined }
}

/** A generator that has nothing left to yield can be shared. */
const ended = (function* (): Generator<never> {})()

export class LinkedSet<T extends object> implements Iterable<T> {
  readonly #linkOf: (member: T) => Link<T>
  #size = 0
  #first: T | undefined
  #last: T | undefined

  /** `linkOf` must return the same link for a member on every call. */
  constructor(linkOf: (member: T) => Link<T>) {
    this.#linkOf = linkOf
  }

  get size(): number {
    return this.#size
  }

  /** The oldest member. */
  get first(): T | undefined {
    return this.#first
  }

  /** The newest member. */
  get last(): T | undefined {
    return this.#last
  }

  has(member: T): boolean {
    return this.#linkOf(member).set === this
  }

  /**
   * Appends a member. If it is already in this set, it keeps its position. If it is in another set that uses the same link,
   * it is moved here.
   */
  add(member: T): void {
    const link = this.#linkOf(member)
    if (link.set === this) return
    link.set?.delete(member)
    link.set = this
    this.#size++
    this.#append(member, link)
  }

  /** Inserts `member` before `later`. `member` must not be in any set that uses the same link. */
  addBefore(later: T, member: T): void {
    const link = this.#linkOf(member)
    const next = this.#linkOf(later)
    link.set = this
    this.#size++
    link.before = next.before
    link.after = later
    if (next.before) this.#linkOf(next.before).after = member
    else this.#first = member
    next.before = member
  }

  delete(member: T): boolean {
    const link = this.#linkOf(member)
    if (link.set !== this) return false
    link.set = undefined
    this.#size--
    this.#unlink(link)
    return true
  }

  /** Appends a member, or moves it to the end if it is already in this set. */
  addLast(member: T): void {
    if (this.has(member)) this.moveToEnd(member)
    else this.add(member)
  }

  /** Moves a member to the end of the set. */
  moveToEnd(member: T): void {
    const link = this.#linkOf(member)
    if (link.set !== this || member === this.#last) return
    this.#unlink(link)
    this.#append(member, link)
  }

  /** Iterates from oldest to newest. During the iteration, the current member and earlier ones may be deleted. */
  [Symbol.iterator](): Generator<T> {
    // Every reconcile iterates over several sets, which are mostly empty.
    return this.#first === undefined ? ended : this.#members()
  }

  *#members(): Generator<T> {
    for (let member = this.#first; member;) {
      const link = this.#linkOf(member)
      const { after } = link
      yield member
      // The caller may have deleted this member, and a different member may now follow it.
      member = link.set === this ? link.after : after
    }
  }

  #append(member: T, link: Link<T>): void {
    link.before = this.#last
    link.after = undefined
    if (this.#last) this.#linkOf(this.#last).after = member
    else this.#first = member
    this.#last = member
  }

  #unlink({ before, after }: Link<T>): void {
    if (before) this.#linkOf(before).after = after
    else this.#first = after
    if (after) this.#linkOf(after).before = before
    else this.#last = before
  }
}
