/** The creations under way: one for each server, whoever asks for it. And what the cluster will never make a pod of. */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Listeners } from '../../shared/listeners.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { KubernetesApi } from '../client/api.js'
import type { SdkSecrets } from './sdk-secret.js'
import type { IncompletePods } from './incomplete-pods.js'
import type { OwnerReference } from '../client/kube-objects.js'
import type { HeldPort, NodePorts } from '../nodes/node-ports.js'
import { PodCreation } from './pod-creation.js'
import type { PodCache } from '../pods/pod-cache.js'
import type { PodSnapshot } from '../pods/pod-snapshot.js'

export interface CreationsDependencies {
  readonly api: KubernetesApi
  readonly pods: PodCache
  readonly ports: NodePorts
  readonly configuration: SdkSecrets
  readonly halfMade: IncompletePods
  readonly listeners: Listeners
  readonly clock: Clock
  readonly group: string
  readonly packed: boolean
  readonly ownerOf: (ref: Ref, uid: string) => OwnerReference | undefined
  /** What is told of a pod. */
  readonly shown: (seen: PodSnapshot) => Instance
}

interface Underway {
  readonly creation: PodCreation
  readonly done: Promise<Instance>
}

export class Creations {
  readonly #parts: CreationsDependencies
  readonly #underway = new Map<string, Underway>()
  /** There is nothing else that could tell of them. */
  readonly #refused = new Map<string, Instance>()

  constructor(parts: CreationsDependencies) {
    this.#parts = parts
  }

  has(key: string): boolean {
    return this.#underway.has(key)
  }

  /** Rejects with `conflict` when another one of that name is being made, and as `PodCreation` does. */
  async create(spec: InstanceSpec, signal: AbortSignal | undefined): Promise<Instance> {
    const key = keyOf(spec.ref)
    const refused = this.#refused.get(key)
    if (refused?.uid === spec.uid) return refused
    const same = this.#underway.get(key)
    if (same) {
      if (same.creation.uid === spec.uid) return unlessAborted(same.done, signal)
      throw new FleetError('conflict', `another instance ${key} is just being created`)
    }
    const creation = this.#plan(spec, signal)
    const done = this.#carryOut(spec, creation)
    this.#underway.set(key, { creation, done })
    try {
      return await done
    } finally {
      this.#underway.delete(key)
    }
  }

  /** Settles when that of this key has; its failure is its caller's. */
  async over(key: string): Promise<void> {
    await this.#underway.get(key)?.done.catch(() => {})
  }

  /** Settles when all have that are under way now. */
  async allOver(): Promise<void> {
    await Promise.allSettled([...this.#underway.values()].map(({ done }) => done))
  }

  refused(): Iterable<Instance> {
    return this.#refused.values()
  }

  /** Nobody wants it any more. */
  forgetRefused(ref: Ref, uid: string): void {
    const key = keyOf(ref)
    if (this.#refused.get(key)?.uid !== uid) return
    this.#refused.delete(key)
    this.#parts.listeners.tellAll((listener) => listener.gone(ref, uid))
  }

  /** Of pods that nobody has seen yet. */
  *heldPorts(): Generator<HeldPort> {
    for (const { creation } of this.#underway.values()) {
      for (const port of creation.ports) yield { port, node: undefined }
    }
  }

  #plan(spec: InstanceSpec, signal: AbortSignal | undefined): PodCreation {
    const { api, pods, ports, clock, group, packed, ownerOf } = this.#parts
    const nonce = Buffer.from(clock.randomBytes(4)).toString('hex')
    return new PodCreation({
      ...{ spec, api, pods, ports, group, packed, signal },
      secret: `${spec.ref.name}-${nonce}`,
      owner: ownerOf(spec.ref, spec.uid),
    })
  }

  async #carryOut(spec: InstanceSpec, creation: PodCreation): Promise<Instance> {
    const { pods, halfMade, configuration, listeners, shown } = this.#parts
    // A half made pod of that name is removed first.
    await halfMade.over(pods.find(spec.ref))
    const outcome = await creation.run()
    if ('refused' in outcome) {
      const { refused } = outcome
      this.#refused.set(keyOf(spec.ref), refused)
      listeners.tellAll((listener) => listener.changed(refused))
      return refused
    }
    configuration.want(outcome.seen, spec)
    return shown(outcome.seen)
  }
}
