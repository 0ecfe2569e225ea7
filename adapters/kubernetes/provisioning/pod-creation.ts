/** Makes the pod of one server. Can be repeated: a pod has the name of its server, so that there is only ever one. */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { keyOf, type PortPair } from '../../../src/rules/model/resources.js'
import { creationFailure, isTaken, refusalOf, statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type OwnerReference, pathOf, pods as podType } from '../client/kube-objects.js'
import type { NodePorts } from '../nodes/node-ports.js'
import { accepts } from '../nodes/nodes.js'
import { podOf, templatePorts } from './pod-spec.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface PodCreationDependencies {
  readonly spec: InstanceSpec
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly ports: NodePorts
  readonly group: string
  readonly packed: boolean
  /** Nobody else's name for a secret. */
  readonly secret: string
  /** The custom resource of the server, if there is one: the pod goes with it even when no host is there. */
  readonly owner: OwnerReference | undefined
  readonly signal: AbortSignal | undefined
}

/** `refused`: the cluster will never make a pod of it. */
export type Created = { readonly seen: PodSnapshot } | { readonly refused: Instance }

export class PodCreation {
  readonly #input: PodCreationDependencies
  /** Public numbers that nobody else may get meanwhile. */
  ports: readonly number[] = []

  constructor(input: PodCreationDependencies) {
    this.#input = input
  }

  get uid(): string {
    return this.#input.spec.uid
  }

  /** Rejects with `conflict`, `ports-exhausted`, `unavailable`, `aborted`. */
  async run(): Promise<Created> {
    const { spec, api, pods, ports, group, packed, secret, owner, signal } = this.#input
    const { ref, template, portsToExpose } = spec
    const known = pods.find(ref)
    if (known) return this.#meet(known)
    const nodes = [...pods.nodes()]
      .filter((node) => accepts(node, template))
      .map(({ metadata }) => metadata?.name ?? '')
    // In this very tick, so that no other creation gets the same.
    this.ports = ports.take(portsToExpose.length, nodes, templatePorts(spec))
    const pairs: readonly PortPair[] = portsToExpose.map((container, i) => ({ container, public: this.ports[i] ?? 0 }))
    const body = podOf({ spec, ports: pairs, group, secret, owner, packed })
    const path = pathOf(podType, { namespace: ref.namespace })
    try {
      const made = await api.object({ what: `create pod ${ref.name}`, method: 'POST', path, body, signal })
      const seen = pods.learn(made)
      if (seen) return { seen }
      const message = `pod ${keyOf(ref)} was created and is gone again already, or came back without its labels`
      throw new FleetError('unavailable', message)
    } catch (error) {
      if (isTaken(error)) return this.#meetNamesake(error)
      const status = statusOf(error)
      if (status === 400 || status === 422) return { refused: this.#refusal(error) }
      throw creationFailure(error)
    }
  }

  async #meetNamesake(error: unknown): Promise<Created> {
    const { spec, pods, signal } = this.#input
    const found = await pods.ask(spec.ref, signal)
    if (found) return this.#meet(found)
    const message = `${keyOf(spec.ref)} cannot be created: a pod that is not of this fleet has its name, or had it just now`
    throw new FleetError('conflict', message, { cause: error })
  }

  /** There is a pod of that name: this very one, from a call before, or one that is in the way. */
  #meet(seen: PodSnapshot): Created {
    const { spec } = this.#input
    const isEnding = seen.pod.metadata?.deletionTimestamp !== undefined
    if (seen.identity.uid === spec.uid && !isEnding) return { seen }
    const message = `${keyOf(spec.ref)} cannot be created: an earlier pod of that name is ${isEnding ? 'just ending' : 'there'}`
    throw new FleetError('conflict', message)
  }

  #refusal(error: unknown): Instance {
    const { ref, uid } = this.#input.spec
    const reason = `the cluster refuses it: ${refusalOf(error)?.message ?? messageOf(error)}`
    return { ref, uid, phase: 'exited', exitCode: 125, reason, ports: [] }
  }
}
