/** Lists, finds and follows the containers of one fleet. Removes only containers that were created but never started. */
import type { Instance } from '../../../src/contracts/backend.js'
import type { CallOptions } from '../../../src/contracts/call-options.js'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import type { Listeners } from '../../shared/backend-lifecycle.js'
import type { Creation, Creations } from '../../shared/in-flight.js'
import type { EngineApi } from '../engine-api.js'
import type { ContainerEvent } from './container-events.js'
import {
  type Container,
  type EngineMachine,
  hasExited,
  instanceOf,
  isUnrunnable,
  type ListedContainer,
  readContainer,
  readListed,
  runningInstance,
  timeOf,
} from './instance.js'
import { containerName, fleetFilter, type Identity, serverFilter } from './labels.js'
import { containerLogs } from './logs.js'

interface ContainersDependencies {
  readonly api: EngineApi
  readonly fleet: string
  readonly machine: EngineMachine
  readonly creations: Pick<Creations<Creation>, 'has' | 'settled'>
  readonly listeners: Listeners
  readonly clock: Clock
  readonly logger: Logger
}

/** How long an exit is held back for the event that explains it. */
const explanationMs = 500

export class Containers {
  readonly #deps: ContainersDependencies
  readonly #cache = new ContainerCache()
  /**
   * Instances of exited containers, which no longer change, by container id and exit code. Kept while the containers are
   * listed.
   */
  #exited = new Map<string, Instance>()
  /**
   * Ids of containers with an `oom` event. The engine learns of the kill and of the exit from two sources. If it hears of the exit
   * first, its description of the container never shows the kill.
   */
  readonly #outOfMemory = new Set<string>()
  /** Ids of containers that the engine has sent a signal that ends them. */
  readonly #signalled = new Set<string>()
  /** How many events have explained exits. */
  #explanations = 0
  /** Exits that wait for an `oom` event, by container id. */
  readonly #unexplained = new Map<string, () => void>()
  /** In ms of the engine's wall clock; NaN if unknown. */
  #engineStartedAt = NaN

  constructor(deps: ContainersDependencies) {
    this.#deps = deps
  }

  takenPorts(): Iterable<number> {
    return this.#cache.takenPorts()
  }

  instanceNumbers(): Iterable<number> {
    return this.#cache.instanceNumbers()
  }

  remember(container: Pick<Container, 'id' | 'identity'>): void {
    this.#cache.set(container)
  }

  forget({ id, identity }: Pick<Container, 'id' | 'identity'>): void {
    this.#cache.delete(id, identity.ref)
  }

  /**
   * Reads when the engine started, from the creation time of its default bridge. The engine recreates the bridge when it
   * starts, unless containers survived the restart.
   */
  async readEngineStart(signal?: AbortSignal): Promise<void> {
    const bridge = await this.#deps.api.network('bridge', { signal })
    this.#engineStartedAt = timeOf(isObject(bridge) ? bridge['Created'] : undefined)
  }

  /** Finds the server's container, even if it was renamed. With `uid`, returns only the container of that instance. */
  async find(ref: Ref, uid?: string): Promise<Container | undefined> {
    const { api, fleet } = this.#deps
    const matches = ({ identity }: Pick<Container, 'identity'>) => uid === undefined || identity.uid === uid
    const named = await this.inspect(containerName(fleet, ref))
    if (named && matches(named)) return named
    // Labels, unlike names, cannot be changed.
    const listed = (await api.list(serverFilter(fleet, ref))).flatMap((entry) => readListed(fleet, entry) ?? [])
    const renamed = listed.find(matches)
    return renamed && this.inspect(renamed.id)
  }

