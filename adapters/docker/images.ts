/** Has the engine pull images: once, however many wait, and with words for how far it is and why it failed. */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { unlessAborted } from '../../src/util/signals.js'
import { isObject } from '../../src/rules/validation/problem.js'
import type { EngineApi } from './engine-api.js'
import { statusOf, wordsOf } from './engine-errors.js'
import { readImageName } from './image-name.js'
import { jsonLinesOf } from './lines.js'
import type { PullPolicy, RegistryAuth } from './options.js'

export interface EnsureOptions {
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((message: string) => void) | undefined
}

export interface ImagesInput {
  readonly api: EngineApi
  readonly clock: Clock
  readonly idleMs: number
  readonly auth: Readonly<Record<string, RegistryAuth>>
}

interface Pull {
  readonly done: Promise<void>
  readonly listeners: Set<(message: string) => void>
  told?: string
}

const tellEveryMs = 1_000

export class Images {
  readonly #input: ImagesInput
  readonly #pulls = new Map<string, Pull>()

  constructor(input: ImagesInput) {
    this.#input = input
  }

  /**
   * Resolves when the engine has the image, as the policy wants it. Rejects with `unavailable` and the registry's words.
   * A caller that goes away leaves the pull to the others, and to whoever comes again.
   */
  async ensure(image: string, policy: PullPolicy, { signal, onProgress }: EnsureOptions = {}): Promise<void> {
    if (!this.#pulls.has(image)) {
      const isThere = policy !== 'Always' && (await this.#input.api.hasImage(image, { signal }))
      if (isThere) return
      if (policy === 'Never') {
        const message = `the Docker engine has no image ${image}, and the pull policy is Never: build or load it there`
        throw new FleetError('unavailable', message)
      }
    }
    let pull = this.#pulls.get(image)
    if (!pull) {
      const listeners: Pull['listeners'] = new Set()
      pull = { listeners, done: this.#pull(image, listeners).finally(() => this.#pulls.delete(image)) }
      this.#pulls.set(image, pull)
      // Each caller is told; should all have gone, nobody needs to be.
      pull.done.catch(() => {})
    }
    if (onProgress) {
      pull.listeners.add(onProgress)
      onProgress(pull.told ?? `pulling image ${image}`)
    }
    try {
      await unlessAborted(pull.done, signal)
    } finally {
      if (onProgress) pull.listeners.delete(onProgress)
    }
  }

  async #pull(image: string, listeners: Pull['listeners']): Promise<void> {
    const { api, clock, idleMs, auth } = this.#input
    const name = readImageName(image)
    if (!name) throw new FleetError('invalid', `${image} is no name of an image`)
    const credentials = auth[name.registry]
    const authconfig = credentials && { ...credentials, serveraddress: name.registry }
    const progress = new Progress()
    const tell = spaced(clock, tellEveryMs, () =>
      this.#tell(image, listeners, `pulling image ${image}${progress.text()}`),
    )
    let idle = false
    let cancel = () => {}
    try {
      const { stream, stop } = await api.pull({ fromImage: name.repository, tag: name.tag }, authconfig)
      const giveUp = () => {
        idle = true
        stop()
      }
      cancel = clock.after(idleMs, giveUp)
      for await (const line of jsonLinesOf(stream)) {
        if (!isObject(line)) continue
        if (typeof line['error'] === 'string') throw new FleetError('unavailable', failed(image, line['error']))
        if (progress.take(line)) {
          cancel()
          cancel = clock.after(idleMs, giveUp)
        }
        tell.soon()
      }
    } catch (error) {
      if (idle) {
        const message = failed(image, `nothing has come for ${idleMs / 1000} s`)
        throw new FleetError('unavailable', message, { cause: error })
      }
      if (FleetError.is(error) && statusOf(error) === undefined) throw error
      const words = FleetError.is(error) ? wordsOf(error) : `its connection broke: ${messageOf(error)}`
      throw new FleetError('unavailable', failed(image, words), { cause: error })
    } finally {
      cancel()
      tell.stop()
    }
    if (await api.hasImage(image)) return
    throw new FleetError('unavailable', failed(image, 'the engine ended it without a word'))
  }

  #tell(image: string, listeners: Pull['listeners'], message: string): void {
    const pull = this.#pulls.get(image)
    if (pull) pull.told = message
    for (const listener of listeners) listener(message)
  }
}

function failed(image: string, why: string): string {
  return `image ${image} cannot be pulled: ${why}`
}

/** Calls at once, and then not again before `everyMs` have passed: what was asked for meanwhile is one call. */
function spaced(clock: Clock, everyMs: number, call: () => void): { soon(): void; stop(): void } {
  let cancel: (() => void) | undefined
  let wanted = false
  const turn = () => {
    cancel = undefined
    if (!wanted) return
    wanted = false
    call()
    cancel = clock.after(everyMs, turn)
  }
  return {
    soon() {
      wanted = true
      if (!cancel) turn()
    },
    stop() {
      cancel?.()
    },
  }
}

/** Adds up the layers of one pull. */
class Progress {
  readonly #layers = new Map<string, { current: number; total: number }>()

  /** True when something has moved. */
  take(line: Readonly<Record<string, unknown>>): boolean {
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
