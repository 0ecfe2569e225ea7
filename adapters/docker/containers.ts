/**
 * The containers of one fleet: what is known of them between two looks at the engine, and what the engine says when it is
 * asked. Removes only what was made and never started.
 */
import type { Instance } from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import { messageOf } from '../../src/contracts/errors.js'
import type { Logger } from '../../src/contracts/logger.js'
import type { Listeners } from '../shared/listeners.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import type { EngineApi } from './engine-api.js'
import type { ContainerEvent } from './events.js'
import {
  type Container,
  hasEnded,
  instanceOf,
  isUnrunnable,
  type Listed,
  readContainer,
  readListed,
  runningInstance,
  timeOf,
} from './instance.js'
import { containerName, fleetFilter, type Identity, serverFilter } from './labels.js'
import { containerLogs } from './logs.js'

export interface ContainersInput {
  readonly api: EngineApi
  readonly fleet: string
  /** Name of the engine's machine. */
  readonly node: string
  readonly listeners: Listeners
  readonly logger: Logger
  /** The creation of a server that is under way. */
  readonly creating: (key: string) => Promise<unknown> | undefined
}

interface Known {
  readonly id: string
  readonly identity: Identity
  /** Grows: what was learned after a list was asked for is newer than the list. */
  readonly learned: number
}

export class Containers {
  readonly #input: ContainersInput
  readonly #known = new Map<string, Known>()
  /** Exited containers do not change any more: what was found out about one is kept while it is listed. */
  #exited = new Map<string, Instance>()
  #learned = 0
  /** In ms of the engine's wall time; NaN when it does not tell. */
  #engineStartedAt = NaN

  constructor(input: ContainersInput) {
    this.#input = input
  }

  *heldPorts(): Generator<number> {
    for (const { identity } of this.#known.values()) for (const port of identity.ports) yield port.public
  }

  learn({ id, identity }: Pick<Container, 'id' | 'identity'>): void {
    this.#known.set(keyOf(identity.ref), { id, identity, learned: ++this.#learned })
  }

  /** It is no more, unless there is another one for this server by now. */
  forget({ id, identity }: Pick<Container, 'id' | 'identity'>): void {
    if (this.#isKnown(id, identity.ref)) this.#known.delete(keyOf(identity.ref))
  }

  /** The engine makes its default bridge anew whenever it starts, unless containers have outlived the one before. */
  async learnStart(signal?: AbortSignal): Promise<void> {
    const bridge = await this.#input.api.network('bridge', { signal })
    this.#engineStartedAt = timeOf(isObject(bridge) ? bridge['Created'] : undefined)
  }

  /**
   * The container of this server, whoever has made it, and by whatever name it goes by now; one of its name that is not this
   * fleet's does not count. With `uid` only that instance of it.
   */
  async find(ref: Ref, uid?: string): Promise<Container | undefined> {
    const { api, fleet } = this.#input
    const isMeant = ({ identity }: Pick<Container, 'identity'>) => uid === undefined || identity.uid === uid
    const named = await this.inspect(containerName(fleet, ref))
    if (named && isMeant(named)) return named
    // Names can be changed, labels cannot.
    const listed = (await api.list(serverFilter(fleet, ref))).flatMap((one) => readListed(fleet, one) ?? [])
    const renamed = listed.find(isMeant)
    return renamed && this.inspect(renamed.id)
  }

  async inspect(idOrName: string, signal?: AbortSignal): Promise<Container | undefined> {
    return readContainer(this.#input.fleet, await this.#input.api.inspect(idOrName, { signal }))
  }

  async list(options: CallOptions): Promise<readonly Instance[]> {
    const { api, fleet, creating } = this.#input
    const asked = this.#learned
    const listed = (await api.list([fleetFilter(fleet)], options)).flatMap((one) => readListed(fleet, one) ?? [])
    // One that is just being made is told of by its creation.
    const settled = listed.filter(({ status, identity }) => status !== 'created' || !creating(keyOf(identity.ref)))
    this.#catchUp(settled, asked)
    const exited = new Map<string, Instance>()
    const instances = await Promise.all(
      settled.map(async (one) => {
        const mark = `${one.id} ${one.exit}`
        const instance = this.#exited.get(mark) ?? (await this.#lookAt(one, options))
        if (instance?.phase === 'exited') exited.set(mark, instance)
        return instance
      }),
    )
    this.#exited = exited
    return instances.filter((instance) => instance !== undefined)
  }

  async shownAs(container: Container, signal?: AbortSignal): Promise<Instance> {
    const { status, exitCode, error, id, finishedAt, outOfMemory } = container
    // The engine may be another one than a moment ago, before its events have said so.
    if (hasEnded(container)) await this.learnStart(signal)
    const isUnclear = status === 'exited' && [126, 127].includes(exitCode) && error === ''
    return instanceOf(container, this.#input.node, {
      lastWords: isUnclear ? await this.#lastWords(id) : '',
      endedWithEngine: finishedAt < this.#engineStartedAt && !outOfMemory,
    })
  }

  /** What an event says is only that something has happened: what is so now, the engine is asked. Never throws. */
  take(event: ContainerEvent): void {
    const { listeners, logger } = this.#input
    this.#follow(event).catch((error: unknown) => {
      logger.debug({ error: messageOf(error) }, 'an event of the Docker engine could not be followed')
      listeners.tellAll((listener) => listener.resync())
    })
  }

