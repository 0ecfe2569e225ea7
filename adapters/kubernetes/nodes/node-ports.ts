/**
 * Allocates public ports on many nodes. Each node has the whole range, and the scheduler picks the node after the ports: so
 * ports that are free on every node come first, and only when there are none left, ports that are free on one node that the
 * pod may be scheduled to. The scheduler then avoids the others. Pure but for the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { FleetError } from '../../../src/contracts/errors.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import { ForeignPorts, PortRotation, portsExhausted } from '../../shared/port-rotation.js'

export interface HeldPort {
  readonly port: number
  /** Undefined until its pod has a node, which may be any. */
  readonly node: string | undefined
}

type PortsByNode = ReadonlyMap<string | undefined, ReadonlySet<number>>

/** Keeps no state about held ports: they are read from the pods each time, so none can leak. */
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
   * Synchronous, so that concurrent callers get different ports. `nodes` are those that the pod may be scheduled to, `fixed`
   * the host ports of its template. Throws `ports-exhausted`.
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

  /** Pods outside the fleet use these ports on every node that the pod could be scheduled to. */
  markForeign(ports: readonly number[]): void {
    this.#foreign.mark(ports)
  }

  /** Emptiest node first. All ports come from one node, so that at least one node can take the pod. */
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
      // As a last resort, ports that others used within the last minute.
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
