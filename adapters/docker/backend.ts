/**
 * The Docker backend: runs each instance as a container. All state is kept in the engine; this host keeps only operations in
 * progress.
 */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
  PrepareOptions,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf, throwIfAborted } from '../../src/contracts/errors.js'
import { codeOf, makeDirectories } from '../../src/platform/files.js'
import { lowestFreeNumber } from '../../src/rules/game/sdk-config.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { BackendLifecycle, checkRef, noStdin, waitAtMost } from '../shared/backend-lifecycle.js'
import { KeptLogs } from '../shared/kept-logs.js'
import { checkGraceMs, Creations, Terminations } from '../shared/in-flight.js'
import { storeIn } from '../shared/option-reader.js'
import { findAgentEndpoint, findPublishedHost } from './agent-address.js'
import { checkForDocker, type DockerEngine, imageOf } from './container-config.js'
import { ContainerCreation, PortPool } from './containers/container-creation.js'
import { ContainerEvents } from './containers/container-events.js'
import { execIn } from './containers/container-exec.js'
import { ContainerTermination } from './containers/container-termination.js'
import { Containers } from './containers/containers.js'
import { type Container, isRunning, usageIn } from './containers/instance.js'
import { fleetFilter } from './containers/labels.js'
import { containerLogs } from './containers/logs.js'
import { defaultClient, remoteHostOf } from './docker-client.js'
import { EngineApi, statusOf } from './engine-api.js'
import { Images } from './images.js'
import { isFleetName, type ResolvedDockerOptions } from './options.js'

/** What the backend learns about the engine when it connects. */
interface Connected {
  readonly fleet: string
  readonly engine: DockerEngine
  readonly containers: Containers
  readonly isDesktop: boolean
}

/**
 * How long `close` waits for creations in progress and for signals to be sent. An interrupted creation leaves a container that
 * the next host must remove.
 */
const closeTimeoutMs = 5_000

