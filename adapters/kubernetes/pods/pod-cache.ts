/**
 * The pods of one fleet, as the cluster has told of them: followed by watches, so that nobody has to ask. Knows
 * itself whether what it knows can be relied on now.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { DeletionWaiters } from './deletion-waiters.js'
import { NodeCache } from '../nodes/node-cache.js'
import { type KubeObject, pathOf, pods as podType, revisionOf } from '../client/kube-objects.js'
import { type Identity, identityOf, missingLabelsOf, type Names } from './labels.js'
import { LabelRepair } from './label-repair.js'
import type { HeldPort } from '../nodes/node-ports.js'
import { addressOf, answers } from '../nodes/nodes.js'
import { type Node, type Pod, podIn } from './pod-objects.js'
import { type HoldUp, instanceOf } from './pod-status.js'
import type { PodSnapshot } from './pod-snapshot.js'
import { watchCollection } from '../client/watch.js'

export interface PodCacheDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly names: Names
  /** Undefined: all there are. */
  readonly namespaces: readonly string[] | undefined
  /** Where players connect, when no node is to be asked. */
  readonly publicAddress: string | undefined
  /** What this host itself knows to hold up the pod of that uid. */
  readonly holdUpOf?: (podUid: string) => HoldUp
  /** New, or something about its instance or its node has changed. */
  readonly onChange: (seen: PodSnapshot, before: PodSnapshot | undefined) => void
  readonly onGone: (seen: PodSnapshot) => void
}

type Identify = (object: KubeObject) => Identity | undefined

/** One collection of the API server that is followed. */
interface Followed {
  readonly what: string
  readonly path: string
  readonly namespace: string | undefined
  /** Why nothing is heard of it; undefined while it is. */
  silence: unknown
  /** How often all was doubted before it was listed last. */
  doubts: number
  /** As of which all that was there has been told, by whichever list or watch: what is older and not known is gone. */
  known: number
  /** The same of the watch alone: that goes forward, unless the cluster itself was put back. */
  heard: number
}

const unheard = new Error('it was not listed yet')

export class PodCache {
  readonly #input: PodCacheDependencies
  readonly #pods = new Map<string, PodSnapshot>()
  readonly #nodes: NodeCache
  readonly #lostMarks: LabelRepair
  #followed: readonly Followed[] = []
  #doubts = 0
  readonly #stops: (() => void)[] = []
  /** For pods to be gone, by the pod's own uid. */
  readonly #waiters: DeletionWaiters

  constructor(input: PodCacheDependencies) {
    this.#input = input
    const { api, clock, logger, names } = input
    this.#waiters = new DeletionWaiters(clock)
    this.#nodes = new NodeCache({ api, clock, logger, onChange: (node) => this.#lookAgainAt(node) })
    this.#lostMarks = new LabelRepair({ api, logger, names, pods: this })
  }

