/** How a host that does not lead follows the Lease: it watches it, and reads it whenever the watch is not enough. */
import type { KubeObject } from '../client/kube-objects.js'
import { type LeaseWatchDependencies, watchLease } from './lease-watch.js'

/** A host whose credentials were revoked learns it from its next request: a watch that is open goes on until it ends. */
const readAgainMs = 30_000

export class FollowedLease {
  readonly #deps: LeaseWatchDependencies
  #stop: (() => void) | undefined
  /** Whether the watch reports each change of the Lease, so that it need not be read. */
  #isOpen = false
  #mustRead = true
  /** Elapsed ms at which the Lease was last read successfully. */
  #readAt = -Infinity

  constructor(deps: LeaseWatchDependencies) {
    this.#deps = deps
  }

  get isWatching(): boolean {
    return this.#stop !== undefined
  }

  /** Ms until the Lease must be read; 0 if it must be read now. */
  get msUntilRead(): number {
    if (!this.#isOpen || this.#mustRead) return 0
    return Math.max(0, this.#readAt + readAgainMs - this.#deps.clock.elapsed())
  }

  /** `seen` is called with each change; undefined: the Lease does not exist. */
  watch(seen: (lease: KubeObject | undefined) => void): void {
    this.#stop ??= watchLease(this.#deps, { seen, following: (isFollowing) => (this.#isOpen = isFollowing) })
  }

  unwatch(): void {
    this.#stop?.()
    this.#stop = undefined
    this.#isOpen = false
  }

  /** The Lease must be read although the watch is open: it was deleted, or the last attempt failed. */
  readNext(): void {
    this.#mustRead = true
  }

  async read(read: () => Promise<KubeObject | undefined>): Promise<KubeObject | undefined> {
    // Before the request, so that a deletion meanwhile is not missed.
    this.#mustRead = false
    const lease = await read()
    this.#readAt = this.#deps.clock.elapsed()
    return lease
  }

  /** The watch has reported the Lease. */
  seen(): void {
    this.#mustRead = false
  }
}
