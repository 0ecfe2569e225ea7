/** Follows the fleet's pods in one namespace or in all, and tracks the revision up to which the pod cache is complete. */
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
  /** Undefined means all namespaces. */
  readonly namespace: string | undefined
  readonly sink: PodSink
}

/** Receives the listed pods and the changes that the watch reports. */
export interface PodSink {
  /** The complete list of pods in the scope at this revision. */
  replaceAll(scope: FollowedPods, objects: readonly KubeObject[], revision: number): void
  changed(object: KubeObject): void
  deleted(object: KubeObject): void
  /**
   * The cluster's revisions went back (restored from a backup), so the revisions of cached pods in this scope cannot be
   * compared with new ones.
   */
  resetRevisions(scope: FollowedPods): void
}

const notListed = new Error('not listed yet')

export class FollowedPods {
  readonly #deps: FollowedPodsDependencies
  readonly #what: string
  readonly #path: string
  /** Why the watch is interrupted; undefined while it is open. */
  #interruption: unknown = notListed
  /** The cache's generation at the time of the last list. */
  #generation: number
  /** The cache is complete up to this revision: a pod that is missing from it and has no newer revision is deleted. */
  #knownRevision = 0
  /** The latest revision that the watch reported. It only increases, unless the cluster was restored from a backup. */
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

  /** Whether the watch is open. */
  get isCurrent(): boolean {
    return this.#interruption === undefined
  }

  contains({ namespace }: Ref): boolean {
    return this.#deps.namespace === undefined || this.#deps.namespace === namespace
  }

  /** Lists the pods, unless the watch is open and the last list belongs to this generation. */
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

  /** Watches the pods until the returned function is called. */
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
