/**
 * Restores the fleet's labels and annotations on pods where they were edited. A watch reports a pod that no longer matches the
 * selector as deleted, so this reads the pod from the API server.
 */
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType } from '../client/kube-objects.js'
import { missingLabelsOf, type Names } from './labels.js'
import type { PodSnapshot } from './pod-snapshot.js'

/** The part of the pod cache that is needed here. */
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
  /** Pods being checked, by the pod's uid. */
  readonly #checking = new Set<string>()
  /** How often each pod was repaired; present once a warning was logged. */
  readonly #repairs = new Map<string, number>()

  constructor(deps: LabelRepairDependencies) {
    this.#deps = deps
  }

  /** Runs in the background. The cached snapshot stays until the pod is known to be gone, or repaired. */
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
        // Expected on hosts that do not lead: only the leader may patch pods.
        logger.debug({ err: error, pod: keyOf(snapshot.identity.ref) }, 'pod labels not repaired yet; will retry')
        await api.pause(pauseMs(failures, retryLimits), signal)
      }
    }
  }

  /** False when the pod was repaired and has to be checked once more. */
  async #checkOnce({ identity, podUid }: PodSnapshot): Promise<boolean> {
    const { api, logger, names, pods } = this.#deps
    const { signal } = this.#aborter
    const { ref } = identity
    const current = await pods.fetch(ref, signal)
    if (current?.podUid !== podUid) return true
    const missing = missingLabelsOf(names, identity, current.pod)
    // Intact: the watch reports it, or is about to.
    if (!missing) return true
    const repairs = this.#repairs.get(podUid) ?? 0
    if (!this.#repairs.has(podUid)) {
      this.#repairs.set(podUid, 0)
      logger.warn({ pod: keyOf(ref), keys: missing.keys }, 'pod labels or annotations were changed; restoring them')
    }
    // Backs off when something keeps changing them.
    await api.pause(pauseMs(repairs, retryLimits), signal)
    const { labels, annotations } = missing
    const repaired = await api.object({
      ...{ what: `restore the labels of pod ${ref.name}`, method: 'PATCH', path: pathOf(podType, ref) },
      ...{ body: { metadata: { uid: podUid, labels, annotations } }, signal },
    })
    this.#repairs.set(podUid, repairs + 1)
    pods.add(repaired)
    return false
  }
}
