/**
 * Public ports of the engine's machine. Whether a number is free only the engine can tell, which may be far away: the pool
 * gives what this fleet does not hold, and is told which numbers turned out to be somebody else's. Pure but for the clock.
 */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../src/rules/model/ports.js'

/** Somebody else's number is tried again after this long. */
const foreignMs = 60_000

/** Keeps no books of its own: what is held is read from the containers each time, so that no number can leak. */
export class PortPool {
  readonly #range: PortRange
  readonly #clock: Clock
  readonly #held: () => Iterable<number>
  /** Until when each is left alone. */
  readonly #foreign = new Map<number, number>()
  #last: number

  constructor(range: PortRange, clock: Clock, held: () => Iterable<number>) {
    this.#range = range
    this.#clock = clock
    this.#held = held
    this.#last = range.first - 1
  }

  /**
   * Synchronous, so that concurrent callers get different ones. `tried` are those that this caller has found taken. Throws
   * `ports-exhausted`.
   */
  take(count: number, tried: ReadonlySet<number>): readonly number[] {
    const now = this.#clock.elapsed()
    for (const [port, until] of this.#foreign) if (until <= now) this.#foreign.delete(port)
    const held = new Set(this.#held())
    const without = [...held, ...tried]
    // What was somebody else's a moment ago is better than nothing.
    const taken = this.#candidates(count, [...without, ...this.#foreign.keys()]) ?? this.#candidates(count, without)
    if (!taken) throw this.#exhausted(count, held)
    this.#last = taken.at(-1) ?? this.#last
    return taken
  }

  #candidates(count: number, without: Iterable<number>): readonly number[] | undefined {
    const taken: number[] = []
    if (count === 0) return taken
    for (const port of candidatePorts(this.#range, new Set(without), this.#last)) {
      if (taken.push(port) === count) return taken
    }
    return undefined
  }

  /** Another container or program has these. */
  markForeign(ports: readonly number[]): void {
    for (const port of ports) this.#foreign.set(port, this.#clock.elapsed() + foreignMs)
  }

  #exhausted(count: number, held: ReadonlySet<number>): FleetError {
    const { first, last } = this.#range
    const own = [...held].filter((port) => port >= first && port <= last).length
    return new FleetError(
      'ports-exhausted',
      `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ` +
        `${own} held by other servers of this fleet, ${this.#foreign.size} by other programs`,
    )
  }
}
