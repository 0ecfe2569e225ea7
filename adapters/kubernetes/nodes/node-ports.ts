/**
 * Public ports of many nodes. A number is held once on each node, so a full range on one node leaves it free on the next.
 * Which node a pod comes to only the scheduler decides, after the number is given: so a number that no node holds is given
 * first, and only when there is none left one that is free on some node that the pod may come to. The scheduler then keeps
 * the pod away from the others. Pure but for the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../../src/rules/model/ports.js'

/** What stands in the way on every node of somebody else's pods is tried again after this long. */
const foreignMs = 60_000

export interface HeldPort {
  readonly port: number
  /** Undefined until its pod has a node: it may come to any. */
  readonly node: string | undefined
}

/** Keeps no books of its own: what is held is read from the pods each time, so that no number can leak. */
export class NodePorts {
  readonly #range: PortRange
  readonly #clock: Clock
  readonly #held: () => Iterable<HeldPort>
  /** Until when each is left alone. */
  readonly #foreign = new Map<number, number>()
  #last: number

  constructor(range: PortRange, clock: Clock, held: () => Iterable<HeldPort>) {
    this.#range = range
    this.#clock = clock
    this.#held = held
    this.#last = range.first - 1
  }

  /**
   * Synchronous, so that concurrent callers get different ones. `nodes` are those that the pod may come to, `fixed` what it has
   * there already. Throws `ports-exhausted`.
   */
  take(count: number, nodes: readonly string[], fixed: readonly number[] = []): readonly number[] {
    if (count === 0) return []
    const now = this.#clock.elapsed()
    for (const [port, until] of this.#foreign) if (until <= now) this.#foreign.delete(port)
    const byNode = new Map<string | undefined, Set<number>>()
    const all = new Set([...this.#foreign.keys(), ...fixed])
    for (const { port, node } of this.#held()) {
      all.add(port)
      const own = byNode.get(node)
      if (own) own.add(port)
      else byNode.set(node, new Set([port]))
    }
    const taken = this.#candidates(count, all) ?? this.#onAnyOf(nodes, count, byNode, fixed)
    if (!taken) throw this.#exhausted(count, nodes, byNode)
    this.#last = taken.at(-1) ?? this.#last
    return taken
  }

  /** Pods that are not this fleet's have these wherever the pod could have gone. */
  markForeign(ports: readonly number[]): void {
    for (const port of ports) this.#foreign.set(port, this.#clock.elapsed() + foreignMs)
  }

  /** Those with the most room first. All numbers from one node, so that there is one that has them all. */
  #onAnyOf(
    nodes: readonly string[],
    count: number,
    byNode: ReadonlyMap<string | undefined, ReadonlySet<number>>,
    fixed: readonly number[],
  ): readonly number[] | undefined {
    const heldOn = (node: string) => byNode.get(node) ?? new Set<number>()
    const floating = byNode.get(undefined) ?? []
    for (const node of nodes.toSorted((a, b) => heldOn(a).size - heldOn(b).size)) {
      const own = [...heldOn(node), ...floating, ...fixed]
      // What was somebody else's a moment ago is better than nothing.
      const taken =
        this.#candidates(count, new Set([...own, ...this.#foreign.keys()])) ?? this.#candidates(count, new Set(own))
      if (taken) return taken
    }
    return undefined
  }

  #candidates(count: number, held: ReadonlySet<number>): readonly number[] | undefined {
    const taken: number[] = []
    for (const port of candidatePorts(this.#range, held, this.#last)) {
      if (taken.push(port) === count) return taken
    }
    return undefined
  }

  #exhausted(
    count: number,
    nodes: readonly string[],
    byNode: ReadonlyMap<string | undefined, ReadonlySet<number>>,
  ): FleetError {
    const { first, last } = this.#range
    const waiting = byNode.get(undefined)?.size ?? 0
    const where =
      nodes.length === 0
        ? 'no node takes its pod now, and every number is held somewhere'
        : nodes
            .slice(0, 5)
            .map((node) => `${byNode.get(node)?.size ?? 0} held on ${node}`)
            .join(', ')
    return new FleetError(
      'ports-exhausted',
      `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ${where}` +
        (waiting > 0 ? `, ${waiting} by pods that wait for a node` : ''),
    )
  }
}
