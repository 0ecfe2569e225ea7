/**
 * Restores the fleet's labels and annotations on pods if someone changed them. When a pod's labels no longer match the
 * selector, the watch reports the pod as deleted, so its actual state is read from the API server.
 */
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType } from '../client/kube-objects.js'
import { missingLabelsOf, type Names } from './labels.js'
import type { PodSnapshot } from './pod-snapshot.js'

/** The methods of the pod cache that label repair needs. */
export interface RepairablePods {
  find(ref: Ref): PodSnapshot | undefined
  fetch(ref: Ref, signal: AbortSignal | undefined): Promise<PodSnapshot | undefined>
  add(object: KubeObject): void
}

export interface LabelRepairDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
  readonly names: Names
  readonly pods: RepairablePods
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }

export class LabelRepair {
  readonly #deps: LabelRepairDependencies
  readonly #aborter = new AbortController()
  /** Uids of the pods being checked. */
  readonly #checking = new Set<string>()
  /** Number of repairs by pod uid. A pod gets an entry when its warning is logged. */
  readonly #repairs = new Map<string, number>()

  constructor(deps: LabelRepairDependencies) {
    this.#deps = deps
  }

  /** Checks the pod in the background. Its cached snapshot is kept until the pod is repaired or known to be deleted. */
  check(snapshot: PodSnapshot): void {
    const { podUid } = snapshot
    if (this.#checking.has(podUid) || this.#aborter.signal.aborted) return
    this.#checking.add(podUid)
    void this.#run(snapshot).finally(() => {
      this.#checking.delete(podUid)
      if (this.#deps.pods.find(snapshot.identity.ref)?.podUid !== podUid) this.forget(snapshot)
    })
  }

  forget({ podUid }: PodSnapshot): void {
    this.#repairs.delete(podUid)
  }

  stop(): void {
    this.#aborter.abort()
  }

  /** Never rejects. */
  async #run(snapshot: PodSnapshot): Promise<void> {
    const { api, logger } = this.#deps
    const { signal } = this.#aborter
    for (let failures = 0; !signal.aborted && !api.closed;) {
      try {
        if (await this.#checkOnce(snapshot)) return
        failures = 0
      } catch (error) {
        if (signal.aborted) return
        failures++
        // Expected on hosts that are not the leader: only the leader may patch pods.
        logger.debug({ err: error, pod: keyOf(snapshot.identity.ref) }, 'pod labels not repaired yet; will retry')
        await api.pause(pauseMs(failures, retryLimits), signal)
      }
    }
  }

  /** Returns false if the pod was repaired and must be checked again. */
  async #checkOnce({ identity, podUid }: PodSnapshot): Promise<boolean> {
    const { api, logger, names, pods } = this.#deps
    const { signal } = this.#aborter
    const { ref } = identity
    const current = await pods.fetch(ref, signal)
    if (current?.podUid !== podUid) return true
    const missing = missingLabelsOf(names, identity, current.pod)
    // The labels are intact, so the watch has reported the pod or will do so.
    if (!missing) return true
    const repairs = this.#repairs.get(podUid) ?? 0
    if (!this.#repairs.has(podUid)) {
      this.#repairs.set(podUid, 0)
      logger.warn({ pod: keyOf(ref), keys: missing.keys }, 'pod labels or annotations were changed; restoring them')
    }
    // Back off if something keeps changing the labels.
    await api.pause(pauseMs(repairs, retryLimits), signal)
    const { labels, annotations } = missing
    const repaired = await api.object({
      what: `restore the labels of pod ${ref.name}`,
      method: 'PATCH',
      path: pathOf(podType, ref),
      body: { metadata: { uid: podUid, labels, annotations } },
      signal,
    })
    this.#repairs.set(podUid, repairs + 1)
    pods.add(repaired)
    return false
  }
}
