/** Follows the fleet's pods in one namespace, or in all of them, and knows up to which revision the pod cache is complete. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType, revisionOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'

export interface FollowedPodsDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly labelSelector: string
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined
  readonly sink: PodSink
}

/** Receives what is listed and watched. */
export interface PodSink {
  /** These were all pods in the scope as of this revision. */
  replaceAll(scope: FollowedPods, objects: readonly KubeObject[], revision: number): void
  changed(object: KubeObject): void
  deleted(object: KubeObject): void
  /** Revisions went back: those of cached pods in the scope no longer say what is newer. */
  resetRevisions(scope: FollowedPods): void
}

const notListed = new Error('not listed yet')

export class FollowedPods {
  readonly #deps: FollowedPodsDependencies
  readonly #what: string
  readonly #path: string
  /** Why the watch is interrupted; undefined while it is open. */
  #interruption: unknown = notListed
  /** Of the cache, when this was listed last. */
  #generation: number
  /** The cache is complete up to here: a pod that it lacks and that is no newer is gone. */
  #knownRevision = 0
  /** Of the watch alone. It only grows, unless the cluster was restored from a backup. */
  #watchedRevision = 0

  constructor(deps: FollowedPodsDependencies, generation: number) {
    const { namespace } = deps
    this.#deps = deps
    this.#generation = generation
    this.#what = namespace === undefined ? 'pods' : `pods in ${namespace}`
    this.#path = pathOf(podType, { namespace })
  }

  get knownRevision(): number {
    return this.#knownRevision
  }

  /** The watch is open. */
  get isCurrent(): boolean {
    return this.#interruption === undefined
  }

  contains({ namespace }: Ref): boolean {
    return this.#deps.namespace === undefined || this.#deps.namespace === namespace
  }

  /** Lists unless the watch is open and the last list is of this generation. */
  async refresh(generation: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.isCurrent && this.#generation >= generation) return
    await this.list(signal)
    this.#generation = Math.max(this.#generation, generation)
  }

  async list(signal: AbortSignal | undefined): Promise<void> {
    const { api, labelSelector } = this.#deps
    const call = { what: `list ${this.#what}`, method: 'GET', path: this.#path, query: { labelSelector } } as const
    const { items, revision } = await api.list({ ...call, signal })
    this.#takeList(items, Number(revision))
  }

  /** Until the returned function is called. */
  follow(): () => void {
    const { api, clock, logger, labelSelector, sink } = this.#deps
    return watchCollection(
      { api, clock, logger, what: this.#what, path: this.#path, query: { labelSelector } },
      {
        listed: (objects, revision) => this.#takeWatchedList(objects, Number(revision)),
        changed: (object) => {
          sink.changed(object)
          this.#advance(object)
        },
        deleted: (object) => {
          sink.deleted(object)
          this.#advance(object)
        },
        broken: (error) => (this.#interruption = error ?? notListed),
        followed: () => (this.#interruption = undefined),
      },
    )
  }

  #advance(object: KubeObject): void {
    const revision = Number(revisionOf(object))
    this.#watchedRevision = revision
    this.#knownRevision = Math.max(this.#knownRevision, revision)
  }

  #takeWatchedList(objects: readonly KubeObject[], revision: number): void {
    if (revision < this.#watchedRevision) {
      this.#knownRevision = 0
      this.#deps.sink.resetRevisions(this)
    }
    this.#takeList(objects, revision)
    this.#watchedRevision = revision
  }

  #takeList(objects: readonly KubeObject[], revision: number): void {
    this.#deps.sink.replaceAll(this, objects, revision)
    this.#knownRevision = Math.max(this.#knownRevision, revision)
  }
}
