/** The nodes of the cluster, as it has told of them: followed by a watch, so that nobody has to ask. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, nodes as nodeType, pathOf } from '../client/kube-objects.js'
import { addressOf, answers } from './nodes.js'
import { type Node, nodeIn } from '../pods/pod-objects.js'
import { watchCollection } from '../client/watch.js'

export interface NodeCacheDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** The address of one has become known, or is another one, or nobody answers there any more, or does again. */
  readonly onChange: (name: string) => void
}

export class NodeCache {
  readonly #input: NodeCacheDependencies
  readonly #nodes = new Map<string, Node>()

  constructor(input: NodeCacheDependencies) {
    this.#input = input
  }

  get(name: string): Node | undefined {
    return this.#nodes.get(name)
  }

  all(): Iterable<Node> {
    return this.#nodes.values()
  }

  /** Rejects with the API server's refusal. */
  async list(): Promise<void> {
    const { items } = await this.#input.api.list({ what: 'list nodes', method: 'GET', path: pathOf(nodeType) })
    this.#takeAll(items)
  }

  /** Until the returned function is called. */
  follow(): () => void {
    const { api, clock, logger } = this.#input
    return watchCollection(
      { api, clock, logger, what: 'nodes', path: pathOf(nodeType) },
      {
        listed: (objects) => this.#takeAll(objects),
        changed: (object) => this.#take(object.metadata.name, nodeIn(object)),
        deleted: ({ metadata }) => this.#take(metadata.name, undefined),
      },
    )
  }

  #takeAll(objects: readonly KubeObject[]): void {
    const listed = new Map(objects.map((object) => [object.metadata.name, nodeIn(object)]))
    for (const name of new Set([...this.#nodes.keys(), ...listed.keys()])) this.#take(name, listed.get(name))
  }

  #take(name: string, node: Node | undefined): void {
    const before = this.#nodes.get(name)
    if (node) this.#nodes.set(name, node)
    else this.#nodes.delete(name)
    // What else a node says of itself, and most do so all the time, is nothing to its pods.
    const isSame = before && node && addressOf(before) === addressOf(node) && answers(before) === answers(node)
    if (!isSame && (before || node)) this.#input.onChange(name)
  }
}
