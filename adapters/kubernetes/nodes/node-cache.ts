/** The nodes of the cluster, kept current by a watch. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, nodes as nodeType, pathOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import { type Node, nodeIn } from './node-objects.js'
import { isReady, nodeAddress } from './node-status.js'

export interface NodeCacheDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** Called when the node's address or readiness has changed, or when it was cordoned or uncordoned. */
  readonly onChange: (name: string, node: Node | undefined) => void
}

export class NodeCache {
  readonly #deps: NodeCacheDependencies
  readonly #nodes = new Map<string, Node>()

  constructor(deps: NodeCacheDependencies) {
    this.#deps = deps
  }

  get(name: string): Node | undefined {
    return this.#nodes.get(name)
  }

  all(): Iterable<Node> {
    return this.#nodes.values()
  }

  /** Loads all nodes into the cache. Rejects with the API server's error. */
  async list(): Promise<void> {
    const { items } = await this.#deps.api.list({ what: 'list nodes', method: 'GET', path: pathOf(nodeType) })
    this.#setAll(items)
  }

  /** Keeps the cache current until the returned function is called. */
  follow(): () => void {
    const { api, clock, logger } = this.#deps
    return watchCollection(
      { api, clock, logger, what: 'nodes', path: pathOf(nodeType) },
      {
        listed: (objects) => this.#setAll(objects),
        changed: (object) => this.#set(object.metadata.name, nodeIn(object)),
        deleted: ({ metadata }) => this.#set(metadata.name, undefined),
      },
    )
  }

  #setAll(objects: readonly KubeObject[]): void {
    const listed = new Map(objects.map((object) => [object.metadata.name, nodeIn(object)]))
    for (const name of new Set([...this.#nodes.keys(), ...listed.keys()])) this.#set(name, listed.get(name))
  }

  #set(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name)
    if (node) this.#nodes.set(name, node)
    else this.#nodes.delete(name)
    // Nodes change constantly, but only a few of their fields matter.
    const isUnchanged = before && node && isSame(before, node)
    if (!isUnchanged && (before || node)) this.#deps.onChange(name, node)
  }
}

function isSame(a: Node, b: Node): boolean {
  const isSameCordon = (a.spec?.unschedulable === true) === (b.spec?.unschedulable === true)
  return isSameCordon && nodeAddress(a) === nodeAddress(b) && isReady(a) === isReady(b)
}
