/**
 * Pods that have had a node for long, and of which nothing has started there. A volume that is missing, or a network that
 * fails, is told in the cluster's events alone: the pod itself says only that it is being made.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { isUnstarted, lateMs } from '../pods/pod-status.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export class SlowStarts {
  readonly #clock: Clock
  readonly #onLate: (ref: Ref) => void
  /** By the pod's own uid: cancels the wait for it. */
  readonly #waiting = new Map<string, () => void>()
  readonly #late = new Set<string>()

  constructor(clock: Clock, onLate: (ref: Ref) => void) {
    this.#clock = clock
    this.#onLate = onLate
  }

  has(podUid: string): boolean {
    return this.#late.has(podUid)
  }

  /** The pod has changed. Counts from when this host first sees it on its node. */
  look(seen: PodSnapshot): void {
    const { pod, podUid, identity } = seen
    if (!isUnstarted(pod)) return this.forget(seen)
    if (pod.spec?.nodeName === undefined || this.#waiting.has(podUid) || this.#late.has(podUid)) return
    const cancel = this.#clock.after(lateMs, () => {
      this.#waiting.delete(podUid)
      this.#late.add(podUid)
      this.#onLate(identity.ref)
    })
    this.#waiting.set(podUid, cancel)
  }

  forget({ podUid }: PodSnapshot): void {
    this.#waiting.get(podUid)?.()
    this.#waiting.delete(podUid)
    this.#late.delete(podUid)
  }

  stop(): void {
    for (const cancel of this.#waiting.values()) cancel()
    this.#waiting.clear()
  }
}
