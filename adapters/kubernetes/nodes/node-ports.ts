/**
 * Allocates public ports across many nodes. Every node offers the full port range, but the scheduler picks the node only
 * after the ports are chosen. So ports that are free on every node are used first. When none are left, ports are chosen that
 * are free on one node that accepts the pod; the scheduler then avoids nodes where they are taken. Pure, except that it reads
 * the clock.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { FleetError } from '../../../src/contracts/errors.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import { ForeignPorts, PortRotation, portsExhausted } from '../../shared/public-ports.js'

export interface TakenPort {
  readonly port: number
  /** The pod's node. Undefined until the pod is scheduled: the port may then be needed on any node. */
  readonly node: string | undefined
}

type PortsByNode = ReadonlyMap<string | undefined, ReadonlySet<number>>

/** A refused port may have become free again after this time. */
const refusedMs = 10 * 60_000
/** How long the container runtime of a node may hold the ports of a pod that is gone. */
const releasedMs = 30_000

/** Keeps no list of held ports: they are derived from the pods each time, so none can leak. */
export class NodePorts {
  readonly #rotation: PortRotation
  readonly #held: () => Iterable<TakenPort>
  readonly #foreign: ForeignPorts
  /** Ports that could not be opened on a node. */
  readonly #refused: AvoidedPorts
  /** Ports of pods that never started on a node, for an unknown reason. */
  readonly #suspected: AvoidedPorts
  /** Ports of pods that are gone, which their node may not have freed yet, the oldest first. */
  readonly #released: { readonly node: string; readonly ports: readonly number[]; readonly until: number }[] = []
  readonly #clock: Clock

  constructor(range: PortRange, clock: Clock, held: () => Iterable<TakenPort>) {
    this.#rotation = new PortRotation(range)
    this.#held = held
    this.#foreign = new ForeignPorts(clock)
    this.#refused = new AvoidedPorts(clock, refusedMs)
    this.#suspected = new AvoidedPorts(clock, refusedMs)
    this.#clock = clock
  }

  /**
   * Takes `count` ports. Synchronous, so that concurrent callers get different ports. `nodes` are the nodes that accept the
   * pod, `fixed` the host ports that its template requests. Throws `ports-exhausted`.
   */
  take(count: number, nodes: readonly string[], fixed: readonly number[] = []): readonly number[] {
    if (count === 0) return []
    const byNode = new Map<string | undefined, Set<number>>()
    const all = new Set([...this.#foreign.current(), ...this.#refused.all(), ...this.#suspected.all(), ...fixed])
    for (const { port, node } of this.#held()) {
      all.add(port)
      const own = byNode.get(node)
      if (own) own.add(port)
      else byNode.set(node, new Set([port]))
    }
    const taken = this.#rotation.take(count, all) ?? this.#takeOnOneOf(nodes, count, byNode, fixed)
    if (!taken) throw this.#exhausted(count, nodes, byNode)
    return taken
  }

  /** Records that pods outside the fleet use these ports on every node to which the pod could be scheduled. */
  markForeign(ports: readonly number[]): void {
    this.#foreign.mark(ports)
  }

  /** Records that another program on the node holds these ports. They are not used on that node for ten minutes. */
  refuse(node: string, ports: readonly number[]): void {
    this.#refused.mark(node, ports)
  }

  /** Records that these ports may be in use on the node. For ten minutes they are used there only if no others are left. */
  suspect(node: string, ports: readonly number[]): void {
    this.#suspected.mark(node, ports)
  }

  /** Records that the pod that used these ports on the node is gone. They may be used again at once. */
  release(node: string, ports: readonly number[]): void {
    this.#forgetReleased()
    if (ports.length > 0) this.#released.push({ node, ports, until: this.#clock.elapsed() + releasedMs })
  }

  /** Whether a pod that used one of these ports on the node went so recently that the node may still hold it. */
  isReleasing(node: string, ports: readonly number[]): boolean {
    this.#forgetReleased()
    return this.#released.some((one) => one.node === node && one.ports.some((port) => ports.includes(port)))
  }

  #forgetReleased(): void {
    const now = this.#clock.elapsed()
    const kept = this.#released.findIndex(({ until }) => until > now)
    this.#released.splice(0, kept === -1 ? this.#released.length : kept)
  }

  /** The nodes on which one of these ports is refused. The scheduler does not know of them. */
  refusingNodes(ports: readonly number[]): readonly string[] {
    return this.#refused.nodesOf(ports)
  }

  /**
   * Tries the node with the fewest held ports first. All ports come from one node, so that at least that node can run the
   * pod.
   */
  #takeOnOneOf(
    nodes: readonly string[],
    count: number,
    byNode: PortsByNode,
    fixed: readonly number[],
  ): readonly number[] | undefined {
    const unusableOn = (node: string) => new Set([...(byNode.get(node) ?? []), ...this.#refused.on(node)])
    const unscheduled = byNode.get(undefined) ?? []
    const candidates = nodes.map((node) => ({ node, unusable: unusableOn(node) }))
    for (const { node, unusable } of candidates.toSorted((a, b) => a.unusable.size - b.unusable.size)) {
      const own = [...unusable, ...unscheduled, ...fixed]
      const doubtful = [...this.#foreign.current(), ...this.#suspected.on(node)]
      // As a last resort, include ports that may be in use outside the fleet.
      const taken =
        this.#rotation.take(count, new Set([...own, ...doubtful])) ?? this.#rotation.take(count, new Set(own))
      if (taken) return taken
    }
    return undefined
  }

  #exhausted(count: number, nodes: readonly string[], byNode: PortsByNode): FleetError {
    const usageOf = (node: string) => {
      const refused = this.#refused.on(node).size
      return `${byNode.get(node)?.size ?? 0} in use on ${node}${refused > 0 ? ` and ${refused} held there by other programs` : ''}`
    }
    const usage =
      nodes.length === 0
        ? 'no node accepts its pod, and every port is in use on some node'
        : nodes.slice(0, 5).map(usageOf).join(', ')
    const unscheduled = byNode.get(undefined)?.size ?? 0
    const reserved = unscheduled > 0 ? `, ${unscheduled} reserved by unscheduled pods` : ''
    return portsExhausted(this.#rotation.range, count, usage + reserved)
  }
}

/** Ports that are avoided on individual nodes for a while. Pure, except that it reads the clock. */
class AvoidedPorts {
  readonly #clock: Clock
  readonly #avoidMs: number
  /** Contains only nodes with avoided ports. */
  readonly #byNode = new Map<string, ForeignPorts>()

  constructor(clock: Clock, avoidMs: number) {
    this.#clock = clock
    this.#avoidMs = avoidMs
  }

  mark(node: string, ports: readonly number[]): void {
    if (ports.length === 0) return
    const avoided = this.#byNode.get(node) ?? new ForeignPorts(this.#clock, this.#avoidMs)
    this.#byNode.set(node, avoided)
    avoided.mark(ports)
  }

  on(node: string): ReadonlySet<number> {
    const ports = this.#byNode.get(node)?.current() ?? new Set<number>()
    if (ports.size === 0) this.#byNode.delete(node)
    return ports
  }

  /** The ports that are avoided on any node. */
  *all(): Generator<number> {
    for (const node of this.#byNode.keys()) yield* this.on(node)
  }

  /** The nodes on which one of these ports is avoided. */
  nodesOf(ports: readonly number[]): readonly string[] {
    return [...this.#byNode.keys()].filter((node) => {
      const avoided = this.on(node)
      return ports.some((port) => avoided.has(port))
    })
  }
}
