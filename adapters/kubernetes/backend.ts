/** The Kubernetes backend: runs each instance as a pod. All state is in the cluster; this host only caches it. */
import type {
  AgentEndpoint,
  AgentEndpointOptions,
  Backend,
  BackendCapabilities,
  BackendListener,
  DefaultStore,
  DestroyOptions,
  ExecOptions,
  ExecResult,
  Instance,
  InstanceSpec,
  InstanceUsage,
  LogsOptions,
  RecordedInstance,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import type { Candidacy, ElectionListener, Elector } from '../../src/contracts/elector.js'
import { FleetError, throwIfAborted } from '../../src/contracts/errors.js'
import type { Store } from '../../src/contracts/store.js'
import { keyOf, type PodTemplateSpec, type Ref } from '../../src/rules/model/resources.js'
import { defaultNamespace } from '../../src/rules/validation/build-schema.js'
import { BackendLifecycle, waitAtMost } from '../shared/backend-lifecycle.js'
import { KeptLogs } from '../shared/kept-logs.js'
import { checkGraceMs } from '../shared/in-flight.js'
import { KubernetesApi } from './client/api.js'
import { defaultKubeConfig } from './client/kube-config.js'
import { WriteFence } from './client/write-fence.js'
import { closeTimeoutMs, PodInstances } from './instances.js'
import { createElector } from './leader-election/elector.js'
import { findAgentEndpoint } from './nodes/node-cache.js'
import type { ResolvedKubernetesOptions } from './options.js'
import { execInPod, podLogs, writeStdin } from './pods/container-streams.js'
import { podUsage } from './pods/pod-usage.js'
import { hasAnyPods } from './pods/pod-cache.js'
import { namesOf } from './pods/pod-objects.js'
import { checkForKubernetes, checkTemplate } from './provisioning/template-check.js'
import { type KubernetesStore, openKubernetesStore } from './store/store.js'

export class KubernetesBackend implements Backend {
  readonly name = 'kubernetes'
  readonly capabilities: BackendCapabilities = Object.freeze({ template: 'pod', agent: true })
  readonly defaultStore: DefaultStore
  readonly defaultElector: Elector
  /** Only if images are pulled ahead. */
  readonly prepare?: NonNullable<Backend['prepare']>

  readonly #options: ResolvedKubernetesOptions
  readonly #api: KubernetesApi
  /** Namespace of the leader Lease and of the Secret that holds the encryption key. */
  readonly #systemNamespace: string
  readonly #fence: WriteFence
  readonly #lifecycle: BackendLifecycle<void>
  readonly #instances: PodInstances
  readonly #keptLogs: KeptLogs
  #store: KubernetesStore | undefined
  #isElecting = false
  #isFollowing = false
  /** Whether pods are being listed since this host was elected, and no listener has used that list. */
  #isListing = false

  constructor(options: ResolvedKubernetesOptions) {
    const { apiGroup, clock, logger, namespaces, requestsPerSecond, connections, callTimeoutMs } = options
    const { leaseMs, identity, pod } = options
    const config = options.kubeConfig ?? defaultKubeConfig()
    const fence = new WriteFence(clock)
    this.#fence = fence
    this.#options = options
    this.#api = new KubernetesApi({ config, clock, requestsPerSecond, connections, callTimeoutMs, fence })
    // Must be the same on every host: hosts that use different leases would each elect a leader.
    this.#systemNamespace = options.systemNamespace ?? namespaces?.toSorted()[0] ?? defaultNamespace
    this.#lifecycle = new BackendLifecycle({ backend: this.name, logger, open: () => this.#instances.start() })
    this.#instances = new PodInstances({
      api: this.#api,
      fence,
      listeners: this.#lifecycle.listeners,
      options,
      ownerOf: (ref, uid) => this.#store?.ownerOfServer(ref, uid),
      builds: {
        open: () => this.#lifecycle.open(),
        ownerOf: ({ namespace, uid }) => this.#store?.builds.ownerByUid(namespace, uid),
        warn: (build, message) => this.#store?.warnOfImage(build, message),
      },
    })
    const { imagePulls } = this.#instances
    if (imagePulls) this.prepare = (build, prepareOptions) => imagePulls.prepare(build, prepareOptions)
    const logs = (ref: Ref, reading: LogsOptions) => this.logs(ref, reading)
    this.#keptLogs = new KeptLogs({ options, clock, logger, logs })
    this.defaultStore = Object.freeze({ kind: 'own', open: () => this.#openStore() })
    const elector = createElector({
      api: this.#api,
      clock,
      logger,
      fence,
      leaseMs,
      identity,
      pod,
      scope: { group: apiGroup, namespaces },
      namespace: this.#systemNamespace,
      label: namesOf(apiGroup).leader,
      hasRun: (signal) => this.#hasAnyPods(signal),
      announce: (lease, message) => this.#store?.announceLeader(lease, message),
      obstacle: () => this.#store?.obstacle,
    })
    this.defaultElector = Object.freeze({
      run: (listener: ElectionListener, candidacy?: Candidacy) =>
        this.#elect(() => elector.run(this.#listing(listener), candidacy)),
      follow: (changed: (address: string | undefined) => void) => this.#follow(() => elector.follow(changed)),
    })
  }

  check({ template }: Pick<InstanceSpec, 'template'>): void {
    checkForKubernetes(template)
  }

  async agentEndpoint({ host }: AgentEndpointOptions = {}): Promise<AgentEndpoint> {
    await this.#lifecycle.open()
    return findAgentEndpoint(host, this.#instances.pods.nodes())
  }

  async create(spec: InstanceSpec, { signal }: CallOptions = {}): Promise<Instance> {
    await this.#open(signal)
    return this.#instances.create(spec, signal)
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    throwIfAborted(options.signal)
    checkGraceMs(options.graceMs)
    await this.#lifecycle.begin(() => {
      throwIfAborted(options.signal)
      const terminate = () => this.#instances.terminate(ref, uid, options)
      return this.#keptLogs.destroy(ref, options.keepLog === true, terminate)
    })
  }

  async list({ signal }: CallOptions = {}): Promise<readonly Instance[]> {
    await this.#open(signal)
    return this.#instances.list(signal)
  }

  watch(listener: BackendListener): () => void {
    // For a new listener, an instance missing from the next list no longer exists, so that list must not come from a stale
    // cache. Since this host was elected, no other could change anything.
    if (!this.#lifecycle.isClosed && !this.#isListing) this.#instances.pods.invalidate()
    this.#isListing = false
    const unwatch = this.#lifecycle.watch(listener)
    this.#instances.reportCordonedNodes(listener)
    return unwatch
  }

  async protect(ref: Ref, uid: string, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    this.#instances.protect(ref, uid, true)
  }

  async unprotect(ref: Ref, uid: string, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    this.#instances.protect(ref, uid, false)
  }

  async find(recorded: RecordedInstance, { signal }: CallOptions = {}): Promise<Instance | undefined> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    return this.#instances.find(recorded, signal)
  }

  async probe({ signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    if (!this.#instances.pods.isCurrent) await this.#hasAnyPods(signal)
  }

  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    await this.#lifecycle.open()
    if (options.signal?.aborted) return
    const { pods } = this.#instances
    const snapshot = pods.find(ref)
    const kept = snapshot ? undefined : this.#keptLogs.lines(ref, options)
    if (kept) return yield* kept
    if (!snapshot) throw new FleetError('not-found', `server ${keyOf(ref)} has no pod and therefore no log`)
    const isRunning = () => {
      const current = pods.find(ref)
      return current?.podUid === snapshot.podUid && current.instance.phase !== 'exited'
    }
    yield* podLogs({ api: this.#api, snapshot, isRunning }, options)
  }

  async usage(ref: Ref, options: CallOptions = {}): Promise<InstanceUsage> {
    await this.#open(options.signal)
    const snapshot = this.#instances.pods.find(ref)
    if (!snapshot) throw new FleetError('not-found', `server ${keyOf(ref)} has no pod`)
    return podUsage({ api: this.#api, snapshot }, options)
  }

  async writeStdin(ref: Ref, line: string, options: CallOptions = {}): Promise<void> {
    await this.#open(options.signal)
    const snapshot = this.#instances.pods.find(ref)
    if (!snapshot) throw new FleetError('not-found', `server ${keyOf(ref)} has no pod`)
    const { clock, callTimeoutMs: timeoutMs } = this.#options
    await writeStdin({ api: this.#api, clock, timeoutMs, snapshot }, line, options)
  }

  async exec(ref: Ref, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    await this.#open(options.signal)
    const snapshot = this.#instances.pods.find(ref)
    if (snapshot?.instance.phase !== 'running')
      throw new FleetError('not-found', `server ${keyOf(ref)} has no pod that runs`)
    const { clock, callTimeoutMs: timeoutMs } = this.#options
    return execInPod({ api: this.#api, clock, timeoutMs, snapshot }, command, options)
  }

  async close(): Promise<void> {
    this.#lifecycle.close()
    await this.#keptLogs.close()
    // While this host still leads.
    if (this.#store) await waitAtMost(this.#options.clock, closeTimeoutMs, this.#store.servers.flush())
    await this.#instances.close(this.#lifecycle.settled())
    this.#closeApi()
    // The API is still open for the store and the elector, so a call that hangs ends only when it times out.
    const settled = Promise.all([this.#lifecycle.settled(), this.#instances.settled()])
    await waitAtMost(this.#options.clock, closeTimeoutMs, settled)
  }

  /**
   * The store may still write while it closes, and the elector while it gives up leadership or follows the leader. The last of them closes
   * the API.
   */
  #closeApi(): void {
    if (this.#lifecycle.isClosed && !this.#store && !this.#isElecting && !this.#isFollowing) this.#api.close()
  }

  async #open(signal: AbortSignal | undefined): Promise<void> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    throwIfAborted(signal)
  }

  async #openStore(): Promise<Store> {
    this.#lifecycle.throwIfClosed()
    const { apiGroup: group, namespaces, clock, logger } = this.#options
    const systemNamespace = this.#systemNamespace
    const onClosed = () => {
      this.#store = undefined
      this.#closeApi()
    }
    const isLeading = () => this.#isElecting && this.#fence.check() === undefined
    const term = () => (isLeading() ? this.#fence.term : undefined)
    const options = { api: this.#api, clock, logger, group, systemNamespace, namespaces, isLeading, term, onClosed }
    const check = { api: this.#api, logger }
    const checkPods = (namespace: string, template: PodTemplateSpec) => checkTemplate(check, namespace, template)
    this.#store = await openKubernetesStore({ ...options, checkTemplate: checkPods })
    return this.#store
  }

  #elect(run: () => () => Promise<void>): () => Promise<void> {
    // A host that does not lead follows pods and nodes, too, so that it can lead at once. Errors are ignored: the first call as leader opens
    // the lifecycle again, and reports them.
    void this.#lifecycle.open().catch(() => {})
    const resign = run()
    this.#isElecting = true
    return async () => {
      await resign()
      this.#isElecting = false
      this.#closeApi()
    }
  }

  /** A new leader lists the pods while it reads the records. */
  #listing(listener: ElectionListener): ElectionListener {
    return {
      elected: () => {
        this.#isListing = true
        this.#instances.pods.refresh()
        listener.elected()
      },
      lost: (leader) => {
        this.#isListing = false
        listener.lost(leader)
      },
      blocked: (cause) => listener.blocked?.(cause),
    }
  }

  /** Goes on after this host has left the election, since it still forwards calls then. */
  #follow(follow: () => () => void): () => void {
    const stop = follow()
    this.#isFollowing = true
    return () => {
      stop()
      this.#isFollowing = false
      this.#closeApi()
    }
  }

  #hasAnyPods(signal: AbortSignal | undefined): Promise<boolean> {
    const { namespaces, apiGroup, callTimeoutMs } = this.#options
    return hasAnyPods({ api: this.#api, names: namesOf(apiGroup), namespaces, timeoutMs: callTimeoutMs, signal })
  }
}
