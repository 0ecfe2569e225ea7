/** A cache of the fleet's pods, kept current by watches. While a watch is interrupted, it falls back to listing. */
import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { statusOf } from '../client/api-errors.js'
import type { KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType, refOf, revisionOf } from '../client/kube-objects.js'
import { NodeCache } from '../nodes/node-cache.js'
import type { Node } from '../nodes/node-objects.js'
import type { HeldPort } from '../nodes/node-ports.js'
import { isReady, nodeAddress } from '../nodes/node-status.js'
import { DeletionWaiters } from './deletion-waiters.js'
import { FollowedPods, type PodSink } from './followed-pods.js'
import { LabelRepair } from './label-repair.js'
import { type Identity, identityOf, missingLabelsOf, type Names, withInstanceNumber } from './labels.js'
import type { StartProblems } from './pending-reason.js'
import { type Pod, podIn } from './pod-objects.js'
import type { PodSnapshot } from './pod-snapshot.js'
import { instanceOf } from './pod-status.js'

export interface PodCacheDependencies {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  readonly names: Names
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  /** The address that players connect to on all nodes; undefined to use the node's own address. */
  readonly publicAddress: string | undefined
  /** Returns the start problems of the pod with this uid. */
  readonly startProblemsOf?: (podUid: string) => StartProblems
  /** Called when a pod is new, or when its instance or node has changed. */
  readonly onChange: (snapshot: PodSnapshot, before: PodSnapshot | undefined) => void
  readonly onGone: (snapshot: PodSnapshot) => void
  /** Called when a node's address, readiness or cordon has changed, or with undefined when it was deleted. */
  readonly onNodeChange?: (name: string, node: Node | undefined) => void
}

export class PodCache {
  readonly #deps: PodCacheDependencies
  readonly #snapshots = new Map<string, PodSnapshot>()
  readonly #nodes: NodeCache
  readonly #labelRepair: LabelRepair
  readonly #deletions: DeletionWaiters
  readonly #stops: (() => void)[] = []
  #followed: readonly FollowedPods[] = []
  /** Number of calls to `invalidate`. */
  #generation = 0
  /** The query that `refresh` began last. */
  #refreshing = Promise.resolve()

  constructor(deps: PodCacheDependencies) {
    this.#deps = deps
    const { api, clock, logger, names } = deps
    this.#deletions = new DeletionWaiters(clock)
    this.#nodes = new NodeCache({ api, clock, logger, onChange: (name, node) => this.#nodeChanged(name, node) })
    this.#labelRepair = new LabelRepair({ api, logger, names, pods: this })
  }