  /** Resolves when all is listed. Rejects with the API server's refusal; then it can be started again. */
  async start(): Promise<void> {
    const { names, namespaces = [undefined] } = this.#input
    const query = { labelSelector: names.server }
    this.#followed = namespaces.map((namespace) => ({
      what: namespace === undefined ? 'pods' : `pods in ${namespace}`,
      path: pathOf(podType, { namespace }),
      namespace,
      silence: unheard,
      doubts: this.#doubts,
      known: 0,
      heard: 0,
    }))
    // Told here and at once, while the watches would go on trying in silence.
    await this.#nodes.list()
    for (const followed of this.#followed) await this.#listNow(followed, undefined)
    for (const followed of this.#followed) this.#follow(followed, query)
    this.#stops.push(this.#nodes.follow())
  }

  stop(): void {
    this.#lostMarks.stop()
    for (const stop of this.#stops.splice(0)) stop()
    this.#waiters.wakeAll()
  }

  find(ref: Ref): PodSnapshot | undefined {
    return this.#pods.get(keyOf(ref))
  }

  /** The next list asks the API server for all: a watch that is dead may seem to be quiet for a while. */
  doubt(): void {
    this.#doubts++
  }

  /** All, as they are now. Asks the API server only for what is doubted, or was not told lately of its own accord. */
  async list(signal: AbortSignal | undefined): Promise<readonly PodSnapshot[]> {
    const doubts = this.#doubts
    for (const followed of this.#followed) {
      if (followed.silence === undefined && followed.doubts >= doubts) continue
      await this.#listNow(followed, signal)
      followed.doubts = Math.max(followed.doubts, doubts)
    }
    return [...this.#pods.values()]
  }

  /** True while all that was listed is also followed. */
  get isHeardOf(): boolean {
    return this.#followed.every(({ silence }) => silence === undefined)
  }

  /** Of the API server itself. `identify` tells which server it is of, should its marks be lost. */
  async ask(ref: Ref, signal: AbortSignal | undefined, identify?: Identify): Promise<PodSnapshot | undefined> {
    const path = pathOf(podType, ref)
    const before = this.find(ref)
    try {
      const answer = await this.#input.api.object({ what: `show pod ${ref.name}`, method: 'GET', path, signal })
      return this.#take(answer, identify?.(answer))
    } catch (error) {
      if (statusOf(error) !== 404) throw error
      const known = this.find(ref)
      // Another one may have been made since it was asked for.
      if (known?.podUid === before?.podUid && known) this.#forget(known)
      return this.find(ref)
    }
  }

  /** What a creation was answered. Undefined when it has gone again already. */
  learn(object: KubeObject): PodSnapshot | undefined {
    const seen = this.#take(object)
    return seen?.podUid === object.metadata.uid ? seen : undefined
  }

  /** True once it is gone; false when `ms` have passed before. */
  untilGone({ podUid, identity }: PodSnapshot, ms: number): Promise<boolean> {
    return this.#waiters.until(podUid, () => this.find(identity.ref)?.podUid !== podUid, ms)
  }

  /** Those who wait look again. */
  wake({ podUid }: PodSnapshot): void {
    this.#waiters.wake(podUid)
  }

  /** What holds it up has changed. */
  lookAgain(ref: Ref): void {
    const seen = this.find(ref)
    if (seen) this.#see(seen)
  }

  *heldPorts(): Generator<HeldPort> {
    for (const { identity, pod } of this.#pods.values()) {
      for (const port of identity.ports) yield { port: port.public, node: pod.spec?.nodeName }
    }
  }

  /** Another pod that is known here has one of its numbers, on whichever node. */
  sharesPort({ podUid, identity }: PodSnapshot): boolean {
    const own = new Set(identity.ports.map((port) => port.public))
    for (const other of this.#pods.values()) {
      if (other.podUid !== podUid && other.identity.ports.some((port) => own.has(port.public))) return true
    }
    return false
  }

  nodes(): Iterable<Node> {
    return this.#nodes.all()
  }

  /** Undefined when nobody has said it yet. */
  addressOf({ spec, status }: Pod): string | undefined {
    if (spec?.nodeName === undefined) return undefined
    const node = this.#nodes.get(spec.nodeName)
    return this.#input.publicAddress ?? (node && addressOf(node)) ?? status?.hostIP
  }

  /** False when its node is gone or says nothing any more: nobody ends its pods then. */
  isHeard({ pod }: PodSnapshot): boolean {
    const name = pod.spec?.nodeName
    if (name === undefined) return true
    const node = this.#nodes.get(name)
    return node !== undefined && answers(node)
  }

  async #listNow(followed: Followed, signal: AbortSignal | undefined): Promise<void> {
    const { api, names } = this.#input
    const { what, path } = followed
    const query = { labelSelector: names.server }
    const { items, revision } = await api.list({ what: `list ${what}`, method: 'GET', path, query, signal })
    this.#takeList(followed, items, Number(revision))
  }

  #follow(followed: Followed, query: Readonly<Record<string, string>>): void {
    const { api, clock, logger } = this.#input
    const { what, path } = followed
    const hear = (object: KubeObject) => {
      const revision = Number(revisionOf(object))
      followed.heard = revision
      followed.known = Math.max(followed.known, revision)
    }
    const stop = watchCollection(
      { api, clock, logger, what, path, query },
      {
        listed: (objects, revision) => this.#takeWatched(followed, objects, Number(revision)),
        changed: (object) => {
          this.#take(object)
          hear(object)
        },
        deleted: (object) => {
          this.#remove(object)
          hear(object)
        },
        broken: (error) => (followed.silence = error ?? unheard),
        followed: () => (followed.silence = undefined),
      },
    )
    this.#stops.push(stop)
  }

  #lookAgainAt(node: string): void {
    for (const seen of this.#pods.values()) {
      if (seen.pod.spec?.nodeName !== node) continue
      this.#see(seen)
      if (!this.isHeard(seen)) this.wake(seen)
    }
  }

  /** What the watch itself has listed. */
  #takeWatched(followed: Followed, objects: readonly KubeObject[], revision: number): void {
    // It has heard of later ones: the cluster was put back to an earlier state, and what was known is no measure of it.
    if (revision < followed.heard) {
      followed.known = 0
      for (const [key, seen] of this.#pods) {
        if (isOf(followed, seen.identity.ref)) this.#pods.set(key, { ...seen, revision: 0 })
      }
    }
    this.#takeList(followed, objects, revision)
    followed.heard = revision
  }

  /** It may have been long under way: what is known of later moments stays as it is. */
  #takeList(followed: Followed, objects: readonly KubeObject[], revision: number): void {
    const listed = new Set(objects.map(({ metadata }) => metadata.uid))
    for (const seen of [...this.#pods.values()]) {
      if (!isOf(followed, seen.identity.ref)) continue
      if (!listed.has(seen.podUid) && seen.revision <= revision) this.#miss(seen, seen.pod)
    }
    for (const object of objects) this.#take(object)
    followed.known = Math.max(followed.known, revision)
  }

  /** Returns what is known of a pod of that name then. */
  #take(object: KubeObject, claimed?: Identity): PodSnapshot | undefined {
    const pod = podIn(object)
    const podUid = object.metadata.uid ?? ''
    // Which server a pod is of never changes, whatever becomes of its labels.
    const identity = this.#same(object)?.identity ?? claimed ?? (pod && identityOf(this.#input.names, pod))
    if (!pod || !identity) return undefined
    const before = this.find(identity.ref)
    const revision = Number(revisionOf(object))
    if (before && revision <= before.revision) return before
    if (before?.podUid !== podUid) {
      // No list and no watch tells of one that has lost its marks.
      const isHidden = !before && claimed && missingLabelsOf(this.#input.names, claimed, pod)
      if (!isHidden && revision <= this.#knownOf(identity.ref)) return before
      if (before) this.#forget(before)
    }
    const seen = this.#see({ identity, pod, podUid, revision })
    if (missingLabelsOf(this.#input.names, identity, pod)) this.#lostMarks.look(seen)
    return seen
  }

  /** Takes in what has become of it. */
  #see({ identity, pod, podUid, revision }: Omit<PodSnapshot, 'instance'>): PodSnapshot {
    const key = keyOf(identity.ref)
    const before = this.#pods.get(key)
    const facts = { address: this.addressOf(pod), ...this.#input.holdUpOf?.(podUid) }
    const instance = instanceOf(pod, identity, facts)
    const isSame = before !== undefined && isDeepStrictEqual(before.instance, instance)
    const seen: PodSnapshot = { identity, pod, instance: isSame ? before.instance : instance, podUid, revision }
    this.#pods.set(key, seen)
    if (!isSame || before.pod.spec?.nodeName !== pod.spec?.nodeName) this.#input.onChange(seen, before)
    return seen
  }

  #knownOf(ref: Ref): number {
    return this.#followed.find((followed) => isOf(followed, ref))?.known ?? 0
  }

  /** What is known of this very pod. */
  #same({ metadata: { name, namespace = '', uid } }: KubeObject): PodSnapshot | undefined {
    const known = this.find({ namespace, name })
    return known?.podUid === uid ? known : undefined
  }

  #remove(object: KubeObject): void {
    const pod = podIn(object)
    const known = this.#same(object)
    if (known && pod) this.#miss(known, pod)
  }

  /** Not among those that the fleet's label selects any more. `last`: as it was when it still was. */
  #miss(seen: PodSnapshot, last: Pod): void {
    const wasEnding = last.metadata?.deletionTimestamp !== undefined
    if (wasEnding || instanceOf(last, seen.identity, { address: undefined }).phase === 'exited') this.#forget(seen)
    else this.#lostMarks.look(seen)
  }

  #forget(seen: PodSnapshot): void {
    this.#pods.delete(keyOf(seen.identity.ref))
    this.#lostMarks.forget(seen)
    this.#input.onGone(seen)
    this.wake(seen)
  }
}

function isOf({ namespace }: Followed, ref: Ref): boolean {
  return namespace === undefined || namespace === ref.namespace
}
