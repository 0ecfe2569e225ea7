/**
 * Pulls the images of builds to the nodes on which their servers may run: when a build is new or has another template, when a node joins, and
 * when a node has lost an image. Each pull is a pod, which is deleted once the node has the images or has failed to pull them.
 *
 * Does nothing until a build is prepared, and stops when no build needs it any more: so only the leader pulls.
 */
import { isDeepStrictEqual } from 'node:util'
import type { InstanceSpec, PrepareOptions } from '../../../src/contracts/backend.js'
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { afterFailure, type Backoff, noBackoff, pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { statusOf } from '../client/api-errors.js'
import type { ApiContext } from '../client/api.js'
import {
  keyFor,
  type KubeObject,
  type OwnerReference,
  pathOf,
  pods as podType,
  refOf,
  revisionOf,
} from '../client/kube-objects.js'
import { watchCollection } from '../client/watch.js'
import { matchesNodeAffinity } from '../nodes/node-affinity.js'
import { acceptsPod, isReady, type Node } from '../nodes/node-cache.js'
import { canonicalImage, NodeImages } from '../nodes/node-images.js'
import type { Names } from '../pods/pod-objects.js'
import { imagePullPod, imagesOf, pullDeadlineMs, type PullResult, pullResultsOf } from './image-pull-pod.js'

export interface ImagePullsDependencies extends ApiContext {
  readonly names: Names
  /** Undefined means all namespaces. */
  readonly namespaces: readonly string[] | undefined
  readonly nodes: { nodes(): Iterable<Node>; node(name: string): Node | undefined }
  /** Resolves once the nodes have been listed. */
  readonly open: () => Promise<void>
  readonly ownerOf: (build: PreparedBuild) => OwnerReference | undefined
  /** Shows the message where people look for what is wrong with the build. */
  readonly warn: (build: Ref, message: string) => void
}

type Prepared = Pick<InstanceSpec, 'build' | 'template'>
type PreparedBuild = Prepared['build']

/** A build whose images the nodes are to have. */
interface BuildImages extends Prepared {
  /** By canonical name, which differs from the name in the template. */
  readonly images: ReadonlyMap<string, string>
  /** Nodes that its preparation waits for. */
  readonly awaited: Set<string>
  awaitedChanged: () => void
  /** Ends it. The last one that the build was prepared with. */
  signal: AbortSignal | undefined
  /** Set when its images are not needed any more. It is removed later, so that its successor knows of it. */
  isOver: boolean
  /** Elapsed ms. */
  warnedAt: number
}

interface NodeState {
  readonly uid: string | undefined
  readonly images: NodeImages
  /** By canonical name. Also after a loss, so that the fleet and a kubelet short of disk space do not work against each other. */
  readonly backoffs: Map<string, Backoff>
  node: Node
  pull: Pull | undefined
  cancelRetry: () => void
}

/** One pod. */
interface Pull {
  readonly ref: Ref
  readonly build: BuildImages
  /** Canonical names. */
  readonly images: readonly string[]
  /** Receives the results by the names in the template, or undefined if the pull is not needed any more. */
  readonly settle: (results: ReadonlyMap<string, PullResult> | undefined) => void
  /** Known once the pod has been created. */
  revision: number
}

/** Pods at a time in the whole cluster. A node has at most one. */
const maxPulls = 30
/** A new version waits this long for the nodes. Then its servers start, and those on other nodes wait for their images. */
const maxWaitMs = 5 * 60_000
const progressMs = 1_000
const warnMs = 60_000
/** Changes that arrive together are handled together. */
const settleMs = 100
/** How much longer than the kubelet this host waits for a pull. */
const overdueMs = 60_000
const backoffLimits = { initialMs: 30_000, maxMs: 30 * 60_000, resetMs: 60 * 60_000 }
const deleteLimits = { initialMs: 500, maxMs: 30_000 }

export class ImagePulls {
  readonly #deps: ImagePullsDependencies
  readonly #builds = new Map<string, BuildImages>()
  readonly #nodes = new Map<string, NodeState>()
  /** Nodes to look at, the first to be marked first. */
  readonly #marked = new Set<string>()
  /** By the key of the pod. */
  readonly #pulls = new Map<string, Pull>()
  /** Pulls, and deletions of pods that an earlier leader has left. */
  readonly #running = new Set<Promise<void>>()
  readonly #removing = new Set<string>()
  #stopWatches: (() => void) | undefined
  #cancelTimer: (() => void) | undefined
  #isClosed = false

  constructor(deps: ImagePullsDependencies) {
    this.#deps = deps
  }

  /**
   * Has the build's images pulled until the signal fires. Resolves at once, unless the host has had another template for the build: then it
   * resolves once each node has the images or has failed to pull them, but after five minutes at the latest.
   */
  async prepare(prepared: Prepared, { signal, onProgress }: PrepareOptions = {}): Promise<void> {
    const key = keyOf(prepared.build)
    const before = this.#builds.get(key)
    const isSame = before?.build.uid === prepared.build.uid && isDeepStrictEqual(before.template, prepared.template)
    if (before && !isSame) this.#end(before)
    const build = isSame ? before : newBuild(prepared)
    build.isOver = false
    build.signal = signal
    this.#builds.set(key, build)
    signal?.addEventListener('abort', () => build.signal === signal && this.#end(build), { once: true })
    await unlessAborted(this.#deps.open(), signal)
    if (this.#isClosed || build.isOver) return
    this.#watch()
    // Another template may correct what made pulls fail, such as the credentials.
    if (!isSame)
      for (const { backoffs } of this.#nodes.values()) for (const image of build.images.keys()) backoffs.delete(image)
    for (const name of this.#knownNodes()) this.#mark(name)
    if (before && !isSame && before.build.uid === build.build.uid)
      await unlessAborted(this.#untilPulled(build, onProgress), signal)
  }

  /** Call each time that a node is reported, or with undefined when it was deleted. */
  nodeReported(name: string, node: Node | undefined): void {
    if (this.#builds.size === 0) return
    const state = this.#nodes.get(name)
    if (state && node && isDeepStrictEqual(state.node, node)) return
    this.#mark(name)
  }

  /** Ends all pulls. Resolves once their pods have been deleted. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const build of this.#builds.values()) this.#end(build)
    this.#builds.clear()
    this.#stop()
    await Promise.all(this.#running)
  }

  #knownNodes(): readonly string[] {
    return [...this.#deps.nodes.nodes()].flatMap(({ metadata }) => metadata?.name ?? [])
  }

  #end(build: BuildImages): void {
    if (build.isOver) return
    build.isOver = true
    build.awaited.clear()
    build.awaitedChanged()
    for (const pull of this.#pulls.values()) if (pull.build === build) pull.settle(undefined)
    this.#schedule()
  }

  #mark(name: string): void {
    this.#marked.add(name)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#cancelTimer ??= this.#deps.clock.after(settleMs, () => {
      this.#cancelTimer = undefined
      this.#advance()
    })
  }

  #advance(): void {
    for (const [key, build] of this.#builds) if (build.isOver) this.#builds.delete(key)
    if (this.#builds.size === 0) return this.#stop()
    for (const name of this.#marked) {
      // The end of a pull continues.
      if (this.#pulls.size >= maxPulls) return
      this.#marked.delete(name)
      this.#look(name)
    }
  }

  #look(name: string): void {
    const state = this.#stateOf(name)
    if (state && !state.pull) this.#startPull(name, state)
    // What a cordoned node is pulling is not needed there.
    else if (state?.pull && !mayRun(state.node, state.pull.build)) state.pull.settle(undefined)
    this.#checkAwaited(name)
  }

  /** The state of the node, with what was last reported of it. Undefined if the node does not exist. */
  #stateOf(name: string): NodeState | undefined {
    const node = this.#deps.nodes.node(name)
    const known = this.#nodes.get(name)
    const uid = node?.metadata?.uid
    if (known && (!node || known.uid !== uid)) this.#forget(name, known)
    if (!node) return undefined
    const current = this.#nodes.get(name)
    const state = current ?? newNode(uid, node)
    this.#nodes.set(name, state)
    const isUnchanged = current !== undefined && isDeepStrictEqual(current.node.status?.images, node.status?.images)
    state.node = node
    if (isUnchanged || !node.status?.images) return state
    const now = this.#deps.clock.elapsed()
    for (const image of state.images.report(node.status.images)) {
      if (this.#isNeeded(image)) this.#backOff(state, image, now)
    }
    return state
  }

  #forget(name: string, state: NodeState): void {
    state.cancelRetry()
    state.pull?.settle(undefined)
    this.#nodes.delete(name)
  }

  #isNeeded(image: string): boolean {
    return [...this.#builds.values()].some(({ images }) => images.has(image))
  }

  #backOff({ backoffs }: NodeState, image: string, now: number): void {
    backoffs.set(image, afterFailure(backoffs.get(image) ?? noBackoff, now, backoffLimits))
  }

  /** Starts the first pull that is due, or else waits until one is. */
  #startPull(name: string, state: NodeState): void {
    state.cancelRetry()
    const now = this.#deps.clock.elapsed()
    let next = Infinity
    for (const build of this.#builds.values()) {
      const missing = missingFrom(state, build)
      if (missing.length === 0) continue
      const retryAt = (image: string) => state.backoffs.get(image)?.until ?? now
      const due = missing.filter((image) => retryAt(image) <= now)
      if (due.length > 0) return this.#track(this.#pull(name, state, build, due))
      next = Math.min(next, ...missing.map(retryAt))
    }
    if (next < Infinity) state.cancelRetry = this.#deps.clock.after(next - now, () => this.#mark(name))
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#running.delete(tracked))
    this.#running.add(tracked)
  }

  /** Never rejects. */
  async #pull(name: string, state: NodeState, build: BuildImages, images: readonly string[]): Promise<void> {
    const { api, clock, names, ownerOf } = this.#deps
    const { namespace, name: buildName } = build.build
    const nonce = Buffer.from(clock.randomBytes(5)).toString('hex')
    const ref = { namespace, name: `${buildName}-pull-${nonce}` }
    const wanted = images.map((image) => build.images.get(image) ?? image)
    let settle: Pull['settle'] = () => {}
    const settled = new Promise<ReadonlyMap<string, PullResult> | undefined>((resolve) => (settle = resolve))
    const pull: Pull = { ref, build, images, settle, revision: Infinity }
    const failed = (message: string) => new Map(wanted.map((image) => [image, { message, isRefused: false }]))
    state.pull = pull
    this.#pulls.set(keyOf(ref), pull)
    const overdue = clock.after(pullDeadlineMs + overdueMs, () => settle(failed('the kubelet does not answer')))
    try {
      const body = imagePullPod({
        ...{ ref, names, build: buildName, owner: ownerOf(build.build) },
        ...{ template: build.template, node: name, images: wanted },
      })
      const created = await api.object({
        what: `create pod ${ref.name}`,
        method: 'POST',
        path: pathOf(podType, { namespace }),
        body,
      })
      pull.revision = Number(revisionOf(created))
    } catch (error) {
      // The pod may exist all the same.
      settle(FleetError.is(error, 'not-leader') || api.closed ? undefined : failed(messageOf(error)))
    }
    const results = await settled
    overdue()
    if (results) this.#applyResults(name, state, pull, results)
    this.#checkAwaited(name)
    await this.#remove(ref)
    this.#pulls.delete(keyOf(ref))
    state.pull = undefined
    if (this.#nodes.get(name) === state) this.#mark(name)
    // Another node may have waited for this one's turn.
    else this.#schedule()
  }

  #applyResults(
    name: string,
    state: NodeState,
    { build, images }: Pull,
    results: ReadonlyMap<string, PullResult>,
  ): void {
    const now = this.#deps.clock.elapsed()
    for (const image of images) {
      const shownName = build.images.get(image) ?? image
      const result = results.get(shownName)
      if (result === 'pulled') {
        state.images.add(image)
        continue
      }
      this.#backOff(state, image, now)
      const { message, isRefused } = result ?? { message: 'its pod was deleted', isRefused: true }
      const log = { build: build.build.name, node: name, image: shownName, reason: message }
      // A cluster of many nodes reports the same failure many times.
      if (isRefused || now < build.warnedAt + warnMs) {
        this.#deps.logger.debug(log, 'image not pulled ahead; will retry')
        continue
      }
      build.warnedAt = now
      this.#deps.logger.warn(log, 'image not pulled ahead; will retry')
      this.#deps.warn(
        build.build,
        `image ${shownName} could not be pulled to node ${name} ahead of its servers: ${message}`,
      )
    }
  }

  /** Resolves once the pod has been deleted, or need not be by this host. Never rejects. */
  async #remove(ref: Ref): Promise<void> {
    const { api, logger } = this.#deps
    // Nothing of it runs, so there is no end to wait for. A kubelet may take most of a minute to report it.
    const body = { gracePeriodSeconds: 0 }
    for (let failures = 1; !api.closed; failures++) {
      try {
        await api.request({ what: `delete pod ${ref.name}`, method: 'DELETE', path: pathOf(podType, ref), body })
        return
      } catch (error) {
        // The next leader deletes it.
        if (statusOf(error) === 404 || FleetError.is(error, 'not-leader') || api.closed) return
        logger.debug({ err: error, pod: keyOf(ref) }, 'pod that pulled images not deleted yet; will retry')
        await api.pause(pauseMs(failures, deleteLimits))
      }
    }
  }

  #watch(): void {
    if (this.#stopWatches) return
    const { names, namespaces = [undefined] } = this.#deps
    const query = { labelSelector: names.imagePull }
    const stops = namespaces.map((namespace) =>
      watchCollection(
        { ...this.#deps, what: 'pods that pull images', path: pathOf(podType, { namespace }), query },
        {
          listed: (objects, revision) => this.#listed(objects, Number(revision), namespace),
          changed: (object) => this.#seen(object),
          deleted: (object) => this.#pulls.get(keyFor(object))?.settle(new Map()),
        },
      ),
    )
    this.#stopWatches = () => stops.forEach((stop) => stop())
  }

  #listed(objects: readonly KubeObject[], revision: number, namespace: string | undefined): void {
    for (const object of objects) this.#seen(object)
    const listed = new Set(objects.map(keyFor))
    for (const [key, pull] of this.#pulls) {
      const isCovered = namespace === undefined || pull.ref.namespace === namespace
      if (isCovered && !listed.has(key) && pull.revision <= revision) pull.settle(new Map())
    }
  }

  #seen(object: KubeObject): void {
    const key = keyFor(object)
    const pull = this.#pulls.get(key)
    if (pull) {
      const results = pullResultsOf(object)
      if (results) pull.settle(results)
    } else if (object.metadata.deletionTimestamp === undefined && !this.#removing.has(key)) {
      // Left by an earlier leader. If its images are still needed, they are pulled again, which goes on where the node is.
      this.#removing.add(key)
      this.#track(this.#remove(refOf(object)).finally(() => this.#removing.delete(key)))
    }
  }

  /** Forgets everything about nodes. Pulls that are ending go on to delete their pods. */
  #stop(): void {
    this.#stopWatches?.()
    this.#stopWatches = undefined
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#marked.clear()
    for (const [name, state] of this.#nodes) this.#forget(name, state)
  }

  /** Resolves when every node that lacks images of the build now has been served. */
  #untilPulled(build: BuildImages, onProgress: ((message: string) => void) | undefined): Promise<void> {
    const { clock } = this.#deps
    for (const name of this.#knownNodes()) {
      if (this.#isAwaited(this.#stateOf(name), build)) build.awaited.add(name)
    }
    const all = build.awaited.size
    if (all === 0) return Promise.resolve()
    return new Promise((resolve) => {
      const report = () => onProgress?.(`pulling images ahead: ${all - build.awaited.size} of ${all} nodes are done`)
      let cancelReport: (() => void) | undefined
      const finish = () => {
        cancel()
        cancelReport?.()
        build.awaited.clear()
        build.awaitedChanged = () => {}
        resolve()
      }
      const cancel = clock.after(maxWaitMs, finish)
      build.awaitedChanged = () => {
        if (build.awaited.size === 0) return finish()
        cancelReport ??= clock.after(progressMs, () => {
          cancelReport = undefined
          report()
        })
      }
      report()
    })
  }

  #checkAwaited(name: string): void {
    for (const build of this.#builds.values()) {
      if (!build.awaited.has(name) || this.#isAwaited(this.#nodes.get(name), build)) continue
      build.awaited.delete(name)
      build.awaitedChanged()
    }
  }

  /** Whether the node is still to pull an image of the build for the first time. */
  #isAwaited(state: NodeState | undefined, build: BuildImages): boolean {
    const now = this.#deps.clock.elapsed()
    return (
      state !== undefined &&
      missingFrom(state, build).some((image) => now >= (state.backoffs.get(image)?.until ?? -Infinity))
    )
  }
}

function newBuild({ build, template }: Prepared): BuildImages {
  const images = new Map(imagesOf(template).map((image) => [canonicalImage(image) ?? image, image]))
  const awaited = new Set<string>()
  const awaitedChanged = () => {}
  return { build, template, images, awaited, awaitedChanged, signal: undefined, isOver: false, warnedAt: -Infinity }
}

function newNode(uid: string | undefined, node: Node): NodeState {
  const cancelRetry = () => {}
  return { uid, node, images: new NodeImages(), backoffs: new Map(), pull: undefined, cancelRetry }
}

/** The build's images that the node lacks, by canonical name. None if the build's servers cannot run there. */
function missingFrom({ images, node }: NodeState, build: BuildImages): readonly string[] {
  const missing = [...build.images.keys()].filter((image) => !images.has(image))
  return missing.length > 0 && mayRun(node, build) ? missing : []
}

function mayRun(node: Node, { template }: BuildImages): boolean {
  return isReady(node) && acceptsPod(node, template) && matchesNodeAffinity(node, template)
}