  /** Resolves once everything is listed. Rejects with the API server's error; `start` can then be called again. */
  async start(): Promise<void> {
    const { api, clock, logger, names, namespaces = [undefined] } = this.#deps
    const deps = { api, clock, logger, labelSelector: names.server, sink: this.#sink() }
    this.#followed = namespaces.map((namespace) => new FollowedPods({ ...deps, namespace }, this.#generation))
    // Listed here so that errors reach the caller: a watch would only retry.
    await this.#nodes.list()
    for (const followed of this.#followed) await followed.list(undefined)
    for (const followed of this.#followed) this.#stops.push(followed.follow())
    this.#stops.push(this.#nodes.follow())
  }

  stop(): void {
    this.#labelRepair.stop()
    for (const stop of this.#stops.splice(0)) stop()
    this.#deletions.wakeAll()
  }

  find(ref: Ref): PodSnapshot | undefined {
    return this.#snapshots.get(keyOf(ref))
  }

  /** Makes the next `list` query the API server, because a watch may be dead without having ended. */
  invalidate(): void {
    this.#generation++
  }

  /** Invalidates the cache, and queries the API server at once, so that the next `list` waits less. */
  refresh(): void {
    this.invalidate()
    this.#refreshing = this.list(undefined).then(
      () => {},
      () => {}, // The next `list` tries again, and reports the error.
    )
  }

  /** Returns all current pods. Queries the API server only if the cache was invalidated or a watch is interrupted. */
  async list(signal: AbortSignal | undefined): Promise<readonly PodSnapshot[]> {
    await unlessAborted(this.#refreshing, signal)
    const generation = this.#generation
    for (const followed of this.#followed) await followed.refresh(generation, signal)
    return [...this.#snapshots.values()]
  }

  /** Whether every watch is open. */
  get isCurrent(): boolean {
    return this.#followed.every(({ isCurrent }) => isCurrent)
  }

  /** Reads one pod from the API server. `identify` recovers its identity if its labels were lost. */
  async fetch(
    ref: Ref,
    signal: AbortSignal | undefined,
    identify?: (object: KubeObject) => Identity | undefined,
  ): Promise<PodSnapshot | undefined> {
    const path = pathOf(podType, ref)
    const before = this.find(ref)
    try {
      const object = await this.#deps.api.object({ what: `get pod ${ref.name}`, method: 'GET', path, signal })
      return this.#apply(object, identify?.(object))
    } catch (error) {
      if (statusOf(error) !== 404) throw error
      const cached = this.find(ref)
      // Forget the cached pod, unless a new pod with that name was created in the meantime.
      if (cached && cached.podUid === before?.podUid) this.#forget(cached)
      return this.find(ref)
    }
  }

  /** Adds the pod returned by a write. Returns undefined if that pod has been deleted since. */
  add(object: KubeObject): PodSnapshot | undefined {
    const snapshot = this.#apply(object)
    return snapshot?.podUid === object.metadata.uid ? snapshot : undefined
  }

  /** Resolves with true once the pod is deleted. Resolves with false after `ms`, or if woken while the pod still exists. */
  untilGone({ podUid, identity }: PodSnapshot, ms: number): Promise<boolean> {
    return this.#deletions.until(podUid, () => this.find(identity.ref)?.podUid !== podUid, ms)
  }

  /** Makes callers of `untilGone` check again. */
  wake({ podUid }: PodSnapshot): void {
    this.#deletions.wake(podUid)
  }

  /** Call when the pod's start problems have changed. */
  reevaluate(ref: Ref): void {
    const snapshot = this.find(ref)
    if (snapshot) this.#store(snapshot)
  }

  snapshots(): Iterable<PodSnapshot> {
    return this.#snapshots.values()
  }

  *heldPorts(): Generator<HeldPort> {
    for (const { identity, pod } of this.#snapshots.values()) {
      for (const port of identity.ports) yield { port: port.public, node: pod.spec?.nodeName }
    }
  }

  /** Whether another pod of the fleet, on any node, has one of this pod's public ports. */
  sharesPort({ podUid, identity }: PodSnapshot): boolean {
    const own = new Set(identity.ports.map((port) => port.public))
    for (const other of this.#snapshots.values()) {
      if (other.podUid !== podUid && other.identity.ports.some((port) => own.has(port.public))) return true
    }
    return false
  }

  nodes(): Iterable<Node> {
    return this.#nodes.all()
  }

  /** The address that players connect to, or undefined if it is not known yet. */
  addressOf(pod: Pod): string | undefined {
    if (pod.spec?.nodeName === undefined) return undefined
    const node = this.nodeOf(pod)
    return this.#deps.publicAddress ?? (node && nodeAddress(node)) ?? pod.status?.hostIP
  }

  /** The node that the pod is scheduled to, or undefined if it is not known. */
  nodeOf({ spec }: Pod): Node | undefined {
    return spec?.nodeName === undefined ? undefined : this.#nodes.get(spec.nodeName)
  }

  /** Returns false if the pod's node is deleted or not ready: then no kubelet can stop the pod. */
  isNodeReady({ pod }: PodSnapshot): boolean {
    if (pod.spec?.nodeName === undefined) return true
    const node = this.nodeOf(pod)
    return node !== undefined && isReady(node)
  }

  #sink(): PodSink {
    return {
      replaceAll: (scope, objects, revision) => this.#replaceAll(scope, objects, revision),
      changed: (object) => void this.#apply(object),
      deleted: (object) => {
        const pod = podIn(object)
        const cached = this.#sameAs(object)
        if (cached && pod) this.#unlisted(cached, pod)
      },
      resetRevisions: (scope) => {
        for (const [key, snapshot] of this.#snapshots) {
          if (scope.contains(snapshot.identity.ref)) this.#snapshots.set(key, { ...snapshot, revision: 0 })
        }
      },
    }
  }

  #nodeChanged(name: string, node: Node | undefined): void {
    this.#deps.onNodeChange?.(name, node)
    for (const snapshot of this.#snapshots.values()) {
      if (snapshot.pod.spec?.nodeName !== name) continue
      this.#store(snapshot)
      if (!this.isNodeReady(snapshot)) this.wake(snapshot)
    }
  }

  /** The list may be older than the cache, so newer snapshots are kept. */
  #replaceAll(scope: FollowedPods, objects: readonly KubeObject[], revision: number): void {
    const listed = new Set(objects.map(({ metadata }) => metadata.uid))
    for (const snapshot of [...this.#snapshots.values()]) {
      if (!scope.contains(snapshot.identity.ref)) continue
      if (!listed.has(snapshot.podUid) && snapshot.revision <= revision) this.#unlisted(snapshot, snapshot.pod)
    }
    for (const object of objects) this.#apply(object)
  }

  /** Returns the cached pod with that name, which may be newer than the object. */
  #apply(object: KubeObject, recovered?: Identity): PodSnapshot | undefined {
    const { names } = this.#deps
    const pod = podIn(object)
    const podUid = object.metadata.uid ?? ''
    // A pod keeps its identity even if its labels change.
    const known = this.#sameAs(object)?.identity ?? recovered ?? (pod && identityOf(names, pod))
    if (!pod || !known) return undefined
    const identity = withInstanceNumber(names, known, pod)
    const before = this.find(identity.ref)
    const revision = Number(revisionOf(object))
    if (before && revision <= before.revision) return before
    if (before?.podUid !== podUid) {
      // A pod without its labels cannot have appeared in a list or watch, so it may be missing from the cache despite its old
      // revision.
      const isHidden = !before && recovered && missingLabelsOf(names, recovered, pod)
      if (!isHidden && revision <= this.#knownRevisionAt(identity.ref)) return before
      if (before) this.#forget(before)
    }
    const snapshot = this.#store({ identity, pod, podUid, revision })
    if (missingLabelsOf(names, identity, pod)) this.#labelRepair.check(snapshot)
    return snapshot
  }

  #store({ identity, pod, podUid, revision }: Omit<PodSnapshot, 'instance'>): PodSnapshot {
    const key = keyOf(identity.ref)
    const before = this.#snapshots.get(key)
    const context = { address: this.addressOf(pod), ...this.#deps.startProblemsOf?.(podUid) }
    const instance = instanceOf(pod, identity, context)
    const isSame = before !== undefined && isDeepStrictEqual(before.instance, instance)
    const snapshot: PodSnapshot = { identity, pod, instance: isSame ? before.instance : instance, podUid, revision }
    this.#snapshots.set(key, snapshot)
    if (!isSame || before.pod.spec?.nodeName !== pod.spec?.nodeName) this.#deps.onChange(snapshot, before)
    return snapshot
  }

  #knownRevisionAt(ref: Ref): number {
    return this.#followed.find((followed) => followed.contains(ref))?.knownRevision ?? 0
  }

  /** The cached snapshot of the same pod, not just of one with the same name. */
  #sameAs(object: KubeObject): PodSnapshot | undefined {
    const cached = this.find(refOf(object))
    return cached?.podUid === object.metadata.uid ? cached : undefined
  }

  /**
   * The fleet's label selector no longer matches the pod: it was deleted, or its labels were changed. `last` is its last
   * known state with labels.
   */
  #unlisted(snapshot: PodSnapshot, last: Pod): void {
    const wasDeleting = last.metadata?.deletionTimestamp !== undefined
    if (wasDeleting || instanceOf(last, snapshot.identity, { address: undefined }).phase === 'exited') {
      this.#forget(snapshot)
    } else {
      this.#labelRepair.check(snapshot)
    }
  }

  #forget(snapshot: PodSnapshot): void {
    this.#snapshots.delete(keyOf(snapshot.identity.ref))
    this.#labelRepair.forget(snapshot)
    this.#deps.onGone(snapshot)
    this.wake(snapshot)
  }
}
