/** Ensures that the engine has an image. Concurrent callers share one pull. */
import { FleetError } from '../../../src/contracts/errors.js'
import { unlessAborted } from '../../../src/util/signals.js'
import { InFlight } from '../../shared/in-flight.js'
import { ImagePull, type ImagePullDependencies } from './image-pull.js'
import type { PullPolicy } from '../options.js'

export interface EnsureOptions {
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
