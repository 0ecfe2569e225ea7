/**
 * Finds and removes pods whose SDK secret will never be created because their host stopped between creating the pod and the
 * secret. Listeners are never notified of these pods; the fleet creates a new pod for the server.
 */
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import type { WriteFence } from '../client/write-fence.js'
import { isUnstarted } from '../pods/container-status.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'
import type { SdkSecrets } from './sdk-secrets.js'

export interface IncompletePodsDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly secrets: SdkSecrets
  readonly fence: WriteFence
  /** How long to wait until a removed pod is deleted. */
  readonly timeoutMs: number
  readonly logger: Logger
  /** Whether this host is currently creating the pod of the server with this key. */
  readonly isCreating: (key: string) => boolean
}

export class IncompletePods {
  readonly #deps: IncompletePodsDependencies
  /** Removals in progress, by pod uid. */
  readonly #removing = new Map<string, Promise<void>>()
  /** Uids of the pods for which a warning was logged. */
  readonly #warned = new Set<string>()

  constructor(deps: IncompletePodsDependencies) {
    this.#deps = deps
  }

  isRemoving({ podUid }: PodSnapshot): boolean {
    return this.#removing.has(podUid)
  }

  /** Call when the pod is deleted. Returns true if it was being removed here. */
  forget({ podUid }: PodSnapshot): boolean {
    this.#warned.delete(podUid)
    return this.#removing.delete(podUid)
  }

  /** Resolves once the removal of this pod has finished, or at once if none is in progress. */
  async removed(snapshot: PodSnapshot | undefined): Promise<void> {
    await this.#removing.get(snapshot?.podUid ?? '')
  }

  /** Returns false if the pod is incomplete, after trying to remove it. Never rejects. */
  async isComplete(snapshot: PodSnapshot): Promise<boolean> {
    const { fence, isCreating } = this.#deps
    const { pod, podUid, identity } = snapshot
    // A host that is not the leader cannot distinguish incomplete pods from pods that the leader is creating.
    if (fence.check()) return true
    if (!this.isRemoving(snapshot)) {
      const isWaiting = isUnstarted(pod) && pod.metadata?.deletionTimestamp === undefined
      if (!isWaiting || isCreating(keyOf(identity.ref)) || (await this.#mayHaveSecret(snapshot))) return true
    }
    const removal = this.#removing.get(podUid) ?? this.#remove(snapshot)
    this.#removing.set(podUid, removal)
    await removal
    return false
  }

  /** Also returns true if the check fails: keeping an incomplete pod for a while is harmless. */
  async #mayHaveSecret(snapshot: PodSnapshot): Promise<boolean> {
    try {
      return await this.#deps.secrets.isProvided(snapshot)
    } catch (error) {
      this.#warn(snapshot, 'cannot check whether a pod has its SDK secret', error)
      return true
    }
  }

  async #remove(snapshot: PodSnapshot): Promise<void> {
    const { api, pods, timeoutMs } = this.#deps
    const { identity, podUid } = snapshot
    try {
      await api.request({
        ...{ what: `delete pod ${identity.ref.name}`, method: 'DELETE', path: pathOf(podType, identity.ref) },
        body: { gracePeriodSeconds: 0, preconditions: { uid: podUid } },
      })
    } catch (error) {
      const status = statusOf(error)
      // 404 or 409 means that the pod has already been deleted or replaced.
      if (status !== 404 && status !== 409) {
        this.#removing.delete(podUid)
        return this.#warn(
          snapshot,
          'cannot delete a pod whose SDK secret is missing; will retry at the next list',
          error,
        )
      }
    }
    await pods.untilGone(snapshot, timeoutMs)
  }

  /** Logs once per pod, because every list tries the removal again. */
  #warn({ podUid, identity }: PodSnapshot, message: string, error: unknown): void {
    if (this.#warned.has(podUid)) return
    this.#warned.add(podUid)
    this.#deps.logger.warn({ err: error, pod: keyOf(identity.ref) }, message)
  }
}
