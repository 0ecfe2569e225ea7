/**
 * Allocates public ports on many nodes. Each node has the whole range, and the scheduler picks the node after the ports: so
 * ports that are free on every node come first, and only when there are none left, ports that are free on one node that the
 * pod may be scheduled to. The scheduler then avoids the others. Pure but for the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { candidatePorts, type PortRange } from '../../../src/rules/model/ports.js'

/** Ports in use by other pods on every node are skipped for this long. */
const foreignMs = 60_000

export interface HeldPort {
  readonly port: number
  /** Undefined until its pod has a node: it may get any. */
  readonly node: string | undefined
}

type PortsByNode = ReadonlyMap<string | undefined, ReadonlySet<number>>

/** Keeps no state about held ports: they are read from the pods each time, so none can leak. */
export class NodePorts {
  readonly #range: PortRange
  readonly #clock: Clock
  readonly #held: () => Iterable<HeldPort>
  /** In use by other pods, with the elapsed ms until which each is skipped. */
  readonly #foreign = new Map<number, number>()
  #last: number

  constructor(range: PortRange, clock: Clock, held: () => Iterable<HeldPort>) {
    this.#range = range
    this.#clock = clock
    this.#held = held
    this.#last = range.first - 1
  }

  /**
   * Synchronous, so that concurrent callers get different ports. `nodes` are those that the pod may be scheduled to, `fixed`
   * the host ports of its template. Throws `ports-exhausted`.
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
    const taken = this.#candidates(count, all) ?? this.#onOneOf(nodes, count, byNode, fixed)
    if (!taken) throw this.#exhausted(count, nodes, byNode)
    this.#last = taken.at(-1) ?? this.#last
    return taken
  }

  /** Pods of others use these on every node that the pod could have got. */
  markForeign(ports: readonly number[]): void {
    for (const port of ports) this.#foreign.set(port, this.#clock.elapsed() + foreignMs)
  }

  /** Emptiest node first. All ports come from one node, so that at least one node can take the pod. */
  #onOneOf(
    nodes: readonly string[],
    count: number,
    byNode: PortsByNode,
    fixed: readonly number[],
  ): readonly number[] | undefined {
    const heldOn = (node: string) => byNode.get(node) ?? new Set<number>()
    const unscheduled = byNode.get(undefined) ?? []
    for (const node of nodes.toSorted((a, b) => heldOn(a).size - heldOn(b).size)) {
      const own = [...heldOn(node), ...unscheduled, ...fixed]
      // As a last resort, ports that others used less than `foreignMs` ago.
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

  #exhausted(count: number, nodes: readonly string[], byNode: PortsByNode): FleetError {
    const { first, last } = this.#range
    const unscheduled = byNode.get(undefined)?.size ?? 0
    const usage =
      nodes.length === 0
        ? 'no node accepts its pod, and every port is in use on some node'
        : nodes
            .slice(0, 5)
            .map((node) => `${byNode.get(node)?.size ?? 0} in use on ${node}`)
            .join(', ')
    return new FleetError(
      'ports-exhausted',
      `not enough free public ports in ${first}-${last} for a server that exposes ${count}: ${usage}` +
        (unscheduled > 0 ? `, ${unscheduled} reserved by unscheduled pods` : ''),
    )
  }
}
