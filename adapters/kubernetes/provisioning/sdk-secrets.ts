/**
 * Creates the secrets with the games' SDK configuration. Each pod is created first and waits for its secret, which contains
 * the address of the pod's node.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { apiErrorOf, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, secrets } from '../client/kube-objects.js'
import { isUnstarted } from '../pods/container-status.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'
import { secretNameOf } from './sdk-files.js'
import { secretOf } from './secret-spec.js'

export interface SdkSecretsDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly pods: PodCache
}

const retryLimits = { initialMs: 200, maxMs: 10_000 }
/** Rejections before the pod is reported as blocked: the first ones may be temporary. */
const toleratedRejections = 2

interface Rejection {
  readonly times: number
  /** The API server's latest. */
  readonly message: string
}

export class SdkSecrets {
  readonly #deps: SdkSecretsDependencies
  /** Specs of the pods that wait for their secret, by the pod's uid. */
  readonly #pending = new Map<string, InstanceSpec>()
  readonly #creating = new Set<string>()
  /** Unstarted pods whose secret exists, by the pod's uid. */
  readonly #provided = new Set<string>()
  /** By the pod's uid. */
  readonly #rejections = new Map<string, Rejection>()
  #onIdle = () => {}

  constructor(deps: SdkSecretsDependencies) {
    this.#deps = deps
  }

  /** Creates the pod's secret once it has a node. */
  provide(snapshot: PodSnapshot, spec: InstanceSpec): void {
    if (this.#provided.has(snapshot.podUid) || !isUnstarted(snapshot.pod)) return
    this.#pending.set(snapshot.podUid, spec)
    this.podChanged(snapshot)
  }

  /** Never throws: failures are retried for as long as the pod waits. */
  podChanged(snapshot: PodSnapshot): void {
    if (!isUnstarted(snapshot.pod)) return this.forget(snapshot)
    if (!this.#pending.has(snapshot.podUid) || snapshot.pod.spec?.nodeName === undefined) return
    if (this.#creating.has(snapshot.podUid)) return
    this.#creating.add(snapshot.podUid)
    void this.#createWithRetries(snapshot)
  }

  /** Why the pod's secret cannot be created; undefined unless it was rejected repeatedly. */
  errorOf(podUid: string): string | undefined {
    const rejection = this.#rejections.get(podUid)
    return rejection && rejection.times > toleratedRejections ? rejection.message : undefined
  }

  /** Resolves when no pod waits for its secret. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve
      this.#checkIdle()
    })
  }

  forget({ podUid }: PodSnapshot): void {
    this.#pending.delete(podUid)
    this.#provided.delete(podUid)
    this.#rejections.delete(podUid)
    this.#checkIdle()
  }

  /** Whether an unstarted pod has its secret, or this host is creating it. Rejects when the API server does not answer. */
  async isProvided({ pod, podUid, identity }: PodSnapshot): Promise<boolean> {
    if (this.#pending.has(podUid) || this.#provided.has(podUid)) return true
    const name = secretNameOf(pod)
    if (name === undefined) return true
    const path = pathOf(secrets, { namespace: identity.ref.namespace, name })
    try {
      await this.#deps.api.request({ what: `get secret ${name}`, method: 'GET', path })
    } catch (error) {
      if (statusOf(error) === 404) return false
      throw error
    }
    this.#provided.add(podUid)
    return true
  }

  #checkIdle(): void {
    if (this.#pending.size === 0) this.#onIdle()
  }

  async #createWithRetries({ podUid, identity }: PodSnapshot): Promise<void> {
    const { api, pods } = this.#deps
    for (let failures = 0; !api.closed;) {
      const snapshot = pods.find(identity.ref)
      const spec = this.#pending.get(podUid)
      if (!spec || snapshot?.podUid !== podUid) break
      try {
        if (await this.#create(snapshot, spec)) break
      } catch (error) {
        failures++
        this.#failed(snapshot, error)
      }
      await api.pause(pauseMs(Math.max(1, failures), retryLimits))
    }
    this.#creating.delete(podUid)
  }

  #failed({ podUid, identity }: PodSnapshot, error: unknown): void {
    // The pod is gone.
    if (!this.#pending.has(podUid)) return
    const { logger, pods } = this.#deps
    const rejection = apiErrorOf(error)
    // Without a response, nothing is known about the secret itself.
    const times = (this.#rejections.get(podUid)?.times ?? 0) + (rejection ? 1 : 0)
    const level = rejection && times === toleratedRejections + 1 ? 'warn' : 'debug'
    logger[level]({ err: error, pod: keyOf(identity.ref) }, 'cannot create SDK secret; will retry')
    if (!rejection) return
    this.#rejections.set(podUid, { times, message: rejection.message })
    pods.reevaluate(identity.ref)
  }

  /** False when the node's address is not known yet. */
  async #create({ pod, podUid, identity }: PodSnapshot, spec: InstanceSpec): Promise<boolean> {
    const { api, pods } = this.#deps
    const name = secretNameOf(pod)
    const node = pod.spec?.nodeName
    const address = pods.addressOf(pod)
    if (name === undefined) return true
    if (node === undefined || address === undefined) return false
    const body = secretOf(name, spec, identity.ports, { uid: podUid, node, address })
    const path = pathOf(secrets, { namespace: identity.ref.namespace })
    try {
      // Unfenced: what a pod runs is settled when it is created, whichever host leads by now.
      await api.request({ what: `create secret ${name}`, method: 'POST', path, body, unfenced: true })
    } catch (error) {
      // It exists: an earlier call succeeded without a response. The name is unique to this pod.
      if (statusOf(error) !== 409) throw error
    }
    this.#pending.delete(podUid)
    this.#provided.add(podUid)
    if (this.#rejections.delete(podUid)) pods.reevaluate(identity.ref)
    this.#checkIdle()
    return true
  }
}
