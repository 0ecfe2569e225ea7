/**
 * Divides long work into slices, between which the event loop handles other work: a heartbeat or an allocation then waits for a
 * few slices instead of for a large answer, or for the answers to all readers.
 */
import { setImmediate } from 'node:timers'

/** The work of one slice takes well under a millisecond: this much text, or this many resources. */
export const sliceChars = 32 * 1024
export const sliceItems = 200

export class Turns {
  readonly #perTurn: number
  #left: number
  #waiting: (() => void)[] = []
  #willRefill = false
  #turn = 0

  /** `perTurn` is the number of slices in one turn of the event loop. */
  constructor(perTurn = 8) {
    this.#perTurn = perTurn
    this.#left = perTurn
  }

  /** Resolves when the caller may do one slice of its work. Callers get their slices in the order in which they ask. */
  take(): Promise<void> {
    this.#refillSoon()
    if (this.#left === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#left--
    return Promise.resolve()
  }

  /** A number that changes with each turn of the event loop. */
  current(): number {
    this.#refillSoon()
    return this.#turn
  }

  #refillSoon(): void {
    if (this.#willRefill) return
    this.#willRefill = true
    setImmediate(() => this.#refill())
  }

  #refill(): void {
    this.#willRefill = false
    this.#turn++
    const next = this.#waiting.splice(0, this.#perTurn)
    this.#left = this.#perTurn - next.length
    if (next.length > 0) this.#refillSoon()
    for (const resolve of next) resolve()
  }
}

/** Shared by everything that divides its work, since there is one event loop. */
export const turns = new Turns()

/** What is left of each turn for requests that may wait: of connections and game servers that have had their share. */
export const requestTurns = new Turns()

/** Converts every item, in slices. The items are those at the time of the call. */
export async function mapInSlices<T, R>(items: Iterable<T>, convert: (item: T) => R): Promise<R[]> {
  const all = [...items]
  const converted: R[] = []
  for (const item of all) {
    if (converted.length > 0 && converted.length % sliceItems === 0) await turns.take()
    converted.push(convert(item))
  }
  return converted
}
