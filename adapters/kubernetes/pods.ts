/**
 * The pods and nodes of one fleet, as the cluster has told of them: followed by watches, so that nobody has to ask. Knows
 * itself whether what it knows can be relied on now.
 */
import type { Instance } from '../../src/backend.js'
import type { Clock } from '../../src/clock.js'
import { messageOf } from '../../src/errors.js'
import type { Logger } from '../../src/logger.js'
import { keyOf, type Ref } from '../../src/rules/resources.js'
import { statusOf } from './api-failures.js'
import type { KubernetesApi } from './api.js'
import { type KubeObject, nodes as nodeType, pathOf, pods as podType } from './kube-objects.js'
import { type Identity, identityOf, type Names } from './labels.js'
import type { HeldPort } from './node-ports.js'
import { addressOf, answers } from './nodes.js'
import { isNode, isPod, type Node, type Pod } from './pod-objects.js'
import { instanceOf } from './pod-status.js'
import { watchCollection } from './watch.js'

export interface PodsInput {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly names: Names
  /** Undefined: all there are. */
  readonly namespaces: readonly string[] | undefined
  /** Where players connect, when no node is to be asked. */
  readonly publicAddress: string | undefined
  /** New, or something about its instance or its node has changed. */
  readonly onChange: (seen: SeenPod, before: SeenPod | undefined) => void
  readonly onGone: (seen: SeenPod) => void
}

export interface SeenPod {
  readonly identity: Identity
  readonly pod: Pod
  readonly instance: Instance
  /** The pod's own. */
  readonly podUid: string
}

/** One collection of the API server that is followed. */
interface Followed {
  readonly what: string
  readonly path: string
  readonly namespace: string | undefined
  /** Why nothing is heard of it; undefined while it is. */
  silence: unknown
}

const unheard = new Error('it was not listed yet')

export class Pods {
  readonly #input: PodsInput
  readonly #pods = new Map<string, SeenPod>()
  readonly #nodes = new Map<string, Node>()
  readonly #followed: Followed[] = []
  readonly #stops: (() => void)[] = []
  /** Known from the answer of their creation, and told by no watch yet. */
  readonly #unconfirmed = new Set<string>()
  /** Wake those that wait for a pod to be gone, by the pod's own uid. */
  readonly #waiting = new Map<string, Set<() => void>>()

  constructor(input: PodsInput) {
    this.#input = input
  }

