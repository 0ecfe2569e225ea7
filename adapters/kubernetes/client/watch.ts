/**
 * Follows a collection of the API server: lists it once, then watches it. A watch that ends is resumed from its last revision;
 * the collection is listed again only when the server no longer has, or never had, that revision.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { ApiStream } from './api-call.js'
import { statusOf } from './api-errors.js'
import type { KubernetesApi } from './api.js'
import { randomFraction } from './jitter.js'
import type { KubeObject } from './kube-objects.js'
import { readWatchStream, type WatchEvent } from './watch-stream.js'

export interface WatchOptions {
  readonly api: KubernetesApi
  readonly clock: Clock
  readonly logger: Logger
  /** What is watched, for messages: `pods`. */
  readonly what: string
  /** Of the collection. */
  readonly path: string
  /** Selectors, if any. */
  readonly query?: Readonly<Record<string, string>>
  /** A connection without data for this long is reopened, whether dead or merely quiet. Default 90 s. */
  readonly stallMs?: number
}

export interface WatchListener {
  /**
   * All objects as of this revision; any other object is gone. Called at the start, and whenever changes may have been missed.
   */
  listed(objects: readonly KubeObject[], revision: string): void
  /**
   * Revisions have gone back, since the cluster was restored from a backup: older and newer revisions can no longer be
   * compared. A list follows.
   */
  restored?(): void
  /** New or changed. */
  changed(object: KubeObject): void
  /** Gone; its last state. */
  deleted(object: KubeObject): void
  /** The watch is interrupted, and why. May be called repeatedly; missed changes are reported later. */
  broken?(error: unknown): void
  /** The watch is open (again): missed changes have been listed or are about to be reported. */
  followed?(): void
}

const defaultStallMs = 90_000
const initialPauseMs = 500
const maxPauseMs = 30_000
/** A connection that lasted this long counts as a success, however it ends. */
const settledMs = 10_000
/** The server ends each watch after a random time in this range, so that not all are reopened at once. */
const minWatchSeconds = 300
const watchSpreadSeconds = 300

/** Starts at once and goes on until the returned function is called. Never throws, never gives up. */
export function watchCollection(options: WatchOptions, listener: WatchListener): () => void {
  const watch = new CollectionWatch(options, listener)
  void watch.run().catch((error: unknown) => {
    // A listener has thrown, which is a bug here; it must not take the host down.
    options.logger.error({ err: error, what: options.what }, 'watch failed')
  })
  return () => watch.stop()
}

class CollectionWatch {
  readonly #options: WatchOptions
  readonly #listener: WatchListener
  readonly #stallMs: number
  readonly #aborter = new AbortController()
  /** The last one seen. */
  #revision = ''
  #mustList = true
  /** The server may have been restored to a state before `#revision`. */
  #mustVerify = false
  /** One at a time: more would only add load to a slow server. */
  #isVerifying = false
  #failures = 0
  #closeStream = () => {}

  constructor(options: WatchOptions, listener: WatchListener) {
    this.#options = options
    this.#listener = listener
    this.#stallMs = options.stallMs ?? defaultStallMs
  }

  stop(): void {
    this.#aborter.abort()
  }

