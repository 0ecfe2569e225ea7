/** The lifecycle of a backend: the first call opens it, listeners watch it, and `close` ends it. */
import type { BackendListener } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { Logger } from '../../src/contracts/logger.js'
import { Listeners } from './listeners.js'

export interface BackendLifecycleDependencies<Opened> {
  /** Name of the backend, used in messages. */
  readonly backend: string
  readonly logger: Logger
  readonly open: () => Promise<Opened>
}

export class BackendLifecycle<Opened> {
  readonly listeners: Listeners
  readonly #deps: BackendLifecycleDependencies<Opened>
  #opening: Promise<Opened> | undefined
  readonly #beginning = new Set<Promise<unknown>>()
  #closed = false

  constructor(deps: BackendLifecycleDependencies<Opened>) {
    this.#deps = deps
    this.listeners = new Listeners(deps.backend, deps.logger)
  }

  get isClosed(): boolean {
    return this.#closed
  }

  throwIfClosed(): void {
    if (this.#closed) throw new FleetError('closed', `the ${this.#deps.backend} backend is closed`)
  }

  /**
   * Opens the backend once; if opening fails, the next call tries again. Rejects with `closed` once the backend is closed.
   */
  async open(): Promise<Opened> {
    this.throwIfClosed()
    this.#opening ??= this.#deps.open().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    const opened = await this.#opening
    this.throwIfClosed()
    return opened
  }

  /**
   * Calls `work` once the backend is open, even if it is closed in the meantime. `settled` waits until `work` has been called,
   * but not for its result.
   */
  async begin<T>(work: (opened: Opened) => Promise<T>): Promise<T> {
    this.throwIfClosed()
    const opening = this.open()
    // If the backend is closed while it opens, `open` rejects, but what it has opened can still be used.
    const begun = opening.catch(() => this.#opening ?? opening).then((opened) => ({ result: work(opened) }))
    const settled = begun.catch(() => {})
    this.#beginning.add(settled)
    void settled.then(() => this.#beginning.delete(settled))
    return (await begun).result
  }

  /** Adds a listener, which receives a `resync` as soon as the backend is open. Returns a function that removes it. */
  watch(listener: BackendListener): () => void {
    if (this.#closed) return () => {}
    const { backend, logger } = this.#deps
    const remove = this.listeners.add(listener)
    void this.open().then(
      () => this.listeners.notify(listener, (opened) => opened.resync()),
      (error: unknown) => {
        if (this.#closed) return
        logger.warn({ err: error, backend }, 'cannot watch instances; will retry with the next call')
      },
    )
    return remove
  }

  /** From now on, calls reject with `closed` and listeners are not notified. */
  close(): void {
    this.#closed = true
    this.listeners.clear()
  }

  /** Resolves once any opening in progress has succeeded or failed, and calls of `begin` have begun. Never rejects. */
  async settled(): Promise<void> {
    await Promise.allSettled([this.#opening, ...this.#beginning])
  }
}

/** Resolves when `work` settles or after `ms`, whichever comes first. */
export async function waitAtMost(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = () => {}
  const timeout = new Promise<void>((resolve) => (cancel = clock.after(ms, resolve)))
  await Promise.race([Promise.allSettled([work]), timeout])
  cancel()
}
