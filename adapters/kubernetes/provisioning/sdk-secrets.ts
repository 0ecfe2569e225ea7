/**
 * Creates the secrets that contain the games' SDK configuration, and numbers the servers of each node. Each pod is created first and waits for
 * its secret, because the secret contains the address of the pod's node.
 */
import type { InstanceSpec } from '../../../src/contracts/backend.js'
import { lowestFreeNumber } from '../../../src/rules/game/sdk-config.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import { platformOn, type PlatformOptions } from '../../shared/option-reader.js'
import { apiErrorOf, isAlreadyExists, statusOf } from '../client/api-errors.js'
import type { ApiContext, KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType, secrets, typeMetaOf } from '../client/kube-objects.js'
import { nodePlatform } from '../nodes/node-cache.js'
import type { PodCache } from '../pods/pod-cache.js'
import { buildKeyOf, instanceNumberAnnotation, isUnstarted, type Names, type PodSnapshot } from '../pods/pod-objects.js'
import { secretNameOf, secretOf } from './pod-spec.js'

interface SdkSecretsDependencies extends ApiContext {
  readonly pods: PodCache
  readonly numbers: Pick<InstanceNumbers, 'assign' | 'forget'>
  readonly platform: PlatformOptions
}

const retryLimits = { initialMs: 200, maxMs: 10_000 }
/** Number of rejections tolerated before the pod is reported as blocked: the first ones may be temporary. */
const toleratedRejections = 2

interface Rejection {
  readonly times: number
  /** The latest error message from the API server. */
  readonly message: string
}

export class SdkSecrets {
  readonly #deps: SdkSecretsDependencies
  /** Specs of the pods that are waiting for their secret, by pod uid. */
  readonly #pending = new Map<string, InstanceSpec>()
  readonly #creating = new Set<string>()
  /** Uids of unstarted pods whose secret exists. */
  readonly #provided = new Set<string>()
  /** Rejected attempts to create the secret, by pod uid. */
  readonly #rejections = new Map<string, Rejection>()
  #onIdle = () => {}

  constructor(deps: SdkSecretsDependencies) {
    this.#deps = deps
  }

