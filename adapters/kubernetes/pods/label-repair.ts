/**
 * Pods of the fleet that somebody has changed the labels or annotations of by which they are known as such. A watch says of one that
 * it does not select any more that it is deleted: that is asked of the API server itself before it is believed, and one that is still
 * there is marked again, so that the watch shows it.
 */
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType } from '../client/kube-objects.js'
import { missingLabelsOf, type Names } from './labels.js'
import type { PodSnapshot } from './pod-snapshot.js'

/** What is known of them, and how to learn more. */
export interface MarkedPods {
  find(ref: Ref): PodSnapshot | undefined
  ask(ref: Ref, signal: AbortSignal | undefined): Promise<PodSnapshot | undefined>
  learn(object: KubeObject): void
}

export interface LabelRepairDependencies {
  readonly api: KubernetesApi
  readonly logger: Logger
  readonly names: Names
  readonly pods: MarkedPods
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }

export class LabelRepair {
  readonly #parts: LabelRepairDependencies
  readonly #stop = new AbortController()
  /** Those that are being looked at, by the pod's own uid. */
  readonly #looking = new Set<string>()
  /** How often each was marked again; those of which somebody was warned. */
  readonly #marked = new Map<string, number>()

  constructor(parts: LabelRepairDependencies) {
    this.#parts = parts
  }

  /** In the background. Until it is known to be gone, or is marked again, it stays known as it was. */
  look(seen: PodSnapshot): void {
    const { podUid } = seen
    if (this.#looking.has(podUid) || this.#stop.signal.aborted) return
    this.#looking.add(podUid)
    void this.#run(seen).finally(() => {
      this.#looking.delete(podUid)
      if (this.#parts.pods.find(seen.identity.ref)?.podUid !== podUid) this.forget(seen)
    })
  }

  forget({ podUid }: PodSnapshot): void {
    this.#marked.delete(podUid)
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Never rejects. */
  async #run(seen: PodSnapshot): Promise<void> {
    const { api, logger } = this.#parts
    const { signal } = this.#stop
    for (let failures = 0; !signal.aborted && !api.closed;) {
      try {
        if (await this.#settle(seen)) return
        failures = 0
      } catch (error) {
        if (signal.aborted) return
        failures++
        const pod = `pod ${keyOf(seen.identity.ref)}`
        // One that does not lead may not mark it: the host that leads does, or this one once it leads.
        logger.debug(
          { error: messageOf(error) },
          `it is not known yet whether ${pod} is there and marked as the fleet's`,
        )
        await api.pause(pauseMs(failures, retryLimits), signal)
      }
    }
  }

  /** False when it was marked again and has to be looked at once more. */
  async #settle({ identity, podUid }: PodSnapshot): Promise<boolean> {
    const { api, logger, names, pods } = this.#parts
    const { signal } = this.#stop
    const { ref } = identity
    const now = await pods.ask(ref, signal)
    if (now?.podUid !== podUid) return true
    const lost = missingLabelsOf(names, identity, now.pod)
    // The watch shows it, or is about to.
    if (!lost) return true
    const times = this.#marked.get(podUid) ?? 0
    if (!this.#marked.has(podUid)) {
      this.#marked.set(podUid, 0)
      const keys = lost.keys.join(', ')
      const pod = `pod ${keyOf(ref)}`
      logger.warn({ pod: keyOf(ref), keys: lost.keys }, `somebody has changed ${keys} of ${pod}, which is put back`)
    }
    // Somebody who changes them again and again is not answered as often.
    await api.pause(pauseMs(times, retryLimits), signal)
    const { labels, annotations } = lost
    const marked = await api.object({
      ...{ what: `mark pod ${ref.name} as the fleet's`, method: 'PATCH', path: pathOf(podType, ref) },
      ...{ body: { metadata: { uid: podUid, labels, annotations } }, signal },
    })
    this.#marked.set(podUid, times + 1)
    pods.learn(marked)
    return false
  }
}
