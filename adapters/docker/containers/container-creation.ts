/**
 * Creates and starts one container. May be interrupted at any point: a container left behind has its server's name, so the
 * next attempt finds it. Because it was never started, the next list removes it.
 */
import type { Instance, InstanceSpec } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError, throwIfAborted } from '../../../src/contracts/errors.js'
import type { PortRange } from '../../../src/rules/model/ports.js'
import { keyOf } from '../../../src/rules/model/resources.js'
import type { Listeners } from '../../shared/backend-lifecycle.js'
import type { Creation, CreationOutcome } from '../../shared/in-flight.js'
import { ForeignPorts, PortRotation, portsExhausted } from '../../shared/public-ports.js'
import { type ContainerConfig, containerConfig, type DockerEngine, sdkArchive } from '../container-config.js'
import { type EngineApi, messageFromEngine, portsInUse, statusOf } from '../engine-api.js'
import type { Images } from '../images.js'
import type { ResolvedDockerOptions } from '../options.js'
import type { Containers } from './containers.js'
import { type Container, isUnrunnable, readContainer } from './instance.js'
import { containerName } from './labels.js'

interface ContainerCreationDependencies {
  readonly spec: InstanceSpec
  readonly fleet: string
  readonly engine: DockerEngine
  readonly options: ResolvedDockerOptions
  /** The address that players connect to. */
  readonly address: string
  readonly api: EngineApi
  readonly images: Images
  readonly ports: PortPool
  readonly containers: Containers
  /** Returns the lowest number that no container of this fleet has. */
  readonly freeInstanceNumber: () => number
  readonly listeners: Listeners
  readonly signal: AbortSignal | undefined
}

/** `rejected` means that the engine will never create a container from this spec. */
type Finished = { readonly container: Container } | { readonly rejected: Instance }

interface Retry {
  readonly retry: 'other-ports' | 'pull-image' | 'name-taken'
  readonly cause: unknown
}

/** Each attempt creates a container. If this many fail, other programs are using most of the port range. */
const maxAttempts = 20
/** Pause before a retry, giving other clients of the engine time to finish with the same image or container. */
const retryMs = 100

export class ContainerCreation implements Creation {
  ports: readonly number[] = []
  /** Taken before the first await, so that concurrent creations get different numbers. */
  readonly instanceNumber: number
  readonly #deps: ContainerCreationDependencies
  readonly #foreignPorts = new Set<number>()

  constructor(deps: ContainerCreationDependencies) {
    this.#deps = deps
    this.instanceNumber = deps.freeInstanceNumber()
  }

  get uid(): string {
    return this.#deps.spec.uid
  }

  /** Rejects with `conflict`, `ports-exhausted`, `unavailable`, `aborted`. */
  async run(): Promise<CreationOutcome> {
    const { containers, listeners } = this.#deps
    const finished = await this.#untilFinished()
    if ('rejected' in finished) return finished
    const { container } = finished
    containers.remember(container)
    const instance = await containers.instanceOf(container)
    listeners.notifyAll((listener) => listener.changed(instance))
    return { instance }
  }