  async #follow({ id, identity, action }: ContainerEvent): Promise<void> {
    const { listeners, creating } = this.#input
    const { ref, uid } = identity
    const underway = creating(keyOf(ref))
    // Its creation looks at it after the start, and tells.
    if (underway && action === 'start') return
    // What its creation makes of it comes first; one that fails has said so to its caller.
    await underway?.catch(() => {})
    // An earlier try of the same creation, or an earlier container of that name.
    if (!this.#isKnown(id, ref)) return
    if (action === 'destroy') {
      this.#known.delete(keyOf(ref))
      listeners.tellAll((listener) => listener.gone(ref, uid))
      return
    }
    const container = await this.inspect(id)
    if (!container || container.status === 'removing' || !this.#isKnown(id, ref)) return
    const instance = await this.shownAs(container)
    listeners.tellAll((listener) => listener.changed(instance))
  }

  #isKnown(id: string, ref: Ref): boolean {
    return this.#known.get(keyOf(ref))?.id === id
  }

  #catchUp(listed: readonly Listed[], asked: number): void {
    const ids = new Set(listed.map((one) => one.id))
    for (const [key, known] of this.#known) {
      if (known.learned <= asked && !ids.has(known.id)) this.#known.delete(key)
    }
    for (const one of listed) {
      const known = this.#known.get(keyOf(one.identity.ref))
      if (!known || known.learned <= asked) this.learn(one)
    }
  }

  /** Undefined when it is gone, or was never started and is removed. */
  async #lookAt(one: Listed, options: CallOptions): Promise<Instance | undefined> {
    const { api, node, logger, creating } = this.#input
    if (one.status === 'running' || one.status === 'restarting') return runningInstance(one.identity, node)
    const container = await this.inspect(one.id, options.signal)
    if (!container) return undefined
    if (container.status !== 'created' || isUnrunnable(container)) return this.shownAs(container, options.signal)
    if (creating(keyOf(one.identity.ref))) return undefined
    // Its creation was cut short, by the end of a host or of the engine. Whoever wants it asks for it again.
    try {
      await api.remove(one.id, false, options)
    } catch (error) {
      // It has been started after all, or somebody else removes it: the next list shows it.
      logger.debug({ container: one.id, error: messageOf(error) }, 'a half made container was not removed')
    }
    this.forget(one)
    return undefined
  }

  async #lastWords(id: string): Promise<string> {
    const { api, logger } = this.#input
    let last = ''
    try {
      for await (const line of containerLogs({ api, id, isRunning: async () => false }, { tail: 1 })) last = line
    } catch (error) {
      // The exit code alone has to do.
      logger.debug({ container: id, error: messageOf(error) }, 'the last line of a log could not be read')
    }
    return last
  }
}
