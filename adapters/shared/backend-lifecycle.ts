/** The lifecycle of a backend: the first call opens it, listeners watch it, and `close` ends it. */
import type { BackendListener } from '../../src/contracts/backend.js'
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { Logger } from '../../src/contracts/logger.js'
import { labelPattern } from '../../src/rules/model/names.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'

interface BackendLifecycleDependencies<Opened> {
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

/** The listeners of a backend. A listener that throws affects neither the backend nor the other listeners. */
export class Listeners {
  readonly #backend: string
  readonly #logger: Logger
  readonly #listeners = new Set<BackendListener>()

  constructor(backend: string, logger: Logger) {
    this.#backend = backend
    this.#logger = logger
  }

  /** Adds a listener and returns a function that removes it. */
  add(listener: BackendListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  clear(): void {
    this.#listeners.clear()
  }

  notifyAll(call: (listener: BackendListener) => void): void {
    for (const listener of this.#listeners) this.notify(listener, call)
  }

  /** Notifies one listener, unless it has been removed. */
  notify(listener: BackendListener, call: (listener: BackendListener) => void): void {
    if (!this.#listeners.has(listener)) return
    try {
      call(listener)
    } catch (error) {
      this.#logger.error({ err: error, backend: this.#backend }, 'backend listener threw')
    }
  }
}

/** Throws `invalid` unless both namespace and name are RFC 1123 labels. */
export function checkRef(ref: Ref): void {
  if (isLabel(ref.namespace) && isLabel(ref.name)) return
  throw new FleetError(
    'invalid',
    `an instance's namespace and name must be RFC 1123 labels, but are "${ref.namespace}" and "${ref.name}"`,
  )
}

/** Returns `<namespace>.<name>`, which is unambiguous because labels contain no dots. */
export function dottedName(ref: Ref): string {
  return `${ref.namespace}.${ref.name}`
}

/** Returns undefined if the text is not a dotted name. */
export function parseDottedName(text: string): Ref | undefined {
  const [namespace = '', name = '', ...rest] = text.split('.')
  return rest.length === 0 && isLabel(namespace) && isLabel(name) ? { namespace, name } : undefined
}

function isLabel(text: string): boolean {
  return labelPattern.test(text)
}

const reasons = {
  closed: 'its template has no stdin: true, which keeps the standard input of a game open',
  once: 'its template has stdinOnce: true, which closes the standard input after the first line',
  ended: 'its game is not running',
  full: 'its game does not read what was sent before',
} as const

export function noStdin(ref: Ref, why: keyof typeof reasons, cause?: unknown): FleetError {
  return new FleetError('no-stdin', `server ${keyOf(ref)} takes no input: ${reasons[why]}`, { cause })
}