  async run(): Promise<void> {
    const { api, logger, what } = this.#options
    while (!this.#isOver()) {
      try {
        if (this.#mustList) await this.#list()
        else if (this.#mustVerify && !this.#isVerifying) this.#verifyInBackground()
        await this.#follow()
      } catch (error) {
        if (this.#isOver()) return
        if (statusOf(error) === 410) this.#mustList = true
        this.#mustVerify = true
        this.#failures++
        this.#listener.broken?.(error)
        logger[this.#failures === 1 ? 'debug' : 'warn']({ err: error, what }, 'watch interrupted; will reconnect')
        await api.pause(this.#pauseMs(), this.#aborter.signal)
      }
    }
  }

  #isOver(): boolean {
    return this.#aborter.signal.aborted || this.#options.api.closed
  }

  async #list(): Promise<void> {
    const { api, logger, what, path, query } = this.#options
    const { signal } = this.#aborter
    const listed = await api.list({ what: `list ${what}`, method: 'GET', path, query: { ...query }, signal })
    const isRestored = isBefore(listed.revision, this.#revision)
    this.#revision = listed.revision
    this.#mustList = false
    this.#mustVerify = false
    if (this.#isOver()) return
    if (isRestored) {
      logger.warn({ what }, 'revisions went back: the cluster was restored from a backup; listing again')
      this.#listener.restored?.()
    }
    this.#listener.listed(listed.items, listed.revision)
  }

  #verifyInBackground(): void {
    this.#verify().catch((err: unknown) => {
      // Retried with the next connection.
      if (!this.#isOver()) this.#options.logger.debug({ err, what: this.#options.what }, 'revision check failed')
    })
  }

  /** A restored server accepts a watch from a revision that it has yet to reach, and stays silent until then. */
  async #verify(): Promise<void> {
    const { api, what, path } = this.#options
    const { signal } = this.#aborter
    this.#isVerifying = true
    try {
      // Repeated when the watch has broken meanwhile: the response may be older than that.
      while (this.#mustVerify && !this.#mustList && !this.#isOver()) {
        this.#mustVerify = false
        const from = this.#revision
        const query = { ...this.#options.query, limit: 1 }
        const { revision } = await api.list({ what: `list ${what}`, method: 'GET', path, query, signal })
        if (!isBefore(revision, from)) continue
        this.#mustList = true
        this.#closeStream()
      }
    } catch (error) {
      this.#mustVerify = true
      throw error
    } finally {
      this.#isVerifying = false
    }
  }

  /** Resolves when the watch has ended, has stalled, or must give way to a list. */
  async #follow(): Promise<void> {
    const { api, clock, what, path, query } = this.#options
    const { signal } = this.#aborter
    const timeoutSeconds = minWatchSeconds + Math.floor(randomFraction(clock) * watchSpreadSeconds)
    const stream = await api.open({
      what: `watch ${what}`,
      method: 'GET',
      path,
      query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: this.#revision, timeoutSeconds },
      signal,
    })
    const close = stream.stop
    if (this.#mustList) return close()
    const openedAt = clock.elapsed()
    const openMs = () => clock.elapsed() - openedAt
    if (!this.#isOver()) this.#listener.followed?.()
    signal.addEventListener('abort', close, { once: true })
    this.#closeStream = close
    try {
      if ((await this.#read(stream)) !== 'ended') return
      this.#mustVerify = true
      // Counts as a failure, or the loop would reconnect without pause.
      if (!this.#isOver() && openMs() < initialPauseMs) throw new Error('the server ended the watch at once')
    } finally {
      this.#closeStream = () => {}
      signal.removeEventListener('abort', close)
      close()
      if (openMs() >= Math.min(settledMs, this.#stallMs)) this.#failures = 0
    }
  }

  async #read(stream: ApiStream): Promise<'ended' | 'stalled' | 'superseded'> {
    const { api, clock, what } = this.#options
    const onEvent = (event: WatchEvent) => this.#handle(event)
    try {
      return await readWatchStream({ stream, clock, stallMs: this.#stallMs, what, server: api.server, onEvent })
    } catch (error) {
      if (this.#mustList) return 'superseded'
      throw error
    }
  }

  #handle(event: WatchEvent): void {
    if (this.#isOver()) return
    this.#failures = 0
    if (event.type === 'changed') this.#listener.changed(event.object)
    else if (event.type === 'deleted') this.#listener.deleted(event.object)
    if (event.revision !== undefined) this.#revision = event.revision
  }

  #pauseMs(): number {
    const longest = Math.min(maxPauseMs, initialPauseMs * 2 ** Math.min(this.#failures - 1, 10))
    return longest * (0.5 + randomFraction(this.#options.clock) / 2)
  }
}

function isBefore(a: string, b: string): boolean {
  return Number(a) < Number(b)
}
