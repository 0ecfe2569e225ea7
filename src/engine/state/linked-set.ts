/**
 * A set in order of arrival whose every operation costs the same however large it is. A JavaScript Set would do but for
 * two things: taking its first member again and again walks over the holes that the ones before have left, and a member
 * that moves from set to set all day is better off carrying its place with it.
 */

/** A member's place in one of the sets that share it: a member is in at most one of them at a time. */
export interface Link<T extends object> {
  set: LinkedSet<T> | undefined
  before: T | undefined
  after: T | undefined
}

export function unlinked<T extends object>(): Link<T> {
  return { set: undefined, before: undefined, after: undefined }
}

export class LinkedSet<T extends object> implements Iterable<T> {
  readonly #linkOf: (member: T) => Link<T>
  #size = 0
  #first: T | undefined
  #last: T | undefined

  /** `linkOf` returns the same link of a member each time. */
  constructor(linkOf: (member: T) => Link<T>) {
    this.#linkOf = linkOf
  }

  get size(): number {
    return this.#size
  }

  /** The member that has been there for longest. */
  get first(): T | undefined {
    return this.#first
  }

  /** The member that came last. */
  get last(): T | undefined {
    return this.#last
  }

  has(member: T): boolean {
    return this.#linkOf(member).set === this
  }

  /** Puts it last. One that is a member already keeps its place; one of another set that shares its link is moved. */
  add(member: T): void {
    const link = this.#linkOf(member)
    if (link.set === this) return
    link.set?.delete(member)
    link.set = this
    this.#size++
    this.#append(member, link)
  }

  /** Puts one that is in no set before a member. */
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

  /** Makes a member the last. */
  moveToEnd(member: T): void {
    const link = this.#linkOf(member)
    if (link.set !== this || member === this.#last) return
    this.#unlink(link)
    this.#append(member, link)
  }

  /** Members may be deleted while they are being read: the one just read, and any before it. */
  *[Symbol.iterator](): Generator<T> {
    for (let member = this.#first; member;) {
      const link = this.#linkOf(member)
      const { after } = link
      yield member
      // The member just read may be gone by now, and what stood after it too.
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
