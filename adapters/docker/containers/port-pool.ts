/**
 * Allocates public ports on the engine's machine. Only the engine, which may be remote, knows whether a port is free. So the
 * pool picks ports that this fleet does not hold, and callers report the ones that turn out to be taken. Pure, except that it
 * reads the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import { ForeignPorts, PortRotation, portsExhausted } from '../../shared/port-rotation.js'

/** Stores no allocations: held ports are read from the containers on every call, so none can leak. */
export class PortPool {
  readonly #rotation: PortRotation
  readonly #foreign: ForeignPorts
  readonly #held: () => Iterable<number>

  constructor(range: PortRange, clock: Clock, held: () => Iterable<number>) {
    this.#rotation = new PortRotation(range)
    this.#foreign = new ForeignPorts(clock)
    this.#held = held
  }

  /**
   * Takes `count` ports. Synchronous, so that concurrent callers get different ports. `tried` contains ports that this caller
   * found to be in use. Throws `ports-exhausted`.
   */
  take(count: number, tried: ReadonlySet<number>): readonly number[] {
    const foreign = this.#foreign.current()
    const held = new Set(this.#held())
    const excluded = new Set([...held, ...tried])
    // Use ports held by other programs only as a last resort: they may have been released in the meantime.
    const taken = this.#rotation.take(count, new Set([...excluded, ...foreign])) ?? this.#rotation.take(count, excluded)
    if (taken) return taken
    const { first, last } = this.#rotation.range
    const own = [...held].filter((port) => port >= first && port <= last).length
    const detail = `${own} held by other servers of this fleet, ${foreign.size} by other programs`
    throw portsExhausted(this.#rotation.range, count, detail)
  }

  /** Records that another container or program holds these ports. */
  markForeign(ports: readonly number[]): void {
    this.#foreign.mark(ports)
  }
}
