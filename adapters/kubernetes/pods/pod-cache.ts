/** A cache of the fleet's pods, kept current by watches. While a watch is interrupted, it falls back to listing. */
import { isDeepStrictEqual } from 'node:util'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiContext, KubernetesApi } from '../client/api.js'
import { type KubeObject, pathOf, pods as podType, refOf, revisionOf } from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import { isReady, type Node, nodeAddress, NodeCache } from '../nodes/node-cache.js'
import type { TakenPort } from '../nodes/node-ports.js'
import {
  type Identity,
  identityOf,
  missingLabelsOf,
  type Names,
  type Pod,
  podIn,
  type PodSnapshot,
  publicPortsOf,
  withInstanceNumber,
} from './pod-objects.js'
import { instanceOf, type StartProblems } from './pod-status.js'

interface PodCacheDependencies extends ApiContext {
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
  /** See `NodeCache`. */
  readonly onNodeReport?: ((name: string, node: Node | undefined) => void) | undefined
}

export class PodCache {
  readonly #deps: PodCacheDependencies
  readonly #snapshots = new Map<string, PodSnapshot>()
  readonly #nodes: NodeCache
  readonly #labelRepair: LabelRepair
  /** Wakes callers of `untilGone`, by pod uid. */
  readonly #wakeUps = new Map<string, Set<() => void>>()
  readonly #stops: (() => void)[] = []
  #followed: readonly FollowedPods[] = []
  /** Number of calls to `invalidate`. */
  #generation = 0
  /** The query that `refresh` began last. */
  #refreshing = Promise.resolve()

  constructor(deps: PodCacheDependencies) {
    this.#deps = deps
    const { api, clock, logger, onNodeReport: onReport } = deps
    const onChange = (name: string, node: Node | undefined) => this.#nodeChanged(name, node)
    this.#nodes = new NodeCache({ api, clock, logger, onChange, onReport })
    this.#labelRepair = new LabelRepair(deps, this)
  }

