/**
 * Makes one container and starts it. Can be cut short at any moment: what is left has the name of its server, so that the
 * next try finds it, and was not started, so that the next list removes it.
 */
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { FleetError, throwIfAborted } from '../../src/contracts/errors.js'
import { keyOf } from '../../src/rules/model/resources.js'
import type { EngineApi } from './engine-api.js'
import { statusOf, takenPorts, wordsOf } from './engine-errors.js'
import type { Images } from './images.js'
import { type Container, isUnrunnable, readContainer } from './instance.js'
import { containerName } from './labels.js'
import type { ResolvedDockerOptions } from './options.js'
import type { PortPool } from './ports.js'
import { sdkArchive } from './sdk-files.js'
import { type Engine, type Translated, translate } from './translate.js'

export interface CreationInput {
  readonly spec: InstanceSpec
  readonly fleet: string
  readonly engine: Engine
  readonly options: ResolvedDockerOptions
  /** Where players connect. */
  readonly address: string
  readonly api: EngineApi
  readonly images: Images
  readonly ports: PortPool
  readonly signal: AbortSignal | undefined
}

/** `refused`: the engine will never make a container of it. */
export type Created = { readonly container: Container } | { readonly refused: Instance }

type Attempt = Created | { readonly again: 'ports' | 'image' | 'leftover'; readonly why: unknown }

/** Each costs the engine a container: beyond that somebody else has the whole range. */
const mostAttempts = 20
/** What somebody else is just doing to the same image or container takes a moment. */
const pauseMs = 100

export class Creation {
  readonly #input: CreationInput
  /** Public numbers that nobody else may get meanwhile. */
  ports: readonly number[] = []
  readonly #tried = new Set<number>()

  constructor(input: CreationInput) {
    this.#input = input
  }

  get uid(): string {
    return this.#input.spec.uid
  }

  get node(): string {
    return this.#input.engine.node
  }

  /** Rejects with `conflict`, `ports-exhausted`, `unavailable`, `aborted`. */
  async run(): Promise<Created> {
    const { spec, api, ports, images, signal } = this.#input
    let pulled = false
    let last: Exclude<Attempt, Created> | undefined
    for (let attempt = 1; attempt <= mostAttempts; attempt++) {
      throwIfAborted(signal)
      // In this very tick, so that no other creation gets the same.
      this.ports = []
      this.ports = ports.take(spec.portsToExpose.length, this.#tried)
      const translated = this.#translate()
      if (translated.pullPolicy === 'Always' && !pulled) {
        pulled = true
        await images.ensure(translated.image, 'Always', { signal })
      }
      const outcome = await this.#attempt(translated)
      if (!('again' in outcome)) return outcome
      last = outcome
      if (outcome.again === 'image') await images.ensure(translated.image, translated.pullPolicy, { signal })
      if (outcome.again !== 'ports') await api.pause(pauseMs, { signal })
    }
    if (last && last.again !== 'ports') {
      const message = `the Docker engine has not made it in ${mostAttempts} tries: ${wordsOf(last.why)}`
      throw new FleetError('unavailable', message, { cause: last.why })
    }
    throw new FleetError(
      'ports-exhausted',
      `${mostAttempts} public ports in a row are held by other programs on ${this.node}: ${[...this.#tried].join(', ')}`,
    )
  }

  #translate(): Translated {
    const { spec, fleet, engine, options, address } = this.#input
    const ports = spec.portsToExpose.map((container, i) => ({ container, public: this.ports[i] ?? 0 }))
    return translate({ spec, identity: { ref: spec.ref, uid: spec.uid, address, ports }, fleet, engine, options })
  }

  async #attempt({ body, sdk }: Translated): Promise<Attempt> {
    const { spec, fleet, api, options, signal } = this.#input
    let id: string
    try {
      id = await api.create(containerName(fleet, spec.ref), body, { signal })
    } catch (error) {
      const status = statusOf(error)
      if (status === 409) return this.#meetNamesake(error)
      if (status === 404 && /no such image/i.test(wordsOf(error))) return { again: 'image', why: error }
      if (status === 400) return { refused: this.#refusal(wordsOf(error)) }
      throw error
    }
    try {
      await api.putFiles(id, sdkArchive(sdk, options.clock.now()), { signal })
      for (const network of options.networks.slice(1)) await api.connect(network, id, { signal })
      await api.start(id, { signal })
    } catch (error) {
      return this.#meetFailedStart(id, error)
    }
    return { container: await this.#inspect(id) }
  }

  /** There is a container of that name: this very one, from a call before, or one that is in the way. */
  async #meetNamesake(error: unknown): Promise<Attempt> {
    const { spec, fleet, api, signal } = this.#input
    const found = await api.inspect(containerName(fleet, spec.ref), { signal })
    if (found === undefined) return { again: 'leftover', why: error }
    const container = readContainer(fleet, found)
    if (container?.identity.uid !== spec.uid) {
      const whose = container ? 'an earlier instance of it' : 'a container that is not of this fleet'
      const message = `${keyOf(spec.ref)} cannot be created: ${whose} has the name ${containerName(fleet, spec.ref)}`
      throw new FleetError('conflict', message, { cause: error })
    }
    if (container.status !== 'created' || isUnrunnable(container)) return { container }
    // Nobody has come to start it.
    await api.remove(container.id, false, { signal })
    return { again: 'leftover', why: error }
  }

  async #meetFailedStart(id: string, error: unknown): Promise<Attempt> {
    const { api } = this.#input
    // Without an answer nobody knows how far it came: the next try, or the next list, finds out.
    if (statusOf(error) === undefined) throw error
    const taken = takenPorts(error, this.ports)
    if (!taken) {
      const container = await this.#inspect(id)
      // It runs after all, or its command cannot be run, which its container says from now on.
      if (container.status !== 'created' || isUnrunnable(container)) return { container }
    }
    await api.remove(id, true)
    if (!taken) throw new FleetError('unavailable', wordsOf(error), { cause: error })
    this.#input.ports.markForeign(taken)
    for (const port of taken) this.#tried.add(port)
    return { again: 'ports', why: error }
  }

  async #inspect(id: string): Promise<Container> {
    const { fleet, api, signal } = this.#input
    const container = readContainer(fleet, await api.inspect(id, { signal }))
    if (container) return container
    throw new FleetError('unavailable', 'its container was removed by somebody else while it was being started')
  }

  #refusal(reason: string): Instance {
    const { ref, uid } = this.#input.spec
    return { ref, uid, phase: 'exited', exitCode: 125, reason: `the Docker engine refuses it: ${reason}`, ports: [] }
  }
}
