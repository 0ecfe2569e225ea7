/**
 * Finds and removes pods whose SDK secret will never be created because their host stopped between creating the pod and the
 * secret. The fleet creates a new pod for the server, so listeners must not take the removal for a crash: they are not notified of a pod
 * before its secret is known to exist, and hear of a removal if that was not known at first.
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
  /** Called before a pod is removed that counted as complete while its secret could not be read. */
  readonly onRemoving: (snapshot: PodSnapshot) => void
}

export class IncompletePods {
  readonly #deps: IncompletePodsDependencies
  /** Lookups of secrets in progress, by pod uid. */
  readonly #lookups = new Map<string, Promise<boolean>>()
  /** Removals in progress, by pod uid. */
  readonly #removing = new Map<string, Promise<void>>()
  /** Uids of the pods that counted as complete although their secret could not be read. */
  readonly #unread = new Set<string>()
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
    this.#unread.delete(podUid)
    return this.#removing.delete(podUid)
  }

  /** Resolves once the removal of this pod has finished, or at once if none is in progress. */
  async removed(snapshot: PodSnapshot | undefined): Promise<void> {
    await this.#removing.get(snapshot?.podUid ?? '')
  }

  /** Whether the pod is complete as far as is known without a call. If false, `isComplete` finds out. */
  isKnownComplete(snapshot: PodSnapshot): boolean {
    const { fence, isCreating, secrets } = this.#deps
    const { pod, identity } = snapshot
    // A host that is not the leader cannot distinguish incomplete pods from pods that the leader is creating.
    if (fence.check()) return true
    if (this.isRemoving(snapshot)) return false
    const isWaiting = isUnstarted(pod) && pod.metadata?.deletionTimestamp === undefined
    return !isWaiting || isCreating(keyOf(identity.ref)) || secrets.isKnown(snapshot)
  }

  /** Returns false if the pod is incomplete, after trying to remove it. Never rejects. */
  async isComplete(snapshot: PodSnapshot): Promise<boolean> {
    const { podUid } = snapshot
    if (this.isKnownComplete(snapshot)) return true
    if (!this.isRemoving(snapshot)) {
      const lookup = this.#lookups.get(podUid) ?? this.#mayHaveSecret(snapshot)
      this.#lookups.set(podUid, lookup)
      if (await lookup) return true
      // During the call, this host may have begun to complete the pod, or the fleet may have got another leader.
      if (this.isKnownComplete(snapshot)) return true
    }
    const removal = this.#removing.get(podUid) ?? this.#remove(snapshot)
    this.#removing.set(podUid, removal)
    await removal
    return false
  }

  /** Also returns true if the check fails: keeping an incomplete pod for a while is harmless. */
  async #mayHaveSecret(snapshot: PodSnapshot): Promise<boolean> {
    const { podUid } = snapshot
    try {
      const isProvided = await this.#deps.secrets.isProvided(snapshot)
      if (isProvided) this.#unread.delete(podUid)
      return isProvided
    } catch (error) {
      this.#unread.add(podUid)
      this.#warn(snapshot, 'cannot check whether a pod has its SDK secret', error)
      return true
    } finally {
      this.#lookups.delete(podUid)
    }
  }

  async #remove(snapshot: PodSnapshot): Promise<void> {
    const { api, pods, timeoutMs } = this.#deps
    const { identity, podUid } = snapshot
    if (this.#unread.delete(podUid)) this.#deps.onRemoving(snapshot)
    try {
      await api.request({
        what: `delete pod ${identity.ref.name}`,
        method: 'DELETE',
        path: pathOf(podType, identity.ref),
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
