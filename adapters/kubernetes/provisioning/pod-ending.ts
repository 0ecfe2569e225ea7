/** Deletes a pod and waits until it is gone. One for all callers that want the same pod ended. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface PodEndingDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly clock: Clock
  readonly graceMs: number
  /** How long a node may take beyond the grace period. */
  readonly limitMs: number
}

/** A node that says nothing is given this long beyond the grace period before its pod is taken off the books. */
const silentNodeMs = 5_000

export class PodEnding {
  readonly #input: PodEndingDependencies
  #deadline: number
  #asked = Infinity
  #isLeaving = false
  readonly #cut = new AbortController()

  constructor(input: PodEndingDependencies) {
    this.#input = input
    this.#deadline = input.clock.elapsed() + input.graceMs
  }

  /** A further caller with less patience. Never lengthens. */
  shorten(graceMs: number, seen: PodSnapshot | undefined): void {
    this.#deadline = Math.min(this.#deadline, this.#input.clock.elapsed() + graceMs)
    if (seen) this.#input.pods.wake(seen)
  }

  /** This host is leaving. A pod that is deleted ends without it, and the next host sees to one that is not. */
  leave(seen: PodSnapshot | undefined): void {
    this.#isLeaving = true
    if (seen) this.#input.pods.wake(seen)
  }

  /** Nor waits for the answer to a call that is under way. */
  cut(): void {
    this.#isLeaving = true
    this.#cut.abort()
  }

  /** Resolves when there is no such pod any more; rejects with `closed` when this host leaves before. */
  async run(seen: PodSnapshot): Promise<void> {
    const { clock, limitMs, pods } = this.#input
    // Whoever deleted it has said how long it has: to ask again could only cut that short.
    if (seen.pod.metadata?.deletionTimestamp !== undefined) this.#asked = this.#deadline
    while (pods.find(seen.identity.ref)?.podUid === seen.podUid) {
      if (this.#isLeaving) throw leaving(seen)
      if (this.#deadline < this.#asked) await this.#delete(seen, this.#leastSeconds())
      const late = clock.elapsed() - this.#deadline
      if (late >= limitMs) throw this.#tooLate(seen)
      const isLost = !pods.isHeard(seen)
      if (isLost && late >= silentNodeMs) await this.#delete(seen, 0)
      const waitMs = isLost ? Math.max(silentNodeMs - late, 1_000) : limitMs - late
      await pods.untilGone(seen, waitMs)
    }
  }

  /** With none at all the API server forgets a pod whose process still runs, and whose ports are still taken. */
  #leastSeconds(): number {
    return Math.max(1, Math.ceil((this.#deadline - this.#input.clock.elapsed()) / 1000))
  }

  async #delete({ identity, podUid }: PodSnapshot, gracePeriodSeconds: number): Promise<void> {
    const { ref } = identity
    const { signal } = this.#cut
    this.#asked = this.#deadline
    try {
      await this.#input.api.request({
        what: `delete pod ${ref.name}`,
        method: 'DELETE',
        path: pathOf(podType, ref),
        body: { gracePeriodSeconds, preconditions: { uid: podUid } },
        signal,
      })
    } catch (error) {
      if (signal.aborted) return
      const status = statusOf(error)
      // Gone already, or another one by now: the watch tells, or the question does.
      if (status !== 404 && status !== 409) {
        this.#asked = Infinity
        throw error
      }
      await this.#input.pods.ask(ref, signal).catch((cause: unknown) => {
        if (!signal.aborted) throw cause
      })
    }
  }

  #tooLate({ identity, pod }: PodSnapshot): FleetError {
    const where = pod.spec?.nodeName === undefined ? '' : ` on ${pod.spec.nodeName}`
    return new FleetError('unavailable', `pod ${keyOf(identity.ref)}${where} was deleted and does not end`)
  }
}

function leaving({ identity }: PodSnapshot): FleetError {
  return new FleetError('closed', `the backend was closed while pod ${keyOf(identity.ref)} was ending`)
}
