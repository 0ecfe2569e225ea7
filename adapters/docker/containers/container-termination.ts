/**
 * Terminates a container: sends its stop signal, waits for the grace period, then kills the container if necessary and
 * removes it.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { Creation, Creations, Termination } from '../../shared/in-flight.js'
import type { Listeners } from '../../shared/backend-lifecycle.js'
import type { Containers } from './containers.js'
import { type EngineApi, statusOf } from '../engine-api.js'
import { type Container, isRunning } from './instance.js'

const removeRetryMs = 100

interface ContainerTerminationDependencies {
  readonly api: EngineApi
  readonly clock: Clock
  readonly containers: Containers
  readonly creations: Pick<Creations<Creation>, 'settled' | 'forgetRejected'>
  readonly listeners: Listeners
  /** Maximum duration of a single wait for the engine. */
  readonly timeoutMs: number
}

export class ContainerTermination implements Termination {
  readonly uid: string
  readonly #ref: Ref
  readonly #deps: ContainerTerminationDependencies
  /** Resolves once the container has received its termination signal, or `run` has settled. */
  readonly signalled: Promise<void>
  #resolveSignalled = () => {}
  #deadline: number
  #wake = () => {}

  constructor(ref: Ref, uid: string, graceMs: number, deps: ContainerTerminationDependencies) {
    this.#ref = ref
    this.uid = uid
    this.#deps = deps
    this.#deadline = deps.clock.elapsed() + graceMs
    this.signalled = new Promise((resolve) => (this.#resolveSignalled = resolve))
  }

  shorten(graceMs: number): void {
    this.#deadline = Math.min(this.#deadline, this.#deps.clock.elapsed() + graceMs)
    this.#wake()
  }

  async run(): Promise<void> {
    try {
      await this.#terminate()
    } finally {
      this.#resolveSignalled()
    }
  }

  async #terminate(): Promise<void> {
    const { containers, creations, listeners } = this.#deps
    await creations.settled(keyOf(this.#ref))
    creations.forgetRejected(this.#ref, this.uid)
    const container = await containers.find(this.#ref, this.uid)
    if (!container) return
    await this.#stopAndRemove(container)
    containers.forget(container)
    listeners.notifyAll((listener) => listener.gone(this.#ref, this.uid))
  }

  async #stopAndRemove(container: Container): Promise<void> {
    const { id, stopSignal } = container
    if (isRunning(container) && this.#remainingMs() > 0) {
      await this.#deps.api.signal(id, stopSignal)
      this.#resolveSignalled()
      await this.#waitUntilStopped(id)
    }
    await this.#remove(id)
  }

  async #waitUntilStopped(id: string): Promise<void> {
    const { api, timeoutMs } = this.#deps
    for (let ms = this.#remainingMs(); ms > 0; ms = this.#remainingMs()) {
      const wakeUp = new AbortController()
      this.#wake = () => wakeUp.abort()
      try {
        // Split into several calls, because a connection may die unnoticed.
        if (await api.waitUntilStopped(id, Math.min(ms, timeoutMs), { signal: wakeUp.signal })) return
      } catch (error) {
        if (!FleetError.is(error, 'aborted')) throw error
      } finally {
        this.#wake = () => {}
      }
    }
  }

  /** Retries if another client is removing the container or the engine cannot unmount it yet. */
  async #remove(id: string): Promise<void> {
    const { api, clock, timeoutMs } = this.#deps
    const giveUpAt = clock.elapsed() + timeoutMs
    for (;;) {
      try {
        await api.remove(id, true)
        return
      } catch (error) {
        const status = statusOf(error)
        const isRetryable = status === 409 || status === 500
        if (!isRetryable || clock.elapsed() >= giveUpAt) throw error
        if ((await api.inspect(id)) === undefined) return
        await new Promise<void>((resolve) => void clock.after(removeRetryMs, resolve))
      }
    }
  }

  #remainingMs(): number {
    return this.#deadline - this.#deps.clock.elapsed()
  }
}
