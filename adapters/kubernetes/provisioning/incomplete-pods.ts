/**
 * Pods that wait for a configuration that nobody is going to write, since the host that made them has gone before it had: each
 * is removed, and whoever wants it asks for it again. Nobody is ever told of them.
 */
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import type { SdkSecrets } from './sdk-secret.js'
import type { Fence } from '../leader-election/fence.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import { isUnstarted } from '../pods/pod-status.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface IncompletePodsDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly configuration: SdkSecrets
  readonly fence: Fence
  /** How long one may take to go. */
  readonly limitMs: number
  readonly logger: Logger
  /** This host is just making the pod of that server. */
  readonly isCreating: (key: string) => boolean
}

export class IncompletePods {
  readonly #parts: IncompletePodsDependencies
  /** Those that are being removed, by their own uid. */
  readonly #removing = new Map<string, Promise<void>>()
  /** Those of which somebody was warned, by their own uid. */
  readonly #warned = new Set<string>()

  constructor(parts: IncompletePodsDependencies) {
    this.#parts = parts
  }

  /** Once its removal has begun nothing is told of a pod: nothing ever was. */
  has({ podUid }: PodSnapshot): boolean {
    return this.#removing.has(podUid)
  }

  /** It is gone. True when it was one of these. */
  forget({ podUid }: PodSnapshot): boolean {
    this.#warned.delete(podUid)
    return this.#removing.delete(podUid)
  }

  /** Resolves once this one is removed, if it is being. */
  async over(seen: PodSnapshot | undefined): Promise<void> {
    await this.#removing.get(seen?.podUid ?? '')
  }

  /** False for one that was half made, and is removed now, or at a later look. Never rejects. */
  async isWhole(seen: PodSnapshot): Promise<boolean> {
    const { fence, isCreating } = this.#parts
    const { pod, podUid, identity } = seen
    // What a host that leads is just making looks the same to one that does not.
    if (fence.refusal()) return true
    if (!this.has(seen)) {
      const isWaiting = isUnstarted(pod) && pod.metadata?.deletionTimestamp === undefined
      if (!isWaiting || isCreating(keyOf(identity.ref)) || (await this.#mayBeWhole(seen))) return true
    }
    const underway = this.#removing.get(podUid) ?? this.#remove(seen)
    this.#removing.set(podUid, underway)
    await underway
    return false
  }

  /** True as well while nobody can say: a pod that is shown for nothing harms no match. */
  async #mayBeWhole(seen: PodSnapshot): Promise<boolean> {
    try {
      return await this.#parts.configuration.has(seen)
    } catch (error) {
      this.#warn(seen, `it is not known whether pod ${keyOf(seen.identity.ref)} has its configuration`, error)
      return true
    }
  }

  async #remove(seen: PodSnapshot): Promise<void> {
    const { api, pods, limitMs } = this.#parts
    const { identity, podUid } = seen
    try {
      await api.request({
        ...{ what: `delete pod ${identity.ref.name}`, method: 'DELETE', path: pathOf(podType, identity.ref) },
        body: { gracePeriodSeconds: 0, preconditions: { uid: podUid } },
      })
    } catch (error) {
      const status = statusOf(error)
      // Gone already, or another one by now.
      if (status !== 404 && status !== 409) {
        this.#removing.delete(podUid)
        return this.#warn(seen, `pod ${keyOf(identity.ref)}, which is half made, could not be removed yet`, error)
      }
    }
    await pods.untilGone(seen, limitMs)
  }

  /** Once for each: it is tried again with every list. */
  #warn({ podUid }: PodSnapshot, what: string, error: unknown): void {
    if (this.#warned.has(podUid)) return
    this.#warned.add(podUid)
    this.#parts.logger.warn({ error: messageOf(error) }, `${what}: ${messageOf(error)}`)
  }
}