  /** Resolves once everything is listed. Rejects with the API server's error; `start` can then be called again. */
  async start(): Promise<void> {
    const { namespaces = [undefined] } = this.#deps
    const sink = this.#sink()
    this.#followed = namespaces.map((namespace) => new FollowedPods(this.#deps, namespace, sink, this.#generation))
    // Listed here so that errors reach the caller: a watch would only retry.
    await this.#nodes.list()
    for (const followed of this.#followed) await followed.list(undefined)
    for (const followed of this.#followed) this.#stops.push(followed.follow())
    this.#stops.push(this.#nodes.follow())
  }

  stop(): void {
    this.#labelRepair.stop()
    for (const stop of this.#stops.splice(0)) stop()
    for (const uid of [...this.#wakeUps.keys()]) this.#wake(uid)
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
    const isGone = () => this.find(identity.ref)?.podUid !== podUid
    if (isGone()) return Promise.resolve(true)
    return new Promise((resolve) => {
      const wakeUps = this.#wakeUps.get(podUid) ?? new Set()
      this.#wakeUps.set(podUid, wakeUps)
      const wakeUp = () => {
        cancel()
        wakeUps.delete(wakeUp)
        if (wakeUps.size === 0) this.#wakeUps.delete(podUid)
        resolve(isGone())
      }
      const cancel = this.#deps.clock.after(ms, wakeUp)
      wakeUps.add(wakeUp)
    })
  }

  /** Makes callers of `untilGone` check again. */
  wake({ podUid }: PodSnapshot): void {
    this.#wake(podUid)
  }

  /** Call when the pod's start problems have changed. */
  reevaluate(ref: Ref): void {
    const snapshot = this.find(ref)
    if (snapshot) this.#store(snapshot)
  }

  snapshots(): Iterable<PodSnapshot> {
    return this.#snapshots.values()
  }

  *takenPorts(): Generator<TakenPort> {
    for (const { identity, pod } of this.#snapshots.values()) {
      for (const port of identity.ports) yield { port: port.public, node: pod.spec?.nodeName }
    }
  }

  /** Whether another pod of the fleet, on any node, has one of this pod's public ports. */
  sharesPort({ podUid, identity }: PodSnapshot): boolean {
    const own = new Set(publicPortsOf(identity))
    for (const other of this.#snapshots.values()) {
      if (other.podUid !== podUid && other.identity.ports.some((port) => own.has(port.public))) return true
    }
    return false
  }

  nodes(): Iterable<Node> {
    return this.#nodes.all()
  }

  node(name: string): Node | undefined {
    return this.#nodes.get(name)
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

  #wake(podUid: string): void {
    for (const wakeUp of [...(this.#wakeUps.get(podUid) ?? [])]) wakeUp()
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

interface AnyPodsInput {
  readonly api: KubernetesApi
  readonly names: Names
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/**
 * Asks the API server whether the fleet has any pods. Bypasses the rate and connection limits, since leader election must not wait for
 * other calls.
 */
export async function hasAnyPods({ api, names, namespaces, timeoutMs, signal }: AnyPodsInput): Promise<boolean> {
  const query = { labelSelector: names.server, limit: 1 }
  for (const namespace of namespaces ?? [undefined]) {
    const path = pathOf(podType, { namespace })
    const call = { what: 'list pods', method: 'GET', path, query, unlimited: true, timeoutMs, signal } as const
    if ((await api.list(call)).items.length > 0) return true
  }
  return false
}

/** Receives the listed pods and the changes that the watch reports. */
interface PodSink {
  /** The complete list of pods in the scope at this revision. */
  replaceAll(scope: FollowedPods, objects: readonly KubeObject[], revision: number): void
  changed(object: KubeObject): void
  deleted(object: KubeObject): void
  /**
   * The cluster's revisions went back (restored from a backup), so the revisions of cached pods in this scope cannot be
   * compared with new ones.
   */
  resetRevisions(scope: FollowedPods): void
}

const notListed = new Error('not listed yet')

/** Follows the fleet's pods in one namespace or in all, and tracks the revision up to which the pod cache is complete. */
class FollowedPods {
  readonly #deps: PodCacheDependencies
  readonly #namespace: string | undefined
  readonly #sink: PodSink
  readonly #what: string
  readonly #path: string
  /** Why the watch is interrupted; undefined while it is open. */
  #interruption: unknown = notListed
  /** The cache's generation at the time of the last list. */
  #generation: number
  /** The cache is complete up to this revision: a pod that is missing from it and has no newer revision is deleted. */
  #knownRevision = 0
  /** The latest revision that the watch reported. It only increases, unless the cluster was restored from a backup. */
  #watchedRevision = 0

  /** `namespace`: undefined means all namespaces. */
  constructor(deps: PodCacheDependencies, namespace: string | undefined, sink: PodSink, generation: number) {
    this.#deps = deps
    this.#namespace = namespace
    this.#sink = sink
    this.#generation = generation
    this.#what = namespace === undefined ? 'pods' : `pods in ${namespace}`
    this.#path = pathOf(podType, { namespace })
  }

  get knownRevision(): number {
    return this.#knownRevision
  }

  /** Whether the watch is open. */
  get isCurrent(): boolean {
    return this.#interruption === undefined
  }

  contains({ namespace }: Ref): boolean {
    return this.#namespace === undefined || this.#namespace === namespace
  }

  /** Lists the pods, unless the watch is open and the last list belongs to this generation. */
  async refresh(generation: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.isCurrent && this.#generation >= generation) return
    await this.list(signal)
    this.#generation = Math.max(this.#generation, generation)
  }

  async list(signal: AbortSignal | undefined): Promise<void> {
    const call = { what: `list ${this.#what}`, method: 'GET', path: this.#path, query: this.#query } as const
    const { items, revision } = await this.#deps.api.list({ ...call, signal })
    this.#takeList(items, Number(revision))
  }

  /** Watches the pods until the returned function is called. */
  follow(): () => void {
    const sink = this.#sink
    return watchCollection(
      { ...this.#deps, what: this.#what, path: this.#path, query: this.#query },
      {
        listed: (objects, revision) => this.#takeWatchedList(objects, Number(revision)),
        changed: (object) => {
          sink.changed(object)
          this.#advance(object)
        },
        deleted: (object) => {
          sink.deleted(object)
          this.#advance(object)
        },
        broken: (error) => (this.#interruption = error ?? notListed),
        followed: () => (this.#interruption = undefined),
      },
    )
  }

  get #query() {
    return { labelSelector: this.#deps.names.server }
  }

  #advance(object: KubeObject): void {
    const revision = Number(revisionOf(object))
    this.#watchedRevision = revision
    this.#knownRevision = Math.max(this.#knownRevision, revision)
  }

  #takeWatchedList(objects: readonly KubeObject[], revision: number): void {
    if (revision < this.#watchedRevision) {
      this.#knownRevision = 0
      this.#sink.resetRevisions(this)
    }
    this.#takeList(objects, revision)
    this.#watchedRevision = revision
  }

  #takeList(objects: readonly KubeObject[], revision: number): void {
    this.#sink.replaceAll(this, objects, revision)
    this.#knownRevision = Math.max(this.#knownRevision, revision)
  }
}

const retryLimits = { initialMs: 500, maxMs: 30_000 }

/**
 * Restores the fleet's labels and annotations on pods if someone changed them. When a pod's labels no longer match the
 * selector, the watch reports the pod as deleted, so its actual state is read from the API server.
 */
class LabelRepair {
  readonly #deps: PodCacheDependencies
  readonly #pods: PodCache
  readonly #aborter = new AbortController()
  /** Uids of the pods being checked. */
  readonly #checking = new Set<string>()
  /** Number of repairs by pod uid. A pod gets an entry when its warning is logged. */
  readonly #repairs = new Map<string, number>()

  constructor(deps: PodCacheDependencies, pods: PodCache) {
    this.#deps = deps
    this.#pods = pods
  }

  /** Checks the pod in the background. Its cached snapshot is kept until the pod is repaired or known to be deleted. */
  check(snapshot: PodSnapshot): void {
    const { podUid } = snapshot
    if (this.#checking.has(podUid) || this.#aborter.signal.aborted) return
    this.#checking.add(podUid)
    void this.#run(snapshot).finally(() => {
      this.#checking.delete(podUid)
      if (this.#pods.find(snapshot.identity.ref)?.podUid !== podUid) this.forget(snapshot)
    })
  }

  forget({ podUid }: PodSnapshot): void {
    this.#repairs.delete(podUid)
  }

  stop(): void {
    this.#aborter.abort()
  }

  /** Never rejects. */
  async #run(snapshot: PodSnapshot): Promise<void> {
    const { api, logger } = this.#deps
    const { signal } = this.#aborter
    for (let failures = 0; !signal.aborted && !api.closed;) {
      try {
        if (await this.#checkOnce(snapshot)) return
        failures = 0
      } catch (error) {
        if (signal.aborted) return
        failures++
        // Expected on hosts that are not the leader: only the leader may patch pods.
        logger.debug({ err: error, pod: keyOf(snapshot.identity.ref) }, 'pod labels not repaired yet; will retry')
        await api.pause(pauseMs(failures, retryLimits), signal)
      }
    }
  }

  /** Returns false if the pod was repaired and must be checked again. */
  async #checkOnce({ identity, podUid }: PodSnapshot): Promise<boolean> {
    const { api, logger, names } = this.#deps
    const { signal } = this.#aborter
    const { ref } = identity
    const current = await this.#pods.fetch(ref, signal)
    if (current?.podUid !== podUid) return true
    const missing = missingLabelsOf(names, identity, current.pod)
    // The labels are intact, so the watch has reported the pod or will do so.
    if (!missing) return true
    const repairs = this.#repairs.get(podUid) ?? 0
    if (!this.#repairs.has(podUid)) {
      this.#repairs.set(podUid, 0)
      logger.warn({ pod: keyOf(ref), keys: missing.keys }, 'pod labels or annotations were changed; restoring them')
    }
    // Back off if something keeps changing the labels.
    await api.pause(pauseMs(repairs, retryLimits), signal)
    const { labels, annotations } = missing
    const repaired = await api.object({
      what: `restore the labels of pod ${ref.name}`,
      method: 'PATCH',
      path: pathOf(podType, ref),
      body: { metadata: { uid: podUid, labels, annotations } },
      signal,
    })
    this.#repairs.set(podUid, repairs + 1)
    this.#pods.add(repaired)
    return false
  }
}