  async #untilFinished(): Promise<Finished> {
    const { spec, api, ports, images, signal } = this.#deps
    let pulled = false
    let last: Retry | undefined
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      throwIfAborted(signal)
      // Released and taken again without an await in between, so that no other creation can get the same ports.
      this.ports = []
      this.ports = ports.take(spec.portsToExpose.length, this.#foreignPorts)
      const config = this.#config()
      if (config.pullPolicy === 'Always' && !pulled) {
        pulled = true
        await images.ensure(config.image, 'Always', { signal })
      }
      const outcome = await this.#attempt(config)
      if (!('retry' in outcome)) return outcome
      last = outcome
      if (outcome.retry === 'pull-image') await images.ensure(config.image, config.pullPolicy, { signal })
      if (outcome.retry !== 'other-ports') await api.sleep(retryMs, { signal })
    }
    throw this.#outOfAttempts(last)
  }

  #outOfAttempts(last: Retry | undefined): FleetError {
    if (last && last.retry !== 'other-ports') {
      const reason = messageFromEngine(last.cause)
      const message = `the Docker engine did not create the container in ${maxAttempts} attempts: ${reason}`
      return new FleetError('unavailable', message, { cause: last.cause })
    }
    const tried = [...this.#foreignPorts].join(', ')
    return new FleetError(
      'ports-exhausted',
      `other programs on ${this.#deps.engine.node} hold ${maxAttempts} public ports in a row: ${tried}`,
    )
  }

  #config(): ContainerConfig {
    const { spec, fleet, engine, options, address } = this.#deps
    const ports = spec.portsToExpose.map((container, i) => ({ container, public: this.ports[i] ?? 0 }))
    const { instanceNumber } = this
    const identity = { ref: spec.ref, uid: spec.uid, address, instanceNumber, ports }
    return containerConfig({ spec, identity, fleet, engine, options })
  }

  async #attempt({ body, sdk }: ContainerConfig): Promise<Finished | Retry> {
    const { spec, fleet, api, options, signal } = this.#deps
    let id: string
    try {
      id = await api.create(containerName(fleet, spec.ref), body, { signal })
    } catch (error) {
      const status = statusOf(error)
      if (status === 409) return this.#useExisting(error)
      if (status === 404 && /no such image/i.test(messageFromEngine(error)))
        return { retry: 'pull-image', cause: error }
      if (status === 400) return { rejected: this.#rejection(messageFromEngine(error)) }
      throw error
    }
    try {
      await api.putFiles(id, sdkArchive(sdk, options.clock.now()), { signal })
      for (const network of options.networks.slice(1)) await api.connect(network, id, { signal })
      await api.start(id, { signal })
    } catch (error) {
      return this.#afterFailedStart(id, error)
    }
    return { container: await this.#inspect(id) }
  }

  /**
   * Handles an existing container with that name. It is either this instance, created by an earlier call, or a different one,
   * which is a conflict.
   */
  async #useExisting(error: unknown): Promise<Finished | Retry> {
    const { spec, fleet, api, signal } = this.#deps
    const name = containerName(fleet, spec.ref)
    const found = await api.inspect(name, { signal })
    if (found === undefined) return { retry: 'name-taken', cause: error }
    const container = readContainer(fleet, found)
    if (container?.identity.uid !== spec.uid) {
      const owner = container ? 'an earlier instance of the server' : 'a container outside this fleet'
      const message = `cannot create ${keyOf(spec.ref)}: ${owner} has the container name ${name}`
      throw new FleetError('conflict', message, { cause: error })
    }
    if (container.status !== 'created' || isUnrunnable(container)) return { container }
    // An interrupted creation left this container behind without starting it.
    await api.remove(container.id, false, { signal })
    return { retry: 'name-taken', cause: error }
  }

  async #afterFailedStart(id: string, error: unknown): Promise<Finished | Retry> {
    const { api, ports } = this.#deps
    // Without a response the outcome is unknown; the next attempt or the next list determines it.
    if (statusOf(error) === undefined) throw error
    const inUse = portsInUse(error, this.ports)
    if (!inUse) {
      const container = await this.#inspect(id)
      // The container is running after all, or its command cannot be run, which `list` reports.
      if (container.status !== 'created' || isUnrunnable(container)) return { container }
    }
    await api.remove(id, true)
    if (!inUse) throw new FleetError('unavailable', messageFromEngine(error), { cause: error })
    ports.markForeign(inUse)
    for (const port of inUse) this.#foreignPorts.add(port)
    return { retry: 'other-ports', cause: error }
  }

  async #inspect(id: string): Promise<Container> {
    const { fleet, api, signal } = this.#deps
    const container = readContainer(fleet, await api.inspect(id, { signal }))
    if (container) return container
    throw new FleetError('unavailable', 'another client removed the container while it was starting')
  }

  #rejection(reason: string): Instance {
    const { ref, uid } = this.#deps.spec
    const message = `the Docker engine rejects the container: ${reason}`
    return { ref, uid, phase: 'exited', exitCode: 125, reason: message, ports: [] }
  }
}

// Allocates public ports on the engine's machine. Only the engine, which may be remote, knows whether a port is free. So the
// pool picks ports that this fleet does not hold, and callers report the ones that turn out to be taken. Pure, except that it
// reads the clock.

/** Stores no allocations: held ports are read from the containers on every call, so none can leak. */
export class PortPool {
  readonly #rotation: PortRotation
  readonly #foreign: ForeignPorts
  readonly #held: () => Iterable<number>

  constructor(range: PortRange, clock: Clock, held: () => Iterable<number>) {
    this.#rotation = new PortRotation(range)
    this.#foreign = new ForeignPorts(clock)
    this.#held = held
  }

  /**
   * Takes `count` ports. Synchronous, so that concurrent callers get different ports. `tried` contains ports that this caller
   * found to be in use. Throws `ports-exhausted`.
   */
  take(count: number, tried: ReadonlySet<number>): readonly number[] {
    const foreign = this.#foreign.current()
    const held = new Set(this.#held())
    const excluded = new Set([...held, ...tried])
    // Use ports held by other programs only as a last resort: they may have been released in the meantime.
    const taken = this.#rotation.take(count, new Set([...excluded, ...foreign])) ?? this.#rotation.take(count, excluded)
    if (taken) return taken
    const { first, last } = this.#rotation.range
    const own = [...held].filter((port) => port >= first && port <= last).length
    const detail = `${own} held by other servers of this fleet, ${foreign.size} by other programs`
    throw portsExhausted(this.#rotation.range, count, detail)
  }

  /** Records that another container or program holds these ports. */
  markForeign(ports: readonly number[]): void {
    this.#foreign.mark(ports)
  }
}