  /** Returns undefined if the fleet has no such container. */
  async inspect(idOrName: string, signal?: AbortSignal): Promise<Container | undefined> {
    return readContainer(this.#deps.fleet, await this.#deps.api.inspect(idOrName, { signal }))
  }

  async list(options: CallOptions): Promise<readonly Instance[]> {
    const { api, fleet } = this.#deps
    const { sequence } = this.#cache
    const entries = await api.list([fleetFilter(fleet)], options)
    const listed = entries
      .flatMap((entry) => readListed(fleet, entry) ?? [])
      .filter((one) => !this.#isBeingCreated(one))
    this.#cache.replace(listed, sequence)
    const exited = new Map<string, Instance>()
    const explained = this.#explanations
    const instances = await Promise.all(
      listed.map(async (container) => {
        const key = `${container.id} ${container.exit}`
        const instance = this.#exited.get(key) ?? (await this.#listedInstance(container, options))
        // An event during the list has explained the exit better than this instance.
        if (instance?.phase === 'exited' && this.#explanations === explained) exited.set(key, instance)
        return instance
      }),
    )
    this.#exited = exited
    const ids = new Set(listed.map(({ id }) => id))
    for (const known of [this.#outOfMemory, this.#signalled]) for (const id of known) if (!ids.has(id)) known.delete(id)
    return instances.filter((instance) => instance !== undefined)
  }

  async instanceOf(container: Container, signal?: AbortSignal): Promise<Instance> {
    const { status, exitCode, error, id } = container
    // The engine may have restarted since its start time was last read.
    if (hasExited(container)) await this.readEngineStart(signal)
    const isUnexplained = status === 'exited' && [126, 127].includes(exitCode) && error === ''
    const lastLogLine = isUnexplained ? await this.#lastLogLine(container) : ''
    // The event may have come during these calls.
    const outOfMemory = container.outOfMemory || this.#outOfMemory.has(id)
    return instanceOf({ ...container, outOfMemory }, this.#deps.machine, {
      lastLogLine,
      interruption: outOfMemory ? undefined : this.#interruptionOf(container),
    })
  }

  #interruptionOf({ id, exitCode, finishedAt }: Container): string | undefined {
    if (finishedAt < this.#engineStartedAt) return 'the Docker engine went down'
    // An engine that shuts down stops its containers first, those that start at this moment among them.
    return exitCode === 0 && this.#signalled.has(id)
      ? 'the Docker engine was asked to stop it, or shut down'
      : undefined
  }

  /** Reads the container that an event refers to and notifies the listeners. Never throws. */
  onEvent(event: ContainerEvent): void {
    const { listeners, logger } = this.#deps
    this.#follow(event).catch((error: unknown) => {
      logger.debug({ err: error }, 'cannot handle a Docker event')
      listeners.notifyAll((listener) => listener.resync())
    })
  }

  async #follow({ id, identity, action }: ContainerEvent): Promise<void> {
    const { listeners, creations } = this.#deps
    const { ref, uid } = identity
    if (action === 'oom') this.#killedForMemory(id)
    if (action === 'kill') {
      this.#signalled.add(id)
      this.#explainAgain(id)
      return
    }
    if (action === 'start') for (const known of [this.#outOfMemory, this.#signalled]) known.delete(id)
    // The creation itself notifies the listeners after the start.
    if (action === 'start' && creations.has(keyOf(ref))) return
    await creations.settled(keyOf(ref))
    // The event may refer to a container from an earlier attempt of the creation, or to an earlier container of the server.
    if (!this.#cache.isCurrent(id, ref)) return
    if (action === 'destroy') {
      this.#cache.delete(id, ref)
      listeners.notifyAll((listener) => listener.gone(ref, uid))
      return
    }
    let container = await this.inspect(id)
    if (container && mayBeOutOfMemory(container)) {
      await this.#explained(id)
      // It may have been removed or started again meanwhile.
      container = await this.inspect(id)
    }
    if (!container || container.status === 'removing' || !this.#cache.isCurrent(id, ref)) return
    const instance = await this.instanceOf(container)
    listeners.notifyAll((listener) => listener.changed(instance))
  }

  #killedForMemory(id: string): void {
    this.#outOfMemory.add(id)
    this.#unexplained.get(id)?.()
    this.#explainAgain(id)
  }

  /** The next list looks again at why the container exited. */
  #explainAgain(id: string): void {
    this.#explanations++
    for (const key of this.#exited.keys()) if (key.startsWith(`${id} `)) this.#exited.delete(key)
  }

  /** Resolves when the `oom` event of the container has come, or after a moment. */
  async #explained(id: string): Promise<void> {
    if (this.#outOfMemory.has(id)) return
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      this.#unexplained.set(id, resolve)
      cancel = this.#deps.clock.after(explanationMs, resolve)
    })
    cancel()
    this.#unexplained.delete(id)
  }

  /**
   * Whether a creation in progress has created this container but not started it yet. That creation reports the container
   * itself.
   */
  #isBeingCreated({ status, identity }: ListedContainer): boolean {
    return status === 'created' && this.#deps.creations.has(keyOf(identity.ref))
  }

  /** Returns undefined if the container was removed, including by this call because it was never started. */
  async #listedInstance(listed: ListedContainer, options: CallOptions): Promise<Instance | undefined> {
    const { api, machine, logger, creations } = this.#deps
    const { id, status, identity } = listed
    if (status === 'running' || status === 'restarting') return runningInstance(identity, machine)
    const container = await this.inspect(id, options.signal)
    if (!container || neverRan(container)) return undefined
    if (container.status !== 'created' || isUnrunnable(container)) return this.instanceOf(container, options.signal)
    if (creations.has(keyOf(identity.ref))) return undefined
    // A host or the engine stopped during the creation. If the server is still wanted, the fleet creates its container again.
    try {
      await api.remove(id, false, options)
    } catch (error) {
      // The container was started after all, or another client is removing it: the next list shows which.
      logger.debug({ err: error, container: id }, 'cannot remove a container that was never started')
    }
    this.forget(listed)
    return undefined
  }

