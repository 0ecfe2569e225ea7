/** Creates the pod for one server, and removes pods whose creation an earlier leader did not complete. */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type PortPair } from '../../../src/rules/model/resources.js'
import type { Creation, CreationOutcome } from '../../shared/in-flight.js'
import type { PlatformOptions } from '../../shared/option-reader.js'
import { apiErrorOf, creationError, isAlreadyExists, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type OwnerReference, pathOf, pods as podType } from '../client/kube-objects.js'
import type { WriteFence } from '../client/write-fence.js'
import { acceptsPod } from '../nodes/node-cache.js'
import type { NodePorts } from '../nodes/node-ports.js'
import type { PodCache } from '../pods/pod-cache.js'
import { isUnstarted, type PodSnapshot } from '../pods/pod-objects.js'
import { fixedHostPorts, podOf, type Scheduling } from './pod-spec.js'
import { deletePod } from './pod-termination.js'
import type { SdkSecrets } from './sdk-secrets.js'

export interface PodCreationDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly ports: NodePorts
  readonly secrets: Pick<SdkSecrets, 'provide'>
  readonly incompletePods: Pick<IncompletePods, 'removed'>
  readonly group: string
  readonly scheduling: Scheduling
  readonly platform: PlatformOptions
  readonly instanceOf: (snapshot: PodSnapshot) => Instance
}

interface PodCreationInput {
  readonly spec: InstanceSpec
  /** Unused name for the pod's SDK secret. */
  readonly secret: string
  /** Reference to the GameServer object, if it exists. */
  readonly owner: OwnerReference | undefined
  readonly signal: AbortSignal | undefined
}

export class PodCreation implements Creation {
  readonly #deps: PodCreationDependencies
  readonly #input: PodCreationInput
  ports: readonly number[] = []

  constructor(deps: PodCreationDependencies, input: PodCreationInput) {
    this.#deps = deps
    this.#input = input
  }

  get uid(): string {
    return this.#input.spec.uid
  }

  /** Rejects with `conflict`, `ports-exhausted`, `unavailable`, `aborted`. */
  async run(): Promise<CreationOutcome> {
    const { pods, secrets, incompletePods, instanceOf } = this.#deps
    const { spec } = this.#input
    // An incomplete pod with that name must be deleted first.
    await incompletePods.removed(pods.find(spec.ref))
    const created = await this.#create()
    if ('rejected' in created) return created
    secrets.provide(created.snapshot, spec)
    return { instance: instanceOf(created.snapshot) }
  }

  async #create(): Promise<{ readonly snapshot: PodSnapshot } | { readonly rejected: Instance }> {
    const { api, pods } = this.#deps
    const { spec, signal } = this.#input
    const { ref } = spec
    const existing = pods.find(ref)
    if (existing) return { snapshot: this.#adopt(existing) }
    const body = this.#podWithPorts()
    const path = pathOf(podType, { namespace: ref.namespace })
    const group = keyOf(spec.build)
    try {
      const object = await api.object({ what: `create pod ${ref.name}`, method: 'POST', path, body, group, signal })
      const snapshot = pods.add(object)
      if (snapshot) return { snapshot }
      const message = `pod ${keyOf(ref)} was created, but is gone or lacks its labels`
      throw new FleetError('unavailable', message)
    } catch (error) {
      if (isAlreadyExists(error)) return { snapshot: await this.#adoptExisting(error) }
      const status = statusOf(error)
      if (status === 400 || status === 422) return { rejected: this.#rejected(error) }
      throw creationError(error)
    }
  }

  /** Synchronous, so that no other creation can take the same ports. */
  #podWithPorts(): object {
    const { pods, ports, group, scheduling, platform } = this.#deps
    const { spec, secret, owner } = this.#input
    const { template, portsToExpose } = spec
    const nodes = [...pods.nodes()]
      .filter((node) => acceptsPod(node, template))
      .map(({ metadata }) => metadata?.name ?? '')
    this.ports = ports.take(portsToExpose.length, nodes, fixedHostPorts(spec))
    const pairs: readonly PortPair[] = portsToExpose.map((container, i) => ({ container, public: this.ports[i] ?? 0 }))
    const refusingNodes = ports.refusingNodes(this.ports)
    return podOf({ spec, ports: pairs, group, secret, owner, scheduling, platform, refusingNodes })
  }

  async #adoptExisting(error: unknown): Promise<PodSnapshot> {
    const { spec, signal } = this.#input
    const existing = await this.#deps.pods.fetch(spec.ref, signal)
    if (existing) return this.#adopt(existing)
    const message = `cannot create pod ${keyOf(spec.ref)}: a pod that does not belong to this fleet has, or just had, its name`
    throw new FleetError('conflict', message, { cause: error })
  }

  /**
   * Handles an existing pod with that name: it belongs to this server, created by an earlier attempt, or to another server.
   */
  #adopt(snapshot: PodSnapshot): PodSnapshot {
    const { spec } = this.#input
    const isDeleting = snapshot.pod.metadata?.deletionTimestamp !== undefined
    if (snapshot.identity.uid === spec.uid && !isDeleting) return snapshot
    const why = isDeleting ? 'is still being deleted' : 'exists'
    throw new FleetError('conflict', `cannot create pod ${keyOf(spec.ref)}: an earlier pod with that name ${why}`)
  }

  /** Called when the API server rejects the pod for a reason that a retry cannot fix. */
  #rejected(error: unknown): Instance {
    const { ref, uid } = this.#input.spec
    const reason = `pod rejected by the API server: ${apiErrorOf(error)?.message ?? messageOf(error)}`
    return { ref, uid, phase: 'exited', exitCode: 125, reason, ports: [] }
  }
}

interface IncompletePodsDependencies {
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

/**
 * Finds and removes pods whose SDK secret will never be created because their host stopped between creating the pod and the
 * secret. The fleet creates a new pod for the server, so listeners must not take the removal for a crash: they are not notified of a pod
 * before its secret is known to exist, and hear of a removal if that was not known at first.
 */
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
    const { podUid } = snapshot
    if (this.#unread.delete(podUid)) this.#deps.onRemoving(snapshot)
    try {
      await deletePod(api, snapshot, 0)
    } catch (error) {
      this.#removing.delete(podUid)
      return this.#warn(snapshot, 'cannot delete a pod whose SDK secret is missing; will retry at the next list', error)
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
