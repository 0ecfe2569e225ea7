/** Presents the fleet's pods as instances: creates, terminates and lists them, and notifies listeners of changes. */
import type {
  BackendListener,
  DestroyOptions,
  Instance,
  InstanceSpec,
  RecordedInstance,
} from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { unlessAborted } from '../../src/util/signals.js'
import { Creations, Terminations } from '../shared/in-flight.js'
import { type Listeners, waitAtMost } from '../shared/backend-lifecycle.js'
import type { KubernetesApi } from './client/api.js'
import type { OwnerReference } from './client/kube-objects.js'
import type { WriteFence } from './client/write-fence.js'
import { CordonedNodes } from './nodes/node-cache.js'
import { type TakenPort, NodePorts } from './nodes/node-ports.js'
import type { ResolvedKubernetesOptions } from './options.js'
import { ActiveLabels } from './pods/active-labels.js'
import { PodCache } from './pods/pod-cache.js'
import { namesOf, type PodSnapshot, publicPortsOf, recoverIdentity } from './pods/pod-objects.js'
import { isBlockedByHostPorts, templateHostPorts } from './pods/pod-status.js'
import { ImagePulls, type ImagePullsDependencies } from './provisioning/image-pulls.js'
import { IncompletePods, PodCreation, type PodCreationDependencies } from './provisioning/pod-creation.js'
import { PodTermination, type PodTerminationDependencies } from './provisioning/pod-termination.js'
import { InstanceNumbers, SdkSecrets } from './provisioning/sdk-secrets.js'
import { PodEvents, SlowStarts } from './provisioning/slow-starts.js'

interface PodInstancesDependencies {
  readonly api: KubernetesApi
  readonly fence: WriteFence
  readonly listeners: Listeners
  readonly options: ResolvedKubernetesOptions
  /** The server's GameServer object as an owner reference, or undefined if the object does not exist. */
  readonly ownerOf: (ref: Ref, uid: string) => OwnerReference | undefined
  /** For pulls of images ahead. */
  readonly builds: Pick<ImagePullsDependencies, 'open' | 'ownerOf' | 'warn'>
}

export class PodInstances {
  readonly pods: PodCache
  /** Undefined if images are not pulled ahead. */
  readonly imagePulls: ImagePulls | undefined
  /** Undefined if cordoned nodes are not reported. */
  readonly #cordonedNodes: CordonedNodes | undefined
  readonly #deps: PodInstancesDependencies
  readonly #ports: NodePorts
  readonly #secrets: SdkSecrets
  readonly #slowStarts: SlowStarts
  readonly #incompletePods: IncompletePods
  readonly #activeLabels: ActiveLabels
  readonly #creations: Creations<PodCreation>
  /** Uids of the pods of an earlier leader whose secret is being looked up. Listeners are notified afterwards. */
  readonly #checking = new Set<string>()
  readonly #terminations = new Terminations<PodTermination>()

