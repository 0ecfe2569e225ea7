/**
 * The Docker backend: runs each instance as a container. The engine alone knows the truth; what is kept here is what is
 * being done right now.
 */
import { join } from 'node:path'
import type {
  AgentEndpoint,
  Backend,
  BackendCapabilities,
  BackendListener,
  DefaultStore,
  DestroyOptions,
  Instance,
  InstanceSpec,
  LogsOptions,
  PrepareOptions,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import { FleetError, messageOf, throwIfAborted } from '../../src/contracts/errors.js'
import { Listeners } from '../shared/listeners.js'
import { unlessAborted } from '../../src/util/signals.js'
import { isObject, shown } from '../../src/rules/validation/problem.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { findAgentEndpoint } from './agent-address.js'
import { defaultClient, remoteHostOf } from './client.js'
import { Containers } from './containers.js'
import { Creation } from './creation.js'
import { Ending } from './ending.js'
import { EngineApi } from './engine-api.js'
import { Events } from './events.js'
import { keptFleetName } from './fleet-name.js'
import { Images } from './images.js'
import { fleetFilter } from './labels.js'
import { containerLogs } from './logs.js'
import type { ResolvedDockerOptions } from './options.js'
import { PortPool } from './ports.js'
import { checkForDocker, type Engine, pullOf } from './translate.js'

interface Opened {
  readonly fleet: string
  readonly engine: Engine
  readonly containers: Containers
  readonly isDesktop: boolean
}

export class DockerBackend implements Backend {
  readonly name = 'docker'
  readonly capabilities: BackendCapabilities = Object.freeze({ template: 'container', agent: true })
  readonly defaultStore: DefaultStore

  readonly #options: ResolvedDockerOptions
  readonly #api: EngineApi
  readonly #images: Images
  readonly #ports: PortPool
  readonly #listeners: Listeners
  readonly #remote: string | undefined
  readonly #creating = new Map<string, { readonly creation: Creation; readonly done: Promise<Instance> }>()
  readonly #ending = new Map<string, { readonly uid: string; readonly ending: Ending; readonly done: Promise<void> }>()
  /** What the engine will never make a container of: there is nothing else that could tell of it. */
  readonly #refused = new Map<string, Instance>()
  #opening: Promise<Opened> | undefined
  #events: Events | undefined
  #containers: Containers | undefined
  #closed = false

  constructor(options: ResolvedDockerOptions) {
    const { directory, clock, logger, readTimeoutMs, changeTimeoutMs, portRange, pullIdleTimeoutMs, registryAuth } =
      options
    const client = options.docker ?? defaultClient()
    this.#options = options
    this.defaultStore = Object.freeze({ kind: 'file', directory: join(directory, 'store') })
    this.#remote = remoteHostOf(client)
    const onSilence = () => this.#events?.reopen()
    this.#api = new EngineApi({ client, clock, readTimeoutMs, changeTimeoutMs, onSilence })
    this.#images = new Images({ api: this.#api, clock, idleMs: pullIdleTimeoutMs, auth: registryAuth })
    this.#ports = new PortPool(portRange, clock, () => this.#heldPorts())
    this.#listeners = new Listeners(this.name, logger)
  }

  check(build: Pick<InstanceSpec, 'template' | 'portsToExpose'>): void {
    checkForDocker(build)
  }

  async agentEndpoint(
    asked: { readonly host?: string | undefined },
    options: CallOptions = {},
  ): Promise<AgentEndpoint> {
    const { isDesktop } = await this.#open()
    const bridge = this.#remote === undefined ? await this.#api.network('bridge', options) : undefined
    return findAgentEndpoint({ host: asked.host, remote: this.#remote, isDesktop, bridge })
  }

  async prepare(build: Pick<InstanceSpec, 'build' | 'template'>, options: PrepareOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { image, pullPolicy } = pullOf(build.template, this.#options)
    await this.#images.ensure(image, pullPolicy, options)
  }

  async create(spec: InstanceSpec, options: CallOptions = {}): Promise<Instance> {
    throwIfAborted(options.signal)
    checkRef(spec.ref)
    const { fleet, engine, containers } = await this.#open()
    throwIfAborted(options.signal)
    const key = keyOf(spec.ref)
    if (this.#ending.has(key)) throw new FleetError('conflict', `an earlier instance ${key} is just being ended`)
    const refused = this.#refused.get(key)
    if (refused?.uid === spec.uid) return refused
    const same = this.#creating.get(key)
    if (same) {
      if (same.creation.uid === spec.uid) return unlessAborted(same.done, options.signal)
      throw new FleetError('conflict', `another instance ${key} is just being created`)
    }
    const creation = new Creation({
      ...{ spec, fleet, engine, options: this.#options, address: this.#publicAddress() },
      ...{ api: this.#api, images: this.#images, ports: this.#ports, signal: options.signal },
    })
    const done = this.#carryOut(key, creation, containers)
    this.#creating.set(key, { creation, done })
    try {
      return await done
    } finally {
      this.#creating.delete(key)
    }
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    const { graceMs, signal } = options
    throwIfAborted(signal)
    if (!(graceMs >= 0)) throw new FleetError('invalid', `graceMs must be a number ≥ 0, but is ${shown(graceMs)}`)
    const { containers } = await this.#open()
    throwIfAborted(signal)
    const key = keyOf(ref)
    const same = this.#ending.get(key)
    if (same) {
      // One of another uid cannot be there as well.
      if (same.uid !== uid) return
      same.ending.shorten(graceMs)
      return unlessAborted(same.done, signal)
    }
    const { clock, changeTimeoutMs } = this.#options
    const ending = new Ending({ api: this.#api, clock, limitMs: changeTimeoutMs, graceMs })
    const done = this.#end(key, containers, ref, uid, ending)
    this.#ending.set(key, { uid, ending, done })
    const over = () => void this.#ending.delete(key)
    done.then(over, over)
    await unlessAborted(done, signal)
  }

  async list(options: CallOptions = {}): Promise<readonly Instance[]> {
    throwIfAborted(options.signal)
    const { containers } = await this.#open()
    throwIfAborted(options.signal)
    return [...(await containers.list(options)), ...this.#refused.values()]
  }

  watch(listener: BackendListener): () => void {
    if (this.#closed) return () => {}
    const stop = this.#listeners.add(listener)
    void this.#open().then(
      () => this.#listeners.tell(listener, (told) => told.resync()),
      (error: unknown) => {
        if (this.#closed) return
        this.#options.logger.warn({ error: messageOf(error) }, `containers cannot be watched yet: ${messageOf(error)}`)
      },
    )
    return stop
  }

  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    const { containers } = await this.#open()
    if (options.signal?.aborted) return
    // Whoever goes away meanwhile is told nothing, so that the call need not end with them.
    const container = await containers.find(ref)
    if (!container) throw new FleetError('not-found', `there is no container of server ${keyOf(ref)}, and so no log`)
    const isRunning = async () => {
      const status = (await containers.inspect(container.id))?.status
      return status === 'running' || status === 'paused' || status === 'restarting'
    }
    yield* containerLogs({ api: this.#api, id: container.id, isRunning }, options)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    const creations = [...this.#creating.values()].map(({ done }) => done)
    const underway = [...creations, ...[...this.#ending.values()].map(({ done }) => done)]
    // A creation that is cut short leaves something for the next host to clear up: mostly it takes but a moment more.
    let cancel = () => {}
    const late = new Promise<void>((resolve) => (cancel = this.#options.clock.after(closingMs, resolve)))
    await Promise.race([Promise.allSettled(creations), late])
    cancel()
    this.#api.close()
    // Each failure has reached the caller that it belongs to.
    await Promise.allSettled([this.#opening, ...underway, this.#events?.stop()])
  }

  /** Asks the engine who it is, once. After a failure the next call tries again. */
  async #open(): Promise<Opened> {
    if (this.#closed) throw closed()
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    const opened = await this.#opening
    if (this.#isClosed()) throw closed()
    return opened
  }

  #isClosed(): boolean {
    return this.#closed
  }

  async #load(): Promise<Opened> {
    const { fleet: given, directory, clock, logger, node } = this.#options
    const info = await this.#api.info()
    if (!isObject(info)) throw new FleetError('unavailable', 'the Docker engine does not say who it is')
    if (info['OSType'] === 'windows')
      throw new FleetError('invalid', 'dockerBackend needs an engine of Linux containers')
    const fleet = given ?? (await keptFleetName(directory, clock))
    const engine = { node: node ?? String(info['Name']), logDriver: String(info['LoggingDriver']) }
    const containers = new Containers({
      ...{ api: this.#api, fleet, node: engine.node, listeners: this.#listeners, logger },
      creating: (key) => this.#creating.get(key)?.done,
    })
    await containers.learnStart()
    await containers.list({})
    if (this.#isClosed()) throw closed()
    this.#containers = containers
    this.#events = new Events({
      ...{ api: this.#api, fleet, filter: fleetFilter(fleet), clock, logger },
      onEvent: (event) => containers.take(event),
      onOpen: () => this.#heardAgain(containers),
    })
    return { fleet, engine, containers, isDesktop: info['OperatingSystem'] === 'Docker Desktop' }
  }

  /** Its events come, for the first time or again: it may be another one than before. */
  #heardAgain(containers: Containers): void {
    const resync = () => this.#listeners.tellAll((listener) => listener.resync())
    void containers.learnStart().then(resync, (error: unknown) => {
      this.#options.logger.debug({ error: messageOf(error) }, 'the Docker engine does not tell when it was started')
      resync()
    })
  }

  async #carryOut(key: string, creation: Creation, containers: Containers): Promise<Instance> {
    const outcome = await creation.run()
    if ('refused' in outcome) {
      this.#refused.set(key, outcome.refused)
      this.#listeners.tellAll((listener) => listener.changed(outcome.refused))
      return outcome.refused
    }
    const { container } = outcome
    containers.learn(container)
    const instance = await containers.shownAs(container)
    this.#listeners.tellAll((listener) => listener.changed(instance))
    return instance
  }

  async #end(key: string, containers: Containers, ref: Ref, uid: string, ending: Ending): Promise<void> {
    // A creation that fails has said so to its caller.
    await this.#creating.get(key)?.done.catch(() => {})
    if (this.#refused.get(key)?.uid === uid) {
      this.#refused.delete(key)
      this.#listeners.tellAll((listener) => listener.gone(ref, uid))
    }
    const container = await containers.find(ref, uid)
    if (!container) return
    await ending.run(container)
    containers.forget(container)
    this.#listeners.tellAll((listener) => listener.gone(ref, uid))
  }

  #publicAddress(): string {
    return this.#options.publicAddress ?? this.#remote ?? '127.0.0.1'
  }

  *#heldPorts(): Generator<number> {
    yield* this.#containers?.heldPorts() ?? []
    for (const { creation } of this.#creating.values()) yield* creation.ports
  }
}

/** How long a backend that closes waits for what it is just making. */
const closingMs = 5_000

const label = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/

/** Names become part of a container's name, in which a dot parts the two. */
function checkRef(ref: Ref): void {
  if (label.test(ref.namespace) && label.test(ref.name)) return
  throw new FleetError(
    'invalid',
    `an instance's namespace and name must be RFC 1123 labels, but are "${ref.namespace}" and "${ref.name}"`,
  )
}

function closed(): FleetError {
  return new FleetError('closed', 'the docker backend is closed')
}
