/** Creates the pod for one server. Safe to repeat: the pod has the server's name, so a second one cannot be created. */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf, type PortPair } from '../../../src/rules/model/resources.js'
import type { Creation, CreationOutcome } from '../../shared/creations.js'
import type { PlatformOptions } from '../../shared/platform-options.js'
import { apiErrorOf, creationError, isAlreadyExists, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type OwnerReference, pathOf, pods as podType } from '../client/kube-objects.js'
import type { NodePorts } from '../nodes/node-ports.js'
import { acceptsPod } from '../nodes/node-status.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'
import type { IncompletePods } from './incomplete-pods.js'
import { podOf, type Scheduling } from './pod-spec.js'
import type { SdkSecrets } from './sdk-secrets.js'
import { fixedHostPorts } from './template.js'

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

export interface PodCreationInput {
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