  /** Creates the pod's secret as soon as the pod has a node. */
  provide(snapshot: PodSnapshot, spec: InstanceSpec): void {
    if (this.#provided.has(snapshot.podUid) || !isUnstarted(snapshot.pod)) return
    this.#pending.set(snapshot.podUid, spec)
    this.podChanged(snapshot)
  }

  /** Never throws: failed attempts are retried while the pod waits. */
  podChanged(snapshot: PodSnapshot): void {
    if (!isUnstarted(snapshot.pod)) return this.forget(snapshot)
    if (!this.#pending.has(snapshot.podUid) || snapshot.pod.spec?.nodeName === undefined) return
    if (this.#creating.has(snapshot.podUid)) return
    this.#creating.add(snapshot.podUid)
    void this.#createWithRetries(snapshot)
  }

  /** Why the pod's secret cannot be created, or undefined unless it was rejected repeatedly. */
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

  forget(snapshot: PodSnapshot): void {
    const { podUid } = snapshot
    this.#deps.numbers.forget(snapshot)
    this.#pending.delete(podUid)
    this.#provided.delete(podUid)
    this.#rejections.delete(podUid)
    this.#checkIdle()
  }

  /** Whether this host knows, without a call, that an unstarted pod has its secret, needs none, or gets one from this host. */
  isKnown({ pod, podUid }: PodSnapshot): boolean {
    return this.#pending.has(podUid) || this.#provided.has(podUid) || secretNameOf(pod) === undefined
  }

  /**
   * Whether an unstarted pod has its secret or this host is creating it. Asks by a dry run of its creation, so that hosts need not be allowed to
   * read secrets. Rejects if the API server does not respond.
   */
  async isProvided(snapshot: PodSnapshot): Promise<boolean> {
    const { pod, podUid, identity } = snapshot
    const name = secretNameOf(pod)
    if (name === undefined || this.isKnown(snapshot)) return true
    const { namespace } = identity.ref
    const path = pathOf(secrets, { namespace })
    const body = { ...typeMetaOf(secrets), metadata: { namespace, name } }
    try {
      // Unfenced: it writes nothing.
      const call = { method: 'POST', path, query: { dryRun: 'All' }, body, unfenced: true } as const
      await this.#deps.api.request({ what: `look for secret ${name}`, ...call })
      return false
    } catch (error) {
      if (!isAlreadyExists(error)) throw error
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
    // The pod was deleted in the meantime.
    if (!this.#pending.has(podUid)) return
    const { logger, pods } = this.#deps
    const rejection = apiErrorOf(error)
    // Without a response it is unknown whether the API server would reject the secret, so only responses count.
    const times = (this.#rejections.get(podUid)?.times ?? 0) + (rejection ? 1 : 0)
    const level = rejection && times === toleratedRejections + 1 ? 'warn' : 'debug'
    logger[level]({ err: error, pod: keyOf(identity.ref) }, 'cannot create SDK secret; will retry')
    if (!rejection) return
    this.#rejections.set(podUid, { times, message: rejection.message })
    pods.reevaluate(identity.ref)
  }

  /** Returns false if the node's address is not known yet. */
  async #create(snapshot: PodSnapshot, spec: InstanceSpec): Promise<boolean> {
    const { pod, podUid, identity } = snapshot
    const { api, pods, numbers, platform } = this.#deps
    const name = secretNameOf(pod)
    const node = pod.spec?.nodeName
    const address = pods.addressOf(pod)
    if (name === undefined) return true
    if (node === undefined || address === undefined) return false
    const instanceNumber = await numbers.assign(snapshot, node)
    const found = pods.nodeOf(pod)
    const body = secretOf(name, spec, identity.ports, {
      uid: podUid,
      node,
      address,
      instanceNumber,
      platform: platformOn(node, platform, found && nodePlatform(found)),
    })
    const path = pathOf(secrets, { namespace: identity.ref.namespace })
    try {
      // Unfenced: the pod already exists and its secret does not depend on who leads, so any host may complete it.
      const group = keyOf(spec.build)
      await api.request({ what: `create secret ${name}`, method: 'POST', path, body, group, unfenced: true })
    } catch (error) {
      // On 409 the secret exists already: an earlier call succeeded but its response was lost. The name is unique to this
      // pod.
      if (statusOf(error) !== 409) throw error
    }
    this.#pending.delete(podUid)
    this.#provided.add(podUid)
    if (this.#rejections.delete(podUid)) pods.reevaluate(identity.ref)
    this.#checkIdle()
    return true
  }
}

interface InstanceNumbersDependencies {
  readonly api: Pick<KubernetesApi, 'object'>
  readonly names: Names
  readonly pods: Pick<PodCache, 'snapshots' | 'add'>
}

/**
 * Numbers the servers of each node. A number is chosen once the pod is scheduled, and kept in an annotation of the pod, from
 * which the next leader reads it.
 */
export class InstanceNumbers {
  readonly #deps: InstanceNumbersDependencies
  /** Numbers that may not be annotated yet, by pod uid. */
  readonly #chosen = new Map<string, { readonly node: string; readonly number: number }>()

  constructor(deps: InstanceNumbersDependencies) {
    this.#deps = deps
  }

  /**
   * Returns the number of this pod, which runs on `node`; chooses and annotates it if the pod has none. Rejects with the API
   * server's error; the call can then be repeated. Only the leader may annotate pods, so two hosts never number one node.
   */
  async assign(snapshot: PodSnapshot, node: string): Promise<number> {
    const { identity, podUid } = snapshot
    if (identity.instanceNumber !== undefined) return identity.instanceNumber
    const { api, names, pods } = this.#deps
    // Chosen before the first await, so that concurrent calls choose different numbers.
    const number = this.#chosen.get(podUid)?.number ?? lowestFreeNumber(this.#takenOn(node))
    this.#chosen.set(podUid, { node, number })
    const annotated = await api.object({
      what: `number pod ${identity.ref.name}`,
      method: 'PATCH',
      path: pathOf(podType, identity.ref),
      body: { metadata: { uid: podUid, annotations: instanceNumberAnnotation(names, number) } },
      group: buildKeyOf(names, snapshot),
    })
    pods.add(annotated)
    this.#chosen.delete(podUid)
    return number
  }

  forget({ podUid }: PodSnapshot): void {
    this.#chosen.delete(podUid)
  }

  *#takenOn(node: string): Generator<number> {
    for (const { identity, pod } of this.#deps.pods.snapshots()) {
      if (pod.spec?.nodeName !== node) continue
      if (identity.instanceNumber !== undefined) yield identity.instanceNumber
    }
    for (const chosen of this.#chosen.values()) if (chosen.node === node) yield chosen.number
  }
}
