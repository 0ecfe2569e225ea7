/** Ensures that the engine has an image. Concurrent callers share one pull. */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { unlessAborted } from '../../src/util/signals.js'
import { InFlight } from '../shared/in-flight.js'
import { readImageName } from '../shared/image-name.js'
import { jsonLinesOf } from './docker-client.js'
import { type EngineApi, messageFromEngine, statusOf } from './engine-api.js'
import type { PullPolicy, RegistryAuth } from './options.js'

interface EnsureOptions {
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((message: string) => void) | undefined
}

export class Images {
  readonly #deps: ImagePullDependencies
  readonly #pulls = new InFlight<ImagePull, void>()

  constructor(deps: ImagePullDependencies) {
    this.#deps = deps
  }

  /**
   * Resolves once the engine has the image, pulled as the policy requires. Rejects with `unavailable` and the registry's
   * message if the pull fails. If a caller aborts, the pull continues.
   */
  async ensure(image: string, policy: PullPolicy, { signal, onProgress }: EnsureOptions = {}): Promise<void> {
    if (!this.#pulls.has(image)) {
      if (policy !== 'Always' && (await this.#deps.api.hasImage(image, { signal }))) return
      if (policy === 'Never') {
        const message = `the Docker engine has no image ${image}, and the pull policy is Never: build or load it there`
        throw new FleetError('unavailable', message)
      }
    }
    const { operation: pull, done } = this.#pulls.get(image) ?? this.#start(image)
    const removeListener = onProgress && pull.addListener(onProgress)
    try {
      await unlessAborted(done, signal)
    } finally {
      removeListener?.()
    }
  }

  #start(image: string) {
    const operation = new ImagePull(image, this.#deps)
    const done = this.#pulls.start(image, operation, () => operation.run())
    // Every waiting caller receives the failure. If no caller is left, it must not become an unhandled rejection.
    done.catch(() => {})
    return { operation, done }
  }
}

interface ImagePullDependencies {
  readonly api: EngineApi
  readonly clock: Clock
  /** A pull that makes no progress for this long fails. */
  readonly idleTimeoutMs: number
  /** Credentials by registry. */
  readonly registryAuth: Readonly<Record<string, RegistryAuth>>
}

const progressIntervalMs = 1_000

class ImagePull {
  readonly #image: string
  readonly #deps: ImagePullDependencies
  readonly #progress = new LayerProgress()
  readonly #listeners = new Set<(message: string) => void>()
  #message: string
  #cancelReport: (() => void) | undefined
  #hasNews = false

  constructor(image: string, deps: ImagePullDependencies) {
    this.#image = image
    this.#deps = deps
    this.#message = `pulling image ${image}`
  }

  /** Adds a listener, which immediately receives the last message. Returns a function that removes it. */
  addListener(listener: (message: string) => void): () => void {
    this.#listeners.add(listener)
    listener(this.#message)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Rejects with `unavailable` and the registry's message if the pull fails. */
  async run(): Promise<void> {
    const { api, clock, idleTimeoutMs } = this.#deps
    let isIdle = false
    let cancelIdle = () => {}
    try {
      const { stream, stop } = await this.#start()
      const onIdle = () => {
        isIdle = true
        stop()
      }
      cancelIdle = clock.after(idleTimeoutMs, onIdle)
      for await (const line of jsonLinesOf(stream)) {
        if (!isObject(line)) continue
        if (typeof line['error'] === 'string') throw this.#failure(line['error'])
        if (this.#progress.add(line)) {
          cancelIdle()
          cancelIdle = clock.after(idleTimeoutMs, onIdle)
        }
        this.#hasNews = true
        if (!this.#cancelReport) this.#report()
      }
    } catch (error) {
      if (isIdle) throw this.#failure(`no progress for ${idleTimeoutMs / 1000} s`, error)
      if (FleetError.is(error) && statusOf(error) === undefined) throw error
      throw this.#failure(
        FleetError.is(error) ? messageFromEngine(error) : `connection lost: ${messageOf(error)}`,
        error,
      )
    } finally {
      cancelIdle()
      this.#cancelReport?.()
    }
    if (!(await api.hasImage(this.#image)))
      throw this.#failure('the pull ended without an error, but the engine does not have the image')
  }

  #start() {
    const name = readImageName(this.#image)
    if (!name) throw new FleetError('invalid', `${this.#image} is not an image name`)
    const { repository, tag, registry } = name
    const credentials = this.#deps.registryAuth[registry]
    const auth = credentials && { ...credentials, serveraddress: registry }
    return this.#deps.api.pull({ fromImage: repository, tag }, auth)
  }

  /** Notifies listeners immediately, then once per interval while the pull makes progress. */
  #report(): void {
    this.#cancelReport = undefined
    if (!this.#hasNews) return
    this.#hasNews = false
    this.#message = `pulling image ${this.#image}${this.#progress.text()}`
    for (const listener of this.#listeners) listener(this.#message)
    this.#cancelReport = this.#deps.clock.after(progressIntervalMs, () => this.#report())
  }

  #failure(reason: string, cause?: unknown): FleetError {
    return new FleetError('unavailable', `cannot pull image ${this.#image}: ${reason}`, { cause })
  }
}

/** Sums the progress of all layers in a pull. */
class LayerProgress {
  readonly #layers = new Map<string, { current: number; total: number }>()

  /** Returns true if the line shows progress. */
  add(line: Readonly<Record<string, unknown>>): boolean {
    const { id, status, progressDetail } = line
    if (typeof id !== 'string' || !isObject(progressDetail)) return true
    const { current, total } = progressDetail
    if (status !== 'Downloading' || typeof current !== 'number' || typeof total !== 'number') return true
    const before = this.#layers.get(id)
    this.#layers.set(id, { current, total })
    return before?.current !== current
  }

  text(): string {
    let current = 0
    let total = 0
    for (const layer of this.#layers.values()) {
      current += layer.current
      total += layer.total
    }
    return total === 0 ? '' : `: ${Math.floor((100 * current) / total)} % of ${(total / 1e6).toFixed(1)} MB`
  }
}