export class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly capabilities: BackendCapabilities = Object.freeze({ template: 'container', agent: true })
  readonly defaultStore: DefaultStore

  readonly #options: ResolvedDockerOptions
  readonly #lifecycle: BackendLifecycle<Connected>
  readonly #api: EngineApi
  readonly #images: Images
  readonly #ports: PortPool
  readonly #creations: Creations<ContainerCreation>
  readonly #terminations = new Terminations<ContainerTermination>()
  readonly #keptLogs: KeptLogs
  /** Host name or address of a remote engine. */
  readonly #remoteHost: string | undefined
  #events: ContainerEvents | undefined
  #containers: Containers | undefined

  constructor(options: ResolvedDockerOptions) {
    const { clock, logger, readTimeoutMs, changeTimeoutMs } = options
    const client = options.docker ?? defaultClient()
    this.#options = options
    this.defaultStore = Object.freeze(storeIn(options))
    this.#remoteHost = remoteHostOf(client)
    const onTimeout = () => this.#events?.reconnect()
    this.#api = new EngineApi({ client, clock, readTimeoutMs, changeTimeoutMs, onTimeout })
    const { pullIdleTimeoutMs, registryAuth, portRange } = options
    this.#images = new Images({ api: this.#api, clock, idleTimeoutMs: pullIdleTimeoutMs, registryAuth })
    this.#ports = new PortPool(portRange, clock, () => this.#takenPorts())
    this.#lifecycle = new BackendLifecycle({ backend: this.name, logger, open: () => this.#connect() })
    this.#creations = new Creations(this.#lifecycle.listeners)
    const logs = (ref: Ref, reading: LogsOptions) => this.logs(ref, reading)
    this.#keptLogs = new KeptLogs({ options, clock, logger, logs })
  }

  check(build: Pick<InstanceSpec, 'template' | 'portsToExpose'>): void {
    checkForDocker(build)
  }

  async agentEndpoint({ host, ...options }: AgentEndpointOptions = {}): Promise<AgentEndpoint> {
    const { isDesktop } = await this.#lifecycle.open()
    const remoteHost = this.#remoteHost
    const bridge = remoteHost === undefined ? await this.#api.network('bridge', options) : undefined
    return findAgentEndpoint({ host, remoteHost, isDesktop, bridge })
  }

  async prepare(build: Pick<InstanceSpec, 'build' | 'template'>, options: PrepareOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { image, pullPolicy } = imageOf(build.template, this.#options)
    await this.#images.ensure(image, pullPolicy, options)
  }

  async create(spec: InstanceSpec, { signal }: CallOptions = {}): Promise<Instance> {
    throwIfAborted(signal)
    checkRef(spec.ref)
    const connected = await this.#lifecycle.open()
    throwIfAborted(signal)
    const key = keyOf(spec.ref)
    if (this.#terminations.has(key)) {
      throw new FleetError('conflict', `an earlier instance of ${key} is being terminated`)
    }
    return this.#creations.create(spec, signal, () => this.#creation(spec, connected, signal))
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    const { graceMs, signal } = options
    throwIfAborted(signal)
    checkGraceMs(graceMs)
    await this.#lifecycle.begin(({ containers }) => {
      throwIfAborted(signal)
      const { clock, changeTimeoutMs: timeoutMs } = this.#options
      const { listeners } = this.#lifecycle
      const deps = { api: this.#api, clock, containers, creations: this.#creations, listeners, timeoutMs }
      const begin = () => new ContainerTermination(ref, uid, graceMs, deps)
      const terminate = () => this.#terminations.terminate(ref, uid, options, begin)
      return this.#keptLogs.destroy(ref, options.keepLog === true, terminate)
    })
  }

  async list(options: CallOptions = {}): Promise<readonly Instance[]> {
    throwIfAborted(options.signal)
    const { containers } = await this.#lifecycle.open()
    throwIfAborted(options.signal)
    return [...(await containers.list(options)), ...this.#creations.rejected()]
  }

  watch(listener: BackendListener): () => void {
    return this.#lifecycle.watch(listener)
  }

  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    const { containers } = await this.#lifecycle.open()
    if (options.signal?.aborted) return
    // Called without the signal, which would make it reject: when aborted, a log must end without an error.
    const container = await containers.find(ref)
    const kept = container ? undefined : this.#keptLogs.lines(ref, options)
    if (kept) return yield* kept
    if (!container) throw new FleetError('not-found', `server ${keyOf(ref)} has no container and therefore no log`)
    const { id, tty } = container
    const isStillRunning = async () => isRunning(await containers.inspect(id))
    yield* containerLogs({ api: this.#api, id, tty, isRunning: isStillRunning }, options)
  }

  async usage(ref: Ref, options: CallOptions = {}): Promise<InstanceUsage> {
    throwIfAborted(options.signal)
    const { containers } = await this.#lifecycle.open()
    const container = await containers.find(ref)
    const usage = container && usageIn(await this.#api.stats(container.id, options))
    if (!usage) throw new FleetError('not-found', `server ${keyOf(ref)} has no container that runs`)
    return usage
  }

  async writeStdin(ref: Ref, line: string, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { containers } = await this.#lifecycle.open()
    const container = await containers.find(ref)
    if (!container) throw new FleetError('not-found', `server ${keyOf(ref)} has no container`)
    await writeStdin(this.#api, container, line, options)
  }

  async exec(ref: Ref, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    throwIfAborted(options.signal)
    const { containers } = await this.#lifecycle.open()
    const container = await containers.find(ref)
    if (container?.status !== 'running') {
      throw new FleetError('not-found', `server ${keyOf(ref)} has no container that runs`)
    }
    return execIn(this.#api, container.id, command, options)
  }

  async close(): Promise<void> {
    this.#lifecycle.close()
    await this.#keptLogs.close()
    await waitAtMost(this.#options.clock, closeTimeoutMs, this.#lifecycle.settled())
    const signals = this.#terminations.inProgress().map(({ signalled }) => signalled)
    await waitAtMost(this.#options.clock, closeTimeoutMs, Promise.all([this.#creations.allSettled(), ...signals]))
    this.#api.close()
    await Promise.allSettled([
      this.#lifecycle.settled(),
      this.#creations.allSettled(),
      this.#terminations.allSettled(),
      this.#events?.stop(),
    ])
  }

  async #connect(): Promise<Connected> {
    const { directory, clock, logger } = this.#options
    const { listeners } = this.#lifecycle
    const info = await this.#api.info()
    if (!isObject(info)) throw new FleetError('unavailable', 'the Docker engine returned no system information')
    if (info['OSType'] === 'windows') {
      throw new FleetError('invalid', 'dockerBackend needs an engine that runs Linux containers')
    }
    const fleet = this.#options.fleet ?? (await loadFleetName(directory, clock))
    const node = this.#options.node ?? String(info['Name'])
    const engine = { node, logDriver: String(info['LoggingDriver']) }
    const creations = this.#creations
    const isDesktop = info['OperatingSystem'] === 'Docker Desktop'
    const inside = { host: await this.#insideHost(isDesktop), ports: 'public' } as const
    const machine = { node, inside }
    const containers = new Containers({ api: this.#api, fleet, machine, creations, listeners, clock, logger })
    await containers.readEngineStart()
    await containers.list({})
    this.#lifecycle.throwIfClosed()
    this.#containers = containers
    this.#events = new ContainerEvents({
      api: this.#api,
      fleet,
      filter: fleetFilter(fleet),
      clock,
      logger,
      onEvent: (event) => containers.onEvent(event),
      onConnect: () => this.#onEventsConnected(containers),
    })
    return { fleet, engine, containers, isDesktop }
  }

  async #insideHost(isDesktop: boolean): Promise<string> {
    const { bindAddress } = this.#options
    const remoteHost = this.#remoteHost
    const bridge = remoteHost === undefined ? await this.#api.network('bridge', {}) : undefined
    return findPublishedHost({ bindAddress, remoteHost, isDesktop, bridge })
  }

  /**
   * The engine may have restarted before the event stream was connected: reads its start time again, then requests a resync.
   */
  #onEventsConnected(containers: Containers): void {
    const resync = () => this.#lifecycle.listeners.notifyAll((listener) => listener.resync())
    void containers.readEngineStart().then(resync, (error: unknown) => {
      this.#options.logger.debug({ err: error }, 'cannot read the start time of the Docker engine')
      resync()
    })
  }

  #creation(spec: InstanceSpec, connected: Connected, signal: AbortSignal | undefined): ContainerCreation {
    const { fleet, engine, containers } = connected
    return new ContainerCreation({
      spec,
      fleet,
      engine,
      containers,
      signal,
      options: this.#options,
      api: this.#api,
      images: this.#images,
      ports: this.#ports,
      listeners: this.#lifecycle.listeners,
      address: this.#options.publicAddress ?? this.#remoteHost ?? '127.0.0.1',
      freeInstanceNumber: () => lowestFreeNumber(this.#instanceNumbers()),
    })
  }

  *#takenPorts(): Generator<number> {
    yield* this.#containers?.takenPorts() ?? []
    yield* this.#creations.takenPorts()
  }

  *#instanceNumbers(): Generator<number> {
    yield* this.#containers?.instanceNumbers() ?? []
    for (const { instanceNumber } of this.#creations.inProgress()) yield instanceNumber
  }
}

// The name that distinguishes this fleet's containers from those of other fleets. Generated once and stored in the fleet's
// directory.

const fileName = 'docker-fleet'

/** Rejects with `directory-unusable` if the name can be neither read nor written. */
async function loadFleetName(directory: string, clock: Clock): Promise<string> {
  const path = join(directory, fileName)
  try {
    const stored = await readStored(path)
    if (stored !== undefined) return stored
    const generated = Buffer.from(clock.randomBytes(5)).toString('hex')
    await makeDirectories(directory, 0o700)
    await writeFile(`${path}.tmp`, `${generated}\n`, { mode: 0o600, flush: true })
    await rename(`${path}.tmp`, path)
    return generated
  } catch (error) {
    const message = `dockerBackend cannot store its fleet name in ${directory}: ${messageOf(error)}`
    throw new FleetError('directory-unusable', message, { cause: error })
  }
}

async function readStored(path: string): Promise<string | undefined> {
  let text: string
  try {
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
  if (isFleetName(text)) return text
  throw new Error(`${path} contains no valid fleet name`)
}

/** Rejects with `no-stdin`, or with `unavailable` if the game reads nothing: the line may then still arrive. */
async function writeStdin(api: EngineApi, container: Container, line: string, options: CallOptions): Promise<void> {
  const { id, identity, openStdin } = container
  if (!openStdin) throw noStdin(identity.ref, 'closed')
  if (container.status !== 'running') throw noStdin(identity.ref, 'ended')
  try {
    await api.writeStdin(id, line, options)
  } catch (error) {
    // It has ended, or was paused or removed, since it was inspected.
    const status = statusOf(error)
    throw status === 404 || status === 409 ? noStdin(identity.ref, 'ended', error) : error
  }
}