  /** Resolves when all is listed. Rejects with the API server's refusal; then it can be started again. */
  async start(): Promise<void> {
    const { api, names, namespaces = [undefined] } = this.#input
    const query = { labelSelector: names.server }
    const collections = namespaces.map((namespace) => ({
      what: namespace === undefined ? 'pods' : `pods in ${namespace}`,
      path: pathOf(podType, { namespace }),
      namespace,
    }))
    // Told here and at once, while the watches would go on trying in silence.
    const nodes = await api.list({ what: 'list nodes', method: 'GET', path: pathOf(nodeType) })
    this.#takeNodes(nodes.items)
    for (const { what, path, namespace } of collections) {
      const { items } = await api.list({ what: `list ${what}`, method: 'GET', path, query })
      this.#takeList(namespace, items)
    }
    for (const collection of collections) this.#follow(collection, query)
    this.#followNodes()
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop()
    for (const wake of [...this.#waiting.values()].flatMap((wakes) => [...wakes])) wake()
  }

  find(ref: Ref): SeenPod | undefined {
    return this.#pods.get(keyOf(ref))
  }

  /** All, as they are now. Asks the API server only for what it has not told lately of its own accord. */
  async list(signal: AbortSignal | undefined): Promise<readonly SeenPod[]> {
    const { api, names } = this.#input
    for (const followed of this.#followed) {
      if (followed.silence === undefined) continue
      const { what, path, namespace } = followed
      const query = { labelSelector: names.server }
      const { items } = await api.list({ what: `list ${what}`, method: 'GET', path, query, signal })
      this.#takeList(namespace, items)
    }
    return [...this.#pods.values()]
  }

  /** Of the API server itself. */
  async ask(ref: Ref, signal: AbortSignal | undefined): Promise<SeenPod | undefined> {
    const path = pathOf(podType, ref)
    try {
      const answer = await this.#input.api.object({ what: `show pod ${ref.name}`, method: 'GET', path, signal })
      return this.#take(answer)
    } catch (error) {
      if (statusOf(error) !== 404) throw error
      const known = this.find(ref)
      if (known) this.#forget(known)
      return undefined
    }
  }

  /** What a creation was answered. */
  learn(object: KubeObject): SeenPod | undefined {
    const known = isPod(object) ? identityOf(this.#input.names, object) : undefined
    if (!known) return undefined
    const before = this.find(known.ref)
    // A watch was quicker, and knows more.
    if (before?.podUid === object.metadata.uid) return before
    if (object.metadata.uid !== undefined) this.#unconfirmed.add(object.metadata.uid)
    return this.#take(object)
  }

  /** True once it is gone; false when `ms` have passed before. */
  untilGone({ podUid, identity }: SeenPod, ms: number): Promise<boolean> {
    const isGone = () => this.find(identity.ref)?.podUid !== podUid
    if (isGone()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const wakes = this.#waiting.get(podUid) ?? new Set()
      this.#waiting.set(podUid, wakes)
      const wake = () => {
        cancel()
        wakes.delete(wake)
        if (wakes.size === 0) this.#waiting.delete(podUid)
        resolve(isGone())
      }
      const cancel = this.#input.clock.after(ms, wake)
      wakes.add(wake)
    })
  }

  /** Those who wait look again. */
  wake({ podUid }: SeenPod): void {
    for (const wake of [...(this.#waiting.get(podUid) ?? [])]) wake()
  }

  *heldPorts(): Generator<HeldPort> {
    for (const { identity, pod } of this.#pods.values()) {
      for (const port of identity.ports) yield { port: port.public, node: pod.spec?.nodeName }
    }
  }

  nodes(): Iterable<Node> {
    return this.#nodes.values()
  }

  /** Undefined when nobody has said it yet. */
  addressOf({ spec, status }: Pod): string | undefined {
    if (spec?.nodeName === undefined) return undefined
    const node = this.#nodes.get(spec.nodeName)
    return this.#input.publicAddress ?? (node && addressOf(node)) ?? status?.hostIP
  }

  /** False when its node is gone or says nothing any more: nobody ends its pods then. */
  isHeard({ pod }: SeenPod): boolean {
    const name = pod.spec?.nodeName
    if (name === undefined) return true
    const node = this.#nodes.get(name)
    return node !== undefined && answers(node)
  }

  #follow({ what, path, namespace }: Omit<Followed, 'silence'>, query: Readonly<Record<string, string>>): void {
    const { api, clock, logger } = this.#input
    const followed: Followed = { what, path, namespace, silence: unheard }
    this.#followed.push(followed)
    const stop = watchCollection(
      { api, clock, logger, what, path, query },
      {
        listed: (objects) => this.#takeList(namespace, objects),
        changed: (object) => void this.#confirm(object),
        deleted: (object) => this.#remove(object),
        broken: (error) => (followed.silence = error ?? unheard),
        followed: () => (followed.silence = undefined),
      },
    )
    this.#stops.push(stop)
  }

  #followNodes(): void {
    const { api, clock, logger } = this.#input
    const take = (object: KubeObject) => {
      if (isNode(object)) this.#nodes.set(object.metadata.name, object)
      this.#lookAgainAt(object.metadata.name)
    }
    const stop = watchCollection(
      { api, clock, logger, what: 'nodes', path: pathOf(nodeType) },
      {
        listed: (objects) => this.#takeNodes(objects),
        changed: take,
        deleted: ({ metadata }) => {
          this.#nodes.delete(metadata.name)
          this.#lookAgainAt(metadata.name)
        },
      },
    )
    this.#stops.push(stop)
  }

  #takeNodes(objects: readonly KubeObject[]): void {
    this.#nodes.clear()
    for (const object of objects) if (isNode(object)) this.#nodes.set(object.metadata.name, object)
  }

  /** An address has become known or another one, or nobody answers there any more. */
  #lookAgainAt(node: string): void {
    for (const seen of this.#pods.values()) {
      if (seen.pod.spec?.nodeName !== node) continue
      this.#see(seen.identity, seen.pod, seen.podUid)
      if (!this.isHeard(seen)) this.wake(seen)
    }
  }

  #takeList(namespace: string | undefined, objects: readonly KubeObject[]): void {
    const listed = new Set(objects.map(({ metadata }) => metadata.uid))
    for (const seen of [...this.#pods.values()]) {
      if (namespace !== undefined && seen.identity.ref.namespace !== namespace) continue
      if (listed.has(seen.podUid)) continue
      // It may have been made since the list was: its end is told by the watch, or found out here.
      if (this.#unconfirmed.has(seen.podUid)) this.#findOut(seen)
      else this.#forget(seen)
    }
    for (const object of objects) this.#confirm(object)
  }

  #findOut(seen: SeenPod): void {
    this.ask(seen.identity.ref, undefined).catch((error: unknown) => {
      // The next list finds it out.
      this.#input.logger.debug({ error: messageOf(error) }, `pod ${seen.identity.ref.name} could not be looked at`)
    })
  }

  #confirm(object: KubeObject): SeenPod | undefined {
    if (object.metadata.uid !== undefined) this.#unconfirmed.delete(object.metadata.uid)
    return this.#take(object)
  }

  #take(object: KubeObject): SeenPod | undefined {
    const identity = isPod(object) ? identityOf(this.#input.names, object) : undefined
    if (!identity || !isPod(object)) return undefined
    const podUid = object.metadata?.uid ?? ''
    const before = this.find(identity.ref)
    if (before && before.podUid !== podUid) this.#forget(before)
    return this.#see(identity, object, podUid)
  }

  #see(identity: Identity, pod: Pod, podUid: string): SeenPod {
    const key = keyOf(identity.ref)
    const before = this.#pods.get(key)
    const instance = instanceOf(pod, identity, { address: this.addressOf(pod) })
    const seen: SeenPod = { identity, pod, instance, podUid }
    this.#pods.set(key, seen)
    const isNew = before === undefined || before.pod.spec?.nodeName !== pod.spec?.nodeName
    if (isNew || JSON.stringify(before.instance) !== JSON.stringify(instance)) this.#input.onChange(seen, before)
    return seen
  }

  #remove(object: KubeObject): void {
    const identity = isPod(object) ? identityOf(this.#input.names, object) : undefined
    const known = identity && this.find(identity.ref)
    if (known && known.podUid === object.metadata.uid) this.#forget(known)
  }

  #forget(seen: SeenPod): void {
    this.#pods.delete(keyOf(seen.identity.ref))
    this.#unconfirmed.delete(seen.podUid)
    this.#input.onGone(seen)
    this.wake(seen)
  }
}
