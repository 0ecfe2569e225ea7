/** Watches store collections and reports their records to listeners. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { CollectionListener } from '../../../src/contracts/store.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { refOf, type ResourceType } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import type { CustomCollection } from './custom-collection.js'

export interface CollectionFollowerDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
}

export class CollectionFollower {
  readonly #deps: CollectionFollowerDependencies
  /** Whether the watch of each path is open. */
  readonly #open = new Map<string, boolean>()

  constructor(deps: CollectionFollowerDependencies) {
    this.#deps = deps
  }

  /** Whether at least one collection is being followed and every watch is open. */
  get isCurrent(): boolean {
    return this.#open.size > 0 && [...this.#open.values()].every(Boolean)
  }

  /** Reports changes until the returned function is called. */
  follow<T extends Ref>(
    collection: CustomCollection<T>,
    resource: ResourceType,
    listener: CollectionListener<T>,
  ): () => void {
    const stops = collection.paths().map((path) => this.#followPath(path, collection, resource, listener))
    return () => stops.forEach((stop) => stop())
  }

  #followPath<T extends Ref>(
    path: string,
    collection: CustomCollection<T>,
    { plural }: ResourceType,
    listener: CollectionListener<T>,
  ): () => void {
    const namespace = namespaceOf(path)
    this.#open.set(path, false)
    const stop = watchCollection(
      { ...this.#deps, what: plural, path },
      {
        followed: () => this.#open.set(path, true),
        broken: () => this.#open.set(path, false),
        restored: () => collection.forgetAll(),
        listed(objects) {
          const all = objects.map((object) => collection.versioned(object)).filter((found) => found !== undefined)
          listener.listed(all, namespace)
        },
        changed(object) {
          if (!collection.isUnseen(object)) return
          const versioned = collection.versioned(object)
          if (versioned) listener.changed(versioned)
          else if (object.metadata.deletionTimestamp !== undefined) listener.gone(refOf(object))
        },
        deleted(object) {
          collection.forget(refOf(object), object)
          listener.gone(refOf(object))
        },
      },
    )
    return () => {
      stop()
      this.#open.delete(path)
    }
  }
}

function namespaceOf(path: string): string | undefined {
  return /\/namespaces\/([^/]+)\//.exec(path)?.[1]
}
