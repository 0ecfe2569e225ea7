/**
 * A set in order of arrival whose every operation costs the same however large it is. A JavaScript Set would do but for
 * one thing: taking its first member again and again walks over the holes that the ones before have left.
 */
export class LinkedSet<T extends object> implements Iterable<T> {
  readonly #nodes = new Map<T, Node<T>>()
  #first: Node<T> | undefined
  #last: Node<T> | undefined

  get size(): number {
    return this.#nodes.size
  }

  /** The member that has been there for longest. */
  get first(): T | undefined {
    return this.#first?.member
  }

  has(member: T): boolean {
    return this.#nodes.has(member)
  }

  /** Puts it last. One that is a member already keeps its place. */
  add(member: T): void {
    if (this.#nodes.has(member)) return
    const node: Node<T> = { member, before: this.#last, after: undefined }
    this.#nodes.set(member, node)
    if (this.#last) this.#last.after = node
    else this.#first = node
    this.#last = node
  }

  delete(member: T): boolean {
    const node = this.#nodes.get(member)
    if (!node) return false
    this.#nodes.delete(member)
    if (node.before) node.before.after = node.after
    else this.#first = node.after
    if (node.after) node.after.before = node.before
    else this.#last = node.before
    return true
  }

  /** Makes a member the last. */
  moveToEnd(member: T): void {
    const node = this.#nodes.get(member)
    if (!node || node === this.#last) return
    if (node.before) node.before.after = node.after
    else this.#first = node.after
    if (node.after) node.after.before = node.before
    node.before = this.#last
    node.after = undefined
    if (this.#last) this.#last.after = node
    this.#last = node
  }

  clear(): void {
    this.#nodes.clear()
    this.#first = undefined
    this.#last = undefined
  }

  /** Members may be deleted while they are being read: the one just read, and any before it. */
  *[Symbol.iterator](): Generator<T> {
    for (let node = this.#first; node;) {
      const { member, after } = node
      yield member
      // The member just read may be gone by now, and what stood after it too.
      node = this.#nodes.has(member) ? node.after : after
    }
  }
}

interface Node<T> {
  readonly member: T
  before: Node<T> | undefined
  after: Node<T> | undefined
}
