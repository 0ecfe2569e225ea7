/** The nodes that are cordoned, and when their maintenance begins: a fixed time after this host saw the cordon. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Node } from './node-objects.js'

export interface CordonedNodesDependencies {
  readonly clock: Clock
  readonly noticeMs: number
  /** Called with the wall time in ms at which the maintenance of each cordoned node begins, whenever that changes. */
  readonly report: (nodes: ReadonlyMap<string, number>) => void
}

export class CordonedNodes {
  readonly #deps: CordonedNodesDependencies
  readonly #beginsAt = new Map<string, number>()
  #isListed = false

  constructor(deps: CordonedNodesDependencies) {
    this.#deps = deps
  }

  /** The last report. Undefined until the nodes have been listed, because an unknown node may be cordoned. */
  get current(): ReadonlyMap<string, number> | undefined {
    return this.#isListed ? this.#beginsAt : undefined
  }

  /** Call when a node has changed or, with undefined, no longer exists. */
  nodeChanged(name: string, node: Node | undefined): void {
    const isCordoned = node?.spec?.unschedulable === true
    if (isCordoned === this.#beginsAt.has(name)) return
    const { clock, noticeMs } = this.#deps
    if (isCordoned) this.#beginsAt.set(name, clock.now() + noticeMs)
    else this.#beginsAt.delete(name)
    if (this.#isListed) this.#deps.report(this.#beginsAt)
  }

  /** Call once all nodes have been listed. */
  listed(): void {
    this.#isListed = true
    this.#deps.report(this.#beginsAt)
  }
}
