/**
 * Follows a collection on the API server: lists it once, then watches it. A watch that ends is resumed from its last
 * revision. The collection is listed again only if the server has discarded that revision or, after being restored from a
 * backup, does not know it; and if watches open, but end before they tell anything, as behind some proxies.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { pauseMs } from '../../../src/rules/lifecycle/backoff.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { objectAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { apiErrorFrom, failedCall, statusOf } from './api-errors.js'
import type { ApiContext, ApiStream } from './api.js'
import { isKubeObject, isNewerRevision, type KubeObject } from './kube-objects.js'

interface WatchOptions extends ApiContext {
  /** The kind of objects watched, as named in messages: `pods`. */
  readonly what: string
  /** API path of the collection. */
  readonly path: string
  /** Selectors, if any. */
  readonly query?: Readonly<Record<string, string>>
  /** A connection that receives no data for this long is reopened, whether it is dead or merely quiet. Default 90 s. */
  readonly stallMs?: number
}

interface WatchListener {
  /**
   * Receives all objects at this revision; objects missing from it no longer exist. Called at the start, and whenever changes may have
   * been missed.
   */
  listed(objects: readonly KubeObject[], revision: string): void
  /**
   * The cluster was restored from a backup and its revisions went back, so revisions from before and after cannot be
   * compared. A call to `listed` follows.
   */
  restored?(): void
  /** The object is new or has changed. */
  changed(object: KubeObject): void
  /** The object was deleted; this is its last state. */
  deleted(object: KubeObject): void
  /** The watch is interrupted, for the given reason. May be called repeatedly; missed changes are reported later. */
  broken?(error: unknown): void
  /** The watch is open (again). Missed changes have been listed or are about to be reported. */
  followed?(): void
}

const defaultStallMs = 90_000
const retryLimits = { initialMs: 500, maxMs: 30_000 }
/** After this many failures in a row, changes are read from lists. */
const maxFailuresWithoutList = 4
/** A connection that stays open this long counts as a success, even if it then breaks. */
const settledMs = 10_000
/** The server ends each watch after a random time in this range, so that watches are not all reopened simultaneously. */
const minWatchSeconds = 300
const watchSpreadSeconds = 300

/** Starts immediately and continues until the returned function is called. Never throws and never gives up. */
export function watchCollection(options: WatchOptions, listener: WatchListener): () => void {
  const watch = new CollectionWatch(options, listener)
  void watch.run().catch((error: unknown) => {
    // A listener threw an error. That is a bug in this library, but it must not crash the host.
    options.logger.error({ err: error, what: options.what }, 'watch failed')
  })
  return () => watch.stop()
}

class CollectionWatch {
  readonly #options: WatchOptions
  readonly #listener: WatchListener
  readonly #stallMs: number
  readonly #aborter = new AbortController()
  /** The last revision received. */
  #revision = ''
  #mustList = true
  /** Set when the server may have been restored to a state older than `#revision`. */
  #mustVerify = false
  /** Only one check runs at a time: more would only add load to a slow server. */
  #isVerifying = false
  #failures = 0
  /** Whether the last watch opened, so that the server answers. */
  #wasOpen = false
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
        this.#mustVerify = true
        this.#failures++
        if (statusOf(error) === 410 || (this.#wasOpen && this.#failures >= maxFailuresWithoutList))
          this.#mustList = true
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
    const isRestored = isNewerRevision(this.#revision, listed.revision)
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
      // The check is retried with the next connection.
      if (!this.#isOver()) this.#options.logger.debug({ err, what: this.#options.what }, 'revision check failed')
    })
  }

  /**
   * Checks whether the server was restored from a backup. A restored server accepts a watch that starts at a revision it has
   * not reached yet, and sends nothing until it does.
   */
  async #verify(): Promise<void> {
    const { api, what, path } = this.#options
    const { signal } = this.#aborter
    this.#isVerifying = true
    try {
      // Repeat if the watch broke in the meantime: the response may be older than the interruption.
      while (this.#mustVerify && !this.#mustList && !this.#isOver()) {
        this.#mustVerify = false
        const from = this.#revision
        const query = { ...this.#options.query, limit: 1 }
        const { revision } = await api.list({ what: `list ${what}`, method: 'GET', path, query, signal })
        if (!isNewerRevision(from, revision)) continue
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

  /** Resolves when the watch ends, stalls, or must be replaced by a list. */
  async #follow(): Promise<void> {
    const { api, clock, what, path, query } = this.#options
    const { signal } = this.#aborter
    this.#wasOpen = false
    const timeoutSeconds = minWatchSeconds + Math.floor(randomFraction(clock) * watchSpreadSeconds)
    const stream = await api.open({
      what: `watch ${what}`,
      method: 'GET',
      path,
      query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: this.#revision, timeoutSeconds },
      signal,
    })
    this.#wasOpen = true
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
      // Counted as a failure; otherwise the loop would reconnect without a pause.
      if (!this.#isOver() && openMs() < retryLimits.initialMs) throw new Error('the server ended the watch at once')
    } finally {
      this.#closeStream = () => {}
      signal.removeEventListener('abort', close)
      close()
      if (openMs() >= Math.min(settledMs, this.#stallMs)) this.#failures = 0
    }
  }

  /**
   * Reads events until the server ends the watch, the watch stalls, or it must be replaced by a list. Rejects when it breaks or the server
   * reports an error.
   */
  async #read({ body, stop }: ApiStream): Promise<'ended' | 'stalled' | 'superseded'> {
    const { clock } = this.#options
    let isStalled = false
    const onStall = () => {
      isStalled = true
      stop()
    }
    let cancel = clock.after(this.#stallMs, onStall)
    body.setEncoding('utf8')
    let rest = ''
    try {
      for await (const chunk of body) {
        cancel()
        cancel = clock.after(this.#stallMs, onStall)
        const lines = (rest + String(chunk)).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line !== '') this.#handle(line)
      }
      return 'ended'
    } catch (error) {
      // The connection is either dead or merely quiet: the API server may have had nothing to send.
      if (isStalled) return 'stalled'
      if (this.#mustList) return 'superseded'
      throw error
    } finally {
      cancel()
    }
  }

  /** Handles one event, which is a line of JSON. */
  #handle(line: string): void {
    const { api, what } = this.#options
    const event: unknown = JSON.parse(line)
    if (!isObject(event)) throw new Error(`unexpected watch event of ${what}: not an object`)
    const { type, object } = event
    const fields = isObject(object) ? object : {}
    if (type === 'ERROR') throw failedCall(apiErrorFrom(fields, 500), `watch ${what}`, api.server)
    if (type !== 'BOOKMARK' && !isKubeObject(object))
      throw new Error(`unexpected watch event of ${what}: ${String(type)} without an object`)
    if (this.#isOver()) return
    this.#failures = 0
    if (isKubeObject(object)) {
      if (type === 'ADDED' || type === 'MODIFIED') this.#listener.changed(object)
      else if (type === 'DELETED') this.#listener.deleted(object)
    }
    // A bookmark reports a newer revision without a change.
    this.#revision = stringAt(objectAt(fields, 'metadata'), 'resourceVersion') ?? this.#revision
  }

  #pauseMs(): number {
    return pauseMs(this.#failures, retryLimits) * (0.5 + randomFraction(this.#options.clock) / 2)
  }
}

/** A random number from 0 (inclusive) to 1 (exclusive). */
export function randomFraction(clock: Clock): number {
  const [a = 0, b = 0] = clock.randomBytes(2)
  return (a * 256 + b) / 65_536
}
