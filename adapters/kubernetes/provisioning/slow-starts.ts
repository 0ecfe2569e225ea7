/**
 * Detects pods that have been on a node for a long time without starting. Some causes, such as a missing volume or a network
 * failure, appear only in Kubernetes Events: the pod's status remains ContainerCreating.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Ref } from '../../../src/rules/model/resources.js'
import { isUnstarted } from '../pods/container-status.js'
import { slowStartMs } from '../pods/pending-reason.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export class SlowStarts {
  readonly #clock: Clock
  readonly #onSlow: (ref: Ref) => void
  /** Functions that cancel a pod's timer, by pod uid. */
  readonly #timers = new Map<string, () => void>()
  readonly #slow = new Set<string>()

  constructor(clock: Clock, onSlow: (ref: Ref) => void) {
    this.#clock = clock
    this.#onSlow = onSlow
  }

  has(podUid: string): boolean {
    return this.#slow.has(podUid)
  }

  /** Counts the time from when this host first sees the pod on its node. */
  podChanged(snapshot: PodSnapshot): void {
    const { pod, podUid, identity } = snapshot
    if (!isUnstarted(pod)) return this.forget(snapshot)
    if (pod.spec?.nodeName === undefined || this.#timers.has(podUid) || this.#slow.has(podUid)) return
    const cancel = this.#clock.after(slowStartMs, () => {
      this.#timers.delete(podUid)
      this.#slow.add(podUid)
      this.#onSlow(identity.ref)
    })
    this.#timers.set(podUid, cancel)
  }

  forget({ podUid }: PodSnapshot): void {
    this.#timers.get(podUid)?.()
    this.#timers.delete(podUid)
    this.#slow.delete(podUid)
  }

  stop(): void {
    for (const cancel of this.#timers.values()) cancel()
    this.#timers.clear()
  }
}
