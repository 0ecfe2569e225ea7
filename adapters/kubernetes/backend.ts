/**
 * The Kubernetes backend: runs each instance as a pod. The cluster alone knows the truth; what is kept here is what it has
 * told, and what is being done right now.
 */
import { hostname } from 'node:os'
import type {
  AgentEndpoint,
  AgentEndpointOptions,
  Backend,
  BackendCapabilities,
  BackendListener,
  DefaultStore,
  DestroyOptions,
  Instance,
  InstanceSpec,
  LogsOptions,
  RecordedInstance,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import type { Elector } from '../../src/contracts/elector.js'
import { FleetError, messageOf, throwIfAborted } from '../../src/contracts/errors.js'
import { Listeners } from '../shared/listeners.js'
import { unlessAborted } from '../../src/util/signals.js'
import { shown } from '../../src/rules/validation/problem.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { defaultNamespace } from '../../src/rules/validation/requests.js'
import type { Store } from '../../src/contracts/store.js'
import { findAgentEndpoint } from './nodes/agent-address.js'
import { KubernetesApi } from './client/api.js'
import { SdkSecrets } from './provisioning/sdk-secret.js'
import { Creations } from './provisioning/creations.js'
import { Endings } from './provisioning/endings.js'
import { leaseElector } from './leader-election/elector.js'
import { Fence } from './leader-election/fence.js'
import { IncompletePods } from './provisioning/incomplete-pods.js'
import { defaultKubeConfig } from './client/kube-config.js'
import { pathOf, pods as podType } from './client/kube-objects.js'
import { identityBy, namesOf } from './pods/labels.js'
import { SlowStarts } from './provisioning/slow-starts.js'
import { labelling } from './leader-election/leader-label.js'
import { leaseName } from './leader-election/lease.js'
import { NodePorts } from './nodes/node-ports.js'
import type { ResolvedKubernetesOptions } from './options.js'
import { markActive } from './pods/active-label.js'
import { podLogs } from './pods/pod-logs.js'
import { fixedPorts, lacksPorts } from './pods/pod-status.js'
import { PodCache } from './pods/pod-cache.js'
import type { PodSnapshot } from './pods/pod-snapshot.js'
import { type KubernetesStore, openKubernetesStore } from './store/store.js'

/** What is made in time belongs to whoever comes next; what is not, is found half made and removed. */
const closingMs = 2_000

export class KubernetesBackend implements Backend {
  readonly name = 'kubernetes'
  readonly capabilities: BackendCapabilities = Object.freeze({ template: 'pod', agent: true })
  readonly defaultStore: DefaultStore
  readonly defaultElector: Elector

  readonly #options: ResolvedKubernetesOptions
  readonly #api: KubernetesApi
  readonly #pods: PodCache
  readonly #ports: NodePorts
  readonly #configuration: SdkSecrets
  readonly #lateStarts: SlowStarts
  readonly #halfMade: IncompletePods
  /** Namespace of what is the fleet's own. */
  readonly #systemNamespace: string
  readonly #listeners: Listeners
  readonly #creations: Creations
  readonly #endings: Endings
  #opening: Promise<void> | undefined
  #store: KubernetesStore | undefined
  #closed = false

  constructor(options: ResolvedKubernetesOptions) {
    const { apiGroup, clock, logger, namespaces, publicAddress, portRange } = options
    const { requestsPerSecond, connections, callTimeoutMs } = options
    const config = options.kubeConfig ?? defaultKubeConfig()
    this.#options = options
    const fence = new Fence(clock)
    this.#api = new KubernetesApi({ config, clock, requestsPerSecond, connections, callTimeoutMs, fence })
    // The same for each host of a fleet, wherever it runs: two leases would be two leaders.
    this.#systemNamespace = options.systemNamespace ?? namespaces?.toSorted()[0] ?? defaultNamespace
    this.#listeners = new Listeners(this.name, logger)
    this.#pods = new PodCache({
      ...{ api: this.#api, clock, logger, namespaces, publicAddress, names: namesOf(apiGroup) },
      holdUpOf: (podUid) => ({
        unwritten: this.#configuration.refusalOf(podUid),
        isLate: this.#lateStarts.has(podUid),
      }),
      onChange: (seen) => this.#changed(seen),
      onGone: (seen) => this.#gone(seen),
    })
    this.#configuration = new SdkSecrets({ api: this.#api, clock, logger, pods: this.#pods })
    this.#lateStarts = new SlowStarts(clock, (ref) => this.#pods.lookAgain(ref))
    this.#halfMade = new IncompletePods({
      ...{
        api: this.#api,
        pods: this.#pods,
        configuration: this.#configuration,
        fence,
        limitMs: callTimeoutMs,
        logger,
      },
      isCreating: (key) => this.#creations.has(key),
    })
    this.#ports = new NodePorts(portRange, clock, () => this.#heldPorts())
    const shared = { api: this.#api, pods: this.#pods, clock }
    this.#creations = new Creations({
      ...{ ...shared, ports: this.#ports, configuration: this.#configuration, halfMade: this.#halfMade },
      ...{ listeners: this.#listeners, group: apiGroup, packed: options.packed },
      ownerOf: (ref, uid) => this.#store?.ownerOfServer(ref, uid),
      shown: (seen) => this.#shown(seen),
    })
    this.#endings = new Endings({ ...shared, creations: this.#creations, limitMs: options.deleteTimeoutMs })
    this.defaultStore = Object.freeze({ kind: 'own', open: () => this.#openStore() })
    const reach = { group: apiGroup, namespaces }
    const elector = leaseElector({
      ...{ api: this.#api, clock, logger, namespace: this.#systemNamespace, leaseMs: options.leaseMs, fence },
      ...{ reach, name: leaseName(reach) },
      identity: options.identity ?? `${hostname()}-${Buffer.from(clock.randomBytes(4)).toString('hex')}`,
      hasRun: (signal) => this.#hasPods(signal),
    })
    const label = namesOf(apiGroup).leader
    const pod = options.pod !== undefined && {
      namespace: this.#api.namespace ?? this.#systemNamespace,
      name: options.pod,
    }
    this.defaultElector = pod ? labelling(elector, { api: this.#api, clock, logger, label, pod }) : elector
  }

  async agentEndpoint({ host }: AgentEndpointOptions = {}): Promise<AgentEndpoint> {
    await this.#open()
    return findAgentEndpoint({ host, nodes: this.#pods.nodes() })
  }

  async create(spec: InstanceSpec, options: CallOptions = {}): Promise<Instance> {
    throwIfAborted(options.signal)
    await this.#open()
    throwIfAborted(options.signal)
    const key = keyOf(spec.ref)
    if (this.#endings.has(key)) throw new FleetError('conflict', `an earlier instance ${key} is just being ended`)
    return this.#creations.create(spec, options.signal)
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    const { graceMs, signal } = options
    throwIfAborted(signal)
    if (!(graceMs >= 0)) throw new FleetError('invalid', `graceMs must be a number ≥ 0, but is ${shown(graceMs)}`)
    await this.#open()
    throwIfAborted(signal)
    await this.#endings.end(ref, uid, options)
  }

  async list(options: CallOptions = {}): Promise<readonly Instance[]> {
    throwIfAborted(options.signal)
    await this.#open()
    throwIfAborted(options.signal)
    const seen = await this.#pods.list(options.signal)
    // Many of them may have to be asked for, and one signal is not to be listened to by them all.
    const whole = await unlessAborted(Promise.all(seen.map((one) => this.#halfMade.isWhole(one))), options.signal)
    return [...this.#creations.refused(), ...seen.filter((_, i) => whole[i]).map((one) => this.#shown(one))]
  }

  watch(listener: BackendListener): () => void {
    if (this.#closed) return () => {}
    const stop = this.#listeners.add(listener)
    // Whoever begins to listen is about to act on what the list lacks.
    this.#pods.doubt()
    void this.#open().then(
      () => this.#listeners.tell(listener, (told) => told.resync()),
      (error: unknown) => {
        if (this.#closed) return
        this.#options.logger.warn({ error: messageOf(error) }, `pods cannot be watched yet: ${messageOf(error)}`)
      },
    )
    return stop
  }

  async protect(ref: Ref, uid: string, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    await this.#open()
    const seen = this.#pods.find(ref)
    const names = namesOf(this.#options.apiGroup)
    if (seen?.identity.uid === uid) await markActive(seen, { api: this.#api, names, signal: options.signal })
  }

  async find(known: RecordedInstance, { signal }: CallOptions = {}): Promise<Instance | undefined> {
    throwIfAborted(signal)
    await this.#open()
    const { ref, uid } = known
    const names = namesOf(this.#options.apiGroup)
    const owner = this.#store?.ownerOfServer(ref, uid)
    const seen = await this.#pods.ask(ref, signal, (object) => identityBy(names, known, owner, object))
    if (!seen || seen.identity.uid !== uid || !(await this.#halfMade.isWhole(seen))) return undefined
    return this.#shown(seen)
  }

  async probe({ signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    await this.#open()
    if (!this.#pods.isHeardOf) await this.#hasPods(signal)
  }

  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    await this.#open()
    if (options.signal?.aborted) return
    const seen = this.#pods.find(ref)
    if (!seen) throw new FleetError('not-found', `there is no pod of server ${keyOf(ref)}, and so no log`)
    const isRunning = () => {
      const now = this.#pods.find(ref)
      return now?.podUid === seen.podUid && now.instance.phase !== 'exited'
    }
    yield* podLogs({ api: this.#api, seen, isRunning }, options)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    const underway = Promise.allSettled([this.#creations.allOver(), this.#endings.allOver()])
    this.#endings.leave()
    // A creation that is cut short leaves something for the next host to clear up: mostly it takes but a moment more.
    await this.#atMost(
      closingMs,
      underway.then(() => this.#configuration.idle()),
    )
    this.#endings.cut()
    this.#pods.stop()
    this.#lateStarts.stop()
    // A store that is still open has its last words to say.
    if (!this.#store) this.#api.close()
    // Each failure has reached the caller that it belongs to.
    await Promise.allSettled([this.#opening, underway])
  }

  async #openStore(): Promise<Store> {
    if (this.#closed) throw closed()
    const { apiGroup: group, namespaces, clock, logger } = this.#options
    const systemNamespace = this.#systemNamespace
    const store = await openKubernetesStore({ api: this.#api, clock, logger, group, systemNamespace, namespaces })
    this.#store = store
    const close = async () => {
      try {
        await store.close()
      } finally {
        this.#store = undefined
        if (this.#closed) this.#api.close()
      }
    }
    return { ...store, close }
  }

  async #atMost(ms: number, work: Promise<unknown>): Promise<void> {
    let cancel = () => {}
    const late = new Promise<void>((resolve) => (cancel = this.#options.clock.after(ms, resolve)))
    await Promise.race([work, late])
    cancel()
  }

  /** Lists what there is, and follows it from then on. After a failure the next call tries again. */
  async #open(): Promise<void> {
    if (this.#closed) throw closed()
    this.#opening ??= this.#pods.start().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    await this.#opening
    if (this.#isClosed()) throw closed()
  }

  /** It changes while something is awaited. */
  #isClosed(): boolean {
    return this.#closed
  }

  #shown(seen: PodSnapshot): Instance {
    const { identity, instance } = seen
    if (instance.phase !== 'pending' || !this.#isHeldUpByOthers(seen)) return instance
    // Others have its ports on every node: with other ports there may be room.
    const { ref, uid, ports } = identity
    const numbers = ports.map((port) => port.public).join(', ')
    const reason = `not all of its public ports ${numbers} are free on any node, since pods that are not the fleet's have them`
    return { ref, uid, phase: 'exited', interrupted: true, reason, ports }
  }

  /** Where the fleet's own pods have its ports, there were none left to choose from: it waits for one of them, or for a node. */
  #isHeldUpByOthers(seen: PodSnapshot): boolean {
    const { pod, identity } = seen
    // One that its template asks for may be what is lacking, whatever its public ports are.
    return lacksPorts(pod) && fixedPorts(pod, identity).length === 0 && !this.#pods.sharesPort(seen)
  }

  #changed(seen: PodSnapshot): void {
    if (this.#halfMade.has(seen)) return
    this.#configuration.look(seen)
    this.#lateStarts.look(seen)
    if (this.#isHeldUpByOthers(seen)) this.#ports.markForeign(seen.identity.ports.map((port) => port.public))
    // Its creation tells of it.
    if (this.#creations.has(keyOf(seen.identity.ref))) return
    const shown = this.#shown(seen)
    this.#listeners.tellAll((listener) => listener.changed(shown))
  }

  #gone(seen: PodSnapshot): void {
    this.#configuration.forget(seen)
    this.#lateStarts.forget(seen)
    // Nobody was ever told of it.
    if (this.#halfMade.forget(seen)) return
    const { ref, uid } = seen.identity
    const { instance } = seen
    // Somebody has deleted it without leaving a trace: its end is told, so that nobody has to guess at it.
    const isSudden = instance.phase !== 'exited' && !this.#endings.has(keyOf(ref))
    if (isSudden) {
      const end = { ...instance, phase: 'exited', interrupted: true, reason: 'its pod was deleted' } as const
      this.#listeners.tellAll((listener) => listener.changed(end))
    }
    this.#listeners.tellAll((listener) => listener.gone(ref, uid))
  }

  /** Asked of the API server: whoever decides who leads waits for nothing else. */
  async #hasPods(signal: AbortSignal | undefined): Promise<boolean> {
    const { namespaces = [undefined], apiGroup, callTimeoutMs } = this.#options
    const query = { labelSelector: namesOf(apiGroup).server, limit: 1 }
    for (const namespace of namespaces) {
      const path = pathOf(podType, { namespace })
      const call = {
        what: 'look for pods',
        method: 'GET',
        path,
        query,
        urgent: true,
        limitMs: callTimeoutMs,
        signal,
      } as const
      if ((await this.#api.list(call)).items.length > 0) return true
    }
    return false
  }

  *#heldPorts() {
    yield* this.#pods.heldPorts()
    yield* this.#creations.heldPorts()
  }
}

function closed(): FleetError {
  return new FleetError('closed', 'the Kubernetes backend is closed')
}
