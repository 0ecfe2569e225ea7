/**
 * Allocates public ports across many nodes. Every node offers the full port range, but the scheduler picks the node only
 * after the ports are chosen. So ports that are free on every node are used first. When none are left, ports are chosen that
 * are free on one node that accepts the pod; the scheduler then avoids nodes where they are taken. Pure, except that it reads
 * the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { FleetError } from '../../../src/contracts/errors.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import { ForeignPorts, PortRotation, portsExhausted } from '../../shared/port-rotation.js'

export interface HeldPort {
  readonly port: number
  /** The pod's node. Undefined until the pod is scheduled: the port may then be needed on any node. */
  readonly node: string | undefined
}

type PortsByNode = ReadonlyMap<string | undefined, ReadonlySet<number>>

/** Keeps no list of held ports: they are derived from the pods each time, so none can leak. */
export class NodePorts {
  readonly #rotation: PortRotation
  readonly #held: () => Iterable<HeldPort>
  readonly #foreign: ForeignPorts

  constructor(range: PortRange, clock: Clock, held: () => Iterable<HeldPort>) {
    this.#rotation = new PortRotation(range)
    this.#held = held
    this.#foreign = new ForeignPorts(clock)
  }

  /**
   * Takes `count` ports. Synchronous, so that concurrent callers get different ports. `nodes` are the nodes that accept the
   * pod, `fixed` the host ports that its template requests. Throws `ports-exhausted`.
   */
  take(count: number, nodes: readonly string[], fixed: readonly number[] = []): readonly number[] {
    if (count === 0) return []
    const foreign = this.#foreign.current()
    const byNode = new Map<string | undefined, Set<number>>()
    const all = new Set([...foreign, ...fixed])
    for (const { port, node } of this.#held()) {
      all.add(port)
      const own = byNode.get(node)
      if (own) own.add(port)
      else byNode.set(node, new Set([port]))
    }
    const taken = this.#rotation.take(count, all) ?? this.#takeOnOneOf(nodes, count, byNode, [fixed, foreign])
    if (!taken) throw this.#exhausted(count, nodes, byNode)
    return taken
  }

  /** Records that pods outside the fleet use these ports on every node to which the pod could be scheduled. */
  markForeign(ports: readonly number[]): void {
    this.#foreign.mark(ports)
  }

  /**
   * Tries the node with the fewest held ports first. All ports come from one node, so that at least that node can run the
   * pod.
   */
  #takeOnOneOf(
    nodes: readonly string[],
    count: number,
    byNode: PortsByNode,
    [fixed, foreign]: readonly [fixed: readonly number[], foreign: ReadonlySet<number>],
  ): readonly number[] | undefined {
    const heldOn = (node: string) => byNode.get(node) ?? new Set<number>()
    const unscheduled = byNode.get(undefined) ?? []
    for (const node of nodes.toSorted((a, b) => heldOn(a).size - heldOn(b).size)) {
      const own = [...heldOn(node), ...unscheduled, ...fixed]
      // As a last resort, include ports that pods outside the fleet used within the last minute.
      const taken =
        this.#rotation.take(count, new Set([...own, ...foreign])) ?? this.#rotation.take(count, new Set(own))
      if (taken) return taken
    }
    return undefined
  }

  #exhausted(count: number, nodes: readonly string[], byNode: PortsByNode): FleetError {
    const unscheduled = byNode.get(undefined)?.size ?? 0
    const usage =
      nodes.length === 0
        ? 'no node accepts its pod, and every port is in use on some node'
        : nodes
            .slice(0, 5)
            .map((node) => `${byNode.get(node)?.size ?? 0} in use on ${node}`)
            .join(', ')
    const reserved = unscheduled > 0 ? `, ${unscheduled} reserved by unscheduled pods` : ''
    return portsExhausted(this.#rotation.range, count, usage + reserved)
  }
}
