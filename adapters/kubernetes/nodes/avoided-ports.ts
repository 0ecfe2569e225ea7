/** Ports that are avoided on individual nodes for a while. Pure, except that it reads the clock. */
import type { Clock } from '../../../src/contracts/clock.js'
import { ForeignPorts } from '../../shared/port-rotation.js'

export class AvoidedPorts {
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
