/**
 * Numbers the servers of each node. A number is chosen once the pod is scheduled, and kept in an annotation of the pod, from
 * which the next leader reads it.
 */
import { lowestFreeNumber } from '../../../src/rules/game/instance-number.js'
import type { KubernetesApi } from '../client/api.js'
import { pathOf, pods as podType } from '../client/kube-objects.js'
import { buildKeyOf, instanceNumberAnnotation, type Names } from '../pods/labels.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface InstanceNumbersDependencies {
  readonly api: Pick<KubernetesApi, 'object'>
  readonly names: Names
  readonly pods: Pick<PodCache, 'snapshots' | 'add'>
}

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
    const number = this.#chosen.get(podUid)?.number ?? lowestFreeNumber(this.#heldOn(node))
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

  *#heldOn(node: string): Generator<number> {
    for (const { identity, pod } of this.#deps.pods.snapshots()) {
      if (pod.spec?.nodeName !== node) continue
      if (identity.instanceNumber !== undefined) yield identity.instanceNumber
    }
    for (const chosen of this.#chosen.values()) if (chosen.node === node) yield chosen.number
  }
}