  constructor(deps: PodInstancesDependencies) {
    const { api, fence, listeners, options } = deps
    const { clock, logger, apiGroup, namespaces, publicAddress, portRange, callTimeoutMs } = options
    const { cordonNoticeMs: noticeMs } = options
    this.#deps = deps
    const report = (nodes: ReadonlyMap<string, number>) =>
      listeners.notifyAll((listener) => listener.maintenance?.(nodes))
    this.#cordonedNodes = noticeMs === undefined ? undefined : new CordonedNodes({ clock, noticeMs, report })
    const context = { api, clock, logger }
    const names = namesOf(apiGroup)
    this.pods = new PodCache({
      ...context,
      namespaces,
      publicAddress,
      names,
      startProblemsOf: (podUid) => ({
        secretError: this.#secrets.errorOf(podUid),
        ...this.#slowStarts.problemsOf(podUid),
      }),
      onChange: (snapshot) => this.#changed(snapshot),
      onGone: (snapshot) => this.#gone(snapshot),
      onNodeChange: (name, node) => this.#cordonedNodes?.nodeChanged(name, node),
      onNodeReport: options.prePullImages ? (name, node) => this.imagePulls?.nodeReported(name, node) : undefined,
    })
    const { pods } = this
    this.imagePulls = options.prePullImages
      ? new ImagePulls({ ...context, ...deps.builds, names, namespaces, nodes: pods })
      : undefined
    this.#ports = new NodePorts(portRange, clock, () => this.#takenPorts())
    const numbers = new InstanceNumbers({ api, names, pods })
    this.#secrets = new SdkSecrets({ ...context, pods, numbers, platform: options.platform })
    this.#slowStarts = new SlowStarts({
      clock,
      logger,
      pods,
      ports: this.#ports,
      events: new PodEvents(context),
      isLeading: () => fence.check() === undefined,
    })
    this.#activeLabels = new ActiveLabels({ ...context, pods, names })
    this.#creations = new Creations(listeners)
    this.#incompletePods = new IncompletePods({
      api,
      pods,
      secrets: this.#secrets,
      fence,
      logger,
      timeoutMs: callTimeoutMs,
      isCreating: (key) => this.#creations.has(key),
      onRemoving: (snapshot) => this.#interrupted(snapshot, 'an earlier leader did not complete its start'),
    })
  }

  /** Resolves once everything is listed. Rejects with the API server's error; `start` can then be called again. */
  async start(): Promise<void> {
    await this.pods.start()
    this.#cordonedNodes?.listed()
  }

  /** Reports the cordoned nodes to a new listener. If the nodes have not been listed yet, `start` reports them. */
  reportCordonedNodes(listener: BackendListener): void {
    const nodes = this.#cordonedNodes?.current
    if (nodes) this.#deps.listeners.notify(listener, (added) => added.maintenance?.(nodes))
  }

  async create(spec: InstanceSpec, signal: AbortSignal | undefined): Promise<Instance> {
    const { options, ownerOf } = this.#deps
    const key = keyOf(spec.ref)
    if (this.#terminations.has(key)) {
      throw new FleetError('conflict', `an earlier instance of ${key} is still terminating`)
    }
    return this.#creations.create(spec, signal, () => {
      const nonce = Buffer.from(options.clock.randomBytes(4)).toString('hex')
      const owner = ownerOf(spec.ref, spec.uid)
      return new PodCreation(this.#creationDeps(), { spec, secret: `${spec.ref.name}-${nonce}`, owner, signal })
    })
  }

  terminate(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    return this.#terminations.terminate(
      ref,
      uid,
      options,
      () => new PodTermination(this.#terminationDeps(), ref, uid, options.graceMs),
    )
  }

  /** Protects the instance from eviction, or takes that back, in the background. */
  protect(ref: Ref, uid: string, isActive: boolean): void {
    const snapshot = this.pods.find(ref)
    if (snapshot?.identity.uid === uid) this.#activeLabels.request(snapshot, isActive)
  }

  async list(signal: AbortSignal | undefined): Promise<readonly Instance[]> {
    const snapshots = await this.pods.list(signal)
    // Uses one abort listener for all checks: there may be thousands.
    const checks = Promise.all(snapshots.map((snapshot) => this.#incompletePods.isComplete(snapshot)))
    const isComplete = await unlessAborted(checks, signal)
    const complete = snapshots.filter((_, i) => isComplete[i])
    return [...this.#creations.rejected(), ...complete.map((snapshot) => this.#instanceOf(snapshot))]
  }

  async find(recorded: RecordedInstance, signal: AbortSignal | undefined): Promise<Instance | undefined> {
    const { options, ownerOf } = this.#deps
    const { ref, uid } = recorded
    const names = namesOf(options.apiGroup)
    const owner = ownerOf(ref, uid)
    const snapshot = await this.pods.fetch(ref, signal, (object) => recoverIdentity(names, recorded, owner, object))
    if (!snapshot || snapshot.identity.uid !== uid || !(await this.#incompletePods.isComplete(snapshot)))
      return undefined
    return this.#instanceOf(snapshot)
  }

  /**
   * Waits up to `closeTimeoutMs` for creations in progress and for requests to delete pods; terminations do
   * not wait for their pods. `begun` resolves once every call of `terminate` has been made.
   */
  async close(begun: Promise<void>): Promise<void> {
    const { clock } = this.#deps.options
    const pullsClosed = this.imagePulls?.close()
    await waitAtMost(clock, closeTimeoutMs, begun)
    const inProgress = Promise.allSettled([
      this.#creations.allSettled(),
      this.#terminations.allSettled(),
      pullsClosed,
      waitAtMost(clock, labelsTimeoutMs, this.#activeLabels.flush()),
    ])
    for (const termination of this.#terminations.inProgress()) termination.close()
    await waitAtMost(
      clock,
      closeTimeoutMs,
      inProgress.then(() => this.#secrets.idle()),
    )
    for (const termination of this.#terminations.inProgress()) termination.abort()
    this.#activeLabels.stop()
    this.pods.stop()
    this.#slowStarts.stop()
  }

  /** Resolves once all creations and terminations in progress have succeeded or failed. */
  async settled(): Promise<void> {
    await Promise.all([this.#creations.allSettled(), this.#terminations.allSettled()])
  }

  #creationDeps(): PodCreationDependencies {
    const { api, options } = this.#deps
    return {
      api,
      pods: this.pods,
      ports: this.#ports,
      secrets: this.#secrets,
      incompletePods: this.#incompletePods,
      group: options.apiGroup,
      scheduling: options.scheduling,
      platform: options.platform,
      instanceOf: (snapshot) => this.#instanceOf(snapshot),
    }
  }

  #terminationDeps(): PodTerminationDependencies {
    const { api, options } = this.#deps
    return {
      api,
      pods: this.pods,
      clock: options.clock,
      timeoutMs: options.deleteTimeoutMs,
      names: namesOf(options.apiGroup),
      creationSettled: (key) => this.#creations.settled(key),
      forgetRejected: (ref, uid) => this.#creations.forgetRejected(ref, uid),
    }
  }

  #instanceOf(snapshot: PodSnapshot): Instance {
    const { identity, instance } = snapshot
    if (instance.phase !== 'pending' || !this.#hasForeignPorts(snapshot)) return instance
    // Reported as exited so that the fleet creates a replacement, which may be schedulable with other ports.
    const { ref, uid, ports } = identity
    const numbers = publicPortsOf(identity).join(', ')
    const reason = `cannot be scheduled: pods outside the fleet use public ports ${numbers} on every suitable node`
    return { ref, uid, phase: 'exited', interrupted: true, reason, ports }
  }

  /**
   * Whether pods outside the fleet hold the pod's public ports. Returns false if another pod of the fleet has one of these
   * ports: that happens only when no other port was free, and the pod then waits for the other pod to end or for a new node.
   */
  #hasForeignPorts(snapshot: PodSnapshot): boolean {
    const { pod, identity } = snapshot
    // If the template requests host ports itself, one of those may be the port that is taken.
    const isFixed = templateHostPorts(pod, identity).length > 0
    return isBlockedByHostPorts(pod) && !isFixed && !this.pods.sharesPort(snapshot)
  }

  #changed(snapshot: PodSnapshot): void {
    if (this.#incompletePods.isRemoving(snapshot)) return
    this.#secrets.podChanged(snapshot)
    this.#slowStarts.podChanged(snapshot)
    if (this.#hasForeignPorts(snapshot)) this.#ports.markForeign(publicPortsOf(snapshot.identity))
    // No notification is needed: `create` returns the instance.
    if (this.#creations.has(keyOf(snapshot.identity.ref))) return
    if (this.#incompletePods.isKnownComplete(snapshot)) this.#notifyChanged(this.#instanceOf(snapshot))
    else void this.#notifyIfComplete(snapshot)
  }

  /** An earlier leader created this pod, and it is not known yet whether it is complete. */
  async #notifyIfComplete(first: PodSnapshot): Promise<void> {
    const { podUid, identity } = first
    if (this.#checking.has(podUid)) return
    this.#checking.add(podUid)
    const isComplete = await this.#incompletePods.isComplete(first)
    this.#checking.delete(podUid)
    const current = this.pods.find(identity.ref)
    if (isComplete && current?.podUid === podUid) this.#notifyChanged(this.#instanceOf(current))
  }

  #notifyChanged(instance: Instance): void {
    this.#deps.listeners.notifyAll((listener) => listener.changed(instance))
  }

  /** Tells listeners that the instance ended without being at fault. */
  #interrupted({ instance }: PodSnapshot, reason: string): void {
    this.#notifyChanged({ ...instance, phase: 'exited', interrupted: true, reason })
  }

  #gone(snapshot: PodSnapshot): void {
    this.#secrets.forget(snapshot)
    this.#slowStarts.gone(snapshot)
    // Listeners do not know of an incomplete pod, or have heard of its removal before.
    if (this.#incompletePods.forget(snapshot)) return
    const { listeners } = this.#deps
    const { ref, uid } = snapshot.identity
    // The pod was force-deleted externally, so no earlier event reported that it exited.
    const isSudden = snapshot.instance.phase !== 'exited' && !this.#terminations.has(keyOf(ref))
    if (isSudden) this.#interrupted(snapshot, 'pod deleted')
    listeners.notifyAll((listener) => listener.gone(ref, uid))
  }

  *#takenPorts(): Generator<TakenPort> {
    yield* this.pods.takenPorts()
    for (const port of this.#creations.takenPorts()) yield { port, node: undefined }
  }
}

/**
 * The next leader writes the labels that are not written within this time. It cannot lead, and nobody allocate, before this host has
 * closed.
 */
const labelsTimeoutMs = 50

/** Creations that finish within this time leave nothing for the next leader to clean up. */
export const closeTimeoutMs = 2_000
