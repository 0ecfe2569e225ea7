/** Deletes the pod of one server and waits until the pod no longer exists. */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { Termination } from '../../shared/in-flight.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiCall, KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { PodCache } from '../pods/pod-cache.js'
import { buildKeyOf, type Names, type PodSnapshot } from '../pods/pod-objects.js'

export interface PodTerminationDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly names: Names
  readonly clock: Clock
  /** How long the deletion may take after the grace period has ended. */
  readonly timeoutMs: number
  /** Resolves once any creation in progress for that server has settled. */
  readonly creationSettled: (key: string) => Promise<void>
  /** Forgets the server if the API server had rejected its pod. */
  readonly forgetRejected: (ref: Ref, uid: string) => void
}

/** If the pod's node is not ready, the pod is force-deleted this long after its grace period. */
const forceDeleteMs = 5_000

export class PodTermination implements Termination {
  readonly #deps: PodTerminationDependencies
  readonly #ref: Ref
  readonly uid: string
  readonly #aborter = new AbortController()
  /** Elapsed ms at which the grace period of the first call ends. */
  readonly #firstDeadline: number
  /** Elapsed ms at which the grace period ends. */
  #deadline: number
  /** The deadline last sent to the API server. */
  #requestedDeadline = Infinity
  #isClosed = false

  constructor(deps: PodTerminationDependencies, ref: Ref, uid: string, graceMs: number) {
    this.#deps = deps
    this.#ref = ref
    this.uid = uid
    this.#firstDeadline = deps.clock.elapsed() + graceMs
    this.#deadline = this.#firstDeadline
  }

  shorten(graceMs: number): void {
    this.#deadline = Math.min(this.#deadline, this.#deps.clock.elapsed() + graceMs)
    this.#wake()
  }

  /** Called when the host closes: `run` stops waiting as soon as it has requested the deletion. */
  close(): void {
    this.#isClosed = true
    this.#wake()
  }

  /** Also aborts the API call in flight. */
  abort(): void {
    this.#isClosed = true
    this.#aborter.abort()
  }

  /**
   * Rejects with `closed` if the host closes before the pod is deleted, and with `unavailable` if the deletion takes too
   * long.
   */
  async run(): Promise<void> {
    const { pods, creationSettled, forgetRejected } = this.#deps
    await creationSettled(keyOf(this.#ref))
    forgetRejected(this.#ref, this.uid)
    // The pod may have been created although the response was lost.
    const snapshot = pods.find(this.#ref) ?? (await pods.fetch(this.#ref, undefined))
    if (snapshot?.identity.uid === this.uid) await this.#untilGone(snapshot)
  }

  async #untilGone(snapshot: PodSnapshot): Promise<void> {
    const { clock, timeoutMs, pods } = this.#deps
    // The pod is already being deleted with its own grace period, which only a later call may shorten. One may have come before this point.
    if (snapshot.pod.metadata?.deletionTimestamp !== undefined) this.#requestedDeadline = this.#firstDeadline
    while (pods.find(snapshot.identity.ref)?.podUid === snapshot.podUid) {
      if (this.#deadline < this.#requestedDeadline) await this.#delete(snapshot, this.#graceSeconds())
      if (this.#isClosed) throw new FleetError('closed', `backend closed while pod ${keyOf(this.#ref)} was terminating`)
      const overdueMs = clock.elapsed() - this.#deadline
      if (overdueMs >= timeoutMs) throw this.#timedOut(snapshot)
      const isNodeDown = !pods.isNodeReady(snapshot)
      if (isNodeDown && overdueMs >= forceDeleteMs) await this.#delete(snapshot, 0)
      const waitMs = isNodeDown ? Math.max(forceDeleteMs - overdueMs, 1_000) : timeoutMs - overdueMs
      await pods.untilGone(snapshot, waitMs)
    }
  }

  /** At least 1: with 0, the API server removes the pod object while its process may still be running and using its ports. */
  #graceSeconds(): number {
    return Math.max(1, Math.ceil((this.#deadline - this.#deps.clock.elapsed()) / 1000))
  }

  async #delete(snapshot: PodSnapshot, gracePeriodSeconds: number): Promise<void> {
    const { api, pods, names } = this.#deps
    const { identity } = snapshot
    const { signal } = this.#aborter
    this.#requestedDeadline = this.#deadline
    try {
      const group = buildKeyOf(names, snapshot)
      if (await deletePod(api, snapshot, gracePeriodSeconds, { group, signal })) return
    } catch (error) {
      if (signal.aborted) return
      this.#requestedDeadline = Infinity
      throw error
    }
    // The cache is out of date.
    await pods.fetch(identity.ref, signal).catch((cause: unknown) => {
      if (!signal.aborted) throw cause
    })
  }

  #timedOut({ identity, pod }: PodSnapshot): FleetError {
    const node = pod.spec?.nodeName === undefined ? '' : ` on ${pod.spec.nodeName}`
    const seconds = this.#deps.timeoutMs / 1_000
    const message = `pod ${keyOf(identity.ref)}${node} was deleted, but still exists ${seconds} s after its grace period`
    return new FleetError('unavailable', message)
  }

  #wake(): void {
    const snapshot = this.#deps.pods.find(this.#ref)
    if (snapshot) this.#deps.pods.wake(snapshot)
  }
}

/** Returns false if the pod had been deleted or replaced by another one before. */
export async function deletePod(
  api: KubernetesApi,
  { identity: { ref }, podUid }: PodSnapshot,
  gracePeriodSeconds: number,
  options: Pick<ApiCall, 'group' | 'signal'> = {},
): Promise<boolean> {
  const body = { gracePeriodSeconds, preconditions: { uid: podUid } }
  try {
    await api.request({
      what: `delete pod ${ref.name}`,
      method: 'DELETE',
      path: pathOf(podType, ref),
      body,
      ...options,
    })
    return true
  } catch (error) {
    const status = statusOf(error)
    if (status !== 404 && status !== 409) throw error
    return false
  }
}