  async #lastLogLine({ id, tty }: Container): Promise<string> {
    const { api, logger } = this.#deps
    let last = ''
    try {
      for await (const line of containerLogs({ api, id, tty, isRunning: async () => false }, { tail: 1 })) last = line
    } catch (error) {
      // The exit reason is then less specific.
      logger.debug({ err: error, container: id }, 'cannot read the last log line')
    }
    return last
  }
}

/** Whether it is being removed before it ever ran; the engine shows such a container as one that exited with 0. */
function neverRan({ status, finishedAt }: Container): boolean {
  return status === 'removing' && Number.isNaN(finishedAt)
}

/** Whether a container with a memory limit was killed, and the engine does not say why. */
function mayBeOutOfMemory(container: Container): boolean {
  const { exitCode, memoryLimit, outOfMemory, error } = container
  return hasExited(container) && exitCode === 137 && memoryLimit > 0 && !outOfMemory && error === ''
}

// The last known container of each server, for lookups that must not call the engine.

type ContainerID = Pick<Container, 'id' | 'identity'>

interface Entry extends ContainerID {
  /** Increases with every change, to tell which entries are newer than a list. */
  readonly sequence: number
}

class ContainerCache {
  readonly #entries = new Map<string, Entry>()
  #sequence = 0

  /** Read this before requesting a list, then pass it to `replace` together with the list. */
  get sequence(): number {
    return this.#sequence
  }

  *takenPorts(): Generator<number> {
    for (const { identity } of this.#entries.values()) for (const port of identity.ports) yield port.public
  }

  *instanceNumbers(): Generator<number> {
    for (const { identity } of this.#entries.values()) yield identity.instanceNumber
  }

  /** Whether this container is the server's current one. */
  isCurrent(id: string, ref: Ref): boolean {
    return this.#entries.get(keyOf(ref))?.id === id
  }

  set({ id, identity }: { readonly id: string; readonly identity: Identity }): void {
    this.#entries.set(keyOf(identity.ref), { id, identity, sequence: ++this.#sequence })
  }

  /** Removes the container, unless the server now has a different one. */
  delete(id: string, ref: Ref): void {
    if (this.isCurrent(id, ref)) this.#entries.delete(keyOf(ref))
  }

  /** Replaces all entries, except newer ones, with a list that was requested at `sequence`. */
  replace(listed: readonly ListedContainer[], sequence: number): void {
    const ids = new Set(listed.map(({ id }) => id))
    for (const [key, entry] of this.#entries) {
      if (entry.sequence <= sequence && !ids.has(entry.id)) this.#entries.delete(key)
    }
    for (const container of listed) {
      const entry = this.#entries.get(keyOf(container.identity.ref))
      if (!entry || entry.sequence <= sequence) this.set(container)
    }
  }
}
