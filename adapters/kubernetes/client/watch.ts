/**
 * Follows a collection of the API server for as long as it takes: lists it once, then hears of every change. A connection
 * that ends is opened again where it ended; only when the server has forgotten that moment, or never knew it, is the collection
 * listed anew.
 */
import type { IncomingMessage } from 'node:http'
import type { Clock } from '../../../src/contracts/clock.js'
import { messageOf } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { refusalIn, refused, statusOf } from './api-errors.js'
import type { KubernetesApi } from './api.js'
import { isKubeObject, type KubeObject, revisionOf } from './kube-objects.js'

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
  /** One on which nothing has come for so long is opened again, dead or not: a live one may have nothing to say. Default 90 s. */
  readonly stallMs?: number
}

export interface WatchListener {
  /**
   * All there is as of this revision: what is not among it is gone. At the start, and whenever changes may have been missed.
   */
  listed(objects: readonly KubeObject[], revision: string): void
  /**
   * Revisions are lower than they were, since the cluster was restored from a backup: what was known by them says nothing of
   * what is newer. All there is is listed next.
   */
  restored?(): void
  /** New or changed. */
  changed(object: KubeObject): void
  /** Gone; as it was last. */
  deleted(object: KubeObject): void
  /** Nothing is heard for now, and why; what is missed meanwhile is told later. May be told again and again. */
  broken?(error: unknown): void
  /** It is followed (again): what was missed has been listed, or is about to be told. */
  followed?(): void
}

const stallMs = 90_000
const firstPauseMs = 500
const longestPauseMs = 30_000
/** One that has stood for so long was no failure, however it ends. */
const settledMs = 10_000
/** The server is asked to end a watch after a time of this range, so that not all are opened again at once. */
const shortestWatchSeconds = 300
const watchSpreadSeconds = 300

/** Begins at once and goes on until the returned function is called. Neither throws nor gives up. */
export function watchCollection(options: WatchOptions, listener: WatchListener): () => void {
  const { api, clock, logger, what, path, query } = options
  const stop = new AbortController()
  const { signal } = stop
  const limitMs = options.stallMs ?? stallMs
  /** The last one that was heard of. */
  let revision = ''
  let mustList = true
  /** Whether the server counts on from there is not known. */
  let mustCheck = false
  /** Many asked of a server that has no time would only take more of it. */
  let isChecking = false
  let failures = 0
  let endCurrent = () => {}

  async function run(): Promise<void> {
    while (!isOver()) {
      try {
        if (mustList) await list()
        else if (mustCheck && !isChecking) own(check())
        await follow(revision)
      } catch (error) {
        if (isOver()) return
        if (statusOf(error) === 410) mustList = true
        mustCheck = true
        failures++
        listener.broken?.(error)
        logger[failures === 1 ? 'debug' : 'warn']({ error: messageOf(error) }, `the watch of ${what} broke; it goes on`)
        await api.pause(pauseMs(), signal)
      }
    }
  }

  const isOver = () => signal.aborted || api.closed

  async function list(): Promise<void> {
    const listed = await api.list({ what: `list ${what}`, method: 'GET', path, query: { ...query }, signal })
    const isRestored = isBefore(listed.revision, revision)
    revision = listed.revision
    mustList = false
    mustCheck = false
    if (isOver()) return
    if (isRestored) {
      logger.warn(
        { what },
        `the cluster was restored: ${what} are at an earlier revision than they were, and are listed again`,
      )
      listener.restored?.()
    }
    listener.listed(listed.items, listed.revision)
  }

  /** A server that was restored keeps a watch waiting for a revision that is yet to come, without a word. */
  async function check(): Promise<void> {
    isChecking = true
    try {
      // Again when the watch has broken meanwhile: what is answered may be of before that.
      while (mustCheck && !mustList && !isOver()) {
        mustCheck = false
        const from = revision
        const at = await api.list({
          what: `look at ${what}`,
          method: 'GET',
          path,
          query: { ...query, limit: 1 },
          signal,
        })
        if (!isBefore(at.revision, from)) continue
        mustList = true
        endCurrent()
      }
    } catch (error) {
      mustCheck = true
      throw error
    } finally {
      isChecking = false
    }
  }

  function own(work: Promise<void>): void {
    work.catch((error: unknown) => {
      // Once it is opened again, this is asked again.
      if (!isOver()) logger.debug({ error: messageOf(error) }, `nothing is known of the revision of ${what}`)
    })
  }

  /** Resolves when the server has ended the watch in order, when it has nothing to say, or when it is of no use. */
  async function follow(from: string): Promise<void> {
    const timeoutSeconds = shortestWatchSeconds + Math.floor(chance() * watchSpreadSeconds)
    const { body, stop: close } = await api.open({
      what: `watch ${what}`,
      method: 'GET',
      path,
      query: { ...query, watch: true, allowWatchBookmarks: true, resourceVersion: from, timeoutSeconds },
      signal,
    })
    if (mustList) return close()
    const openedAt = clock.elapsed()
    const stoodMs = () => clock.elapsed() - openedAt
    if (!isOver()) listener.followed?.()
    signal.addEventListener('abort', close, { once: true })
    endCurrent = close
    try {
      if ((await read(body, close)) !== 'ended') return
      mustCheck = true
      // One that ends as soon as it is open would be asked again and again.
      if (!isOver() && stoodMs() < firstPauseMs) throw new Error('it ended at once')
    } finally {
      endCurrent = () => {}
      signal.removeEventListener('abort', close)
      close()
      if (stoodMs() >= Math.min(settledMs, limitMs)) failures = 0
    }
  }

  async function read(body: IncomingMessage, close: () => void): Promise<'ended' | 'stalled' | 'useless'> {
    let isStalled = false
    const onStall = () => {
      isStalled = true
      close()
    }
    let cancel = clock.after(limitMs, onStall)
    body.setEncoding('utf8')
    let rest = ''
    try {
      for await (const chunk of body) {
        cancel()
        cancel = clock.after(limitMs, onStall)
        const lines = (rest + String(chunk)).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (line !== '' && !isOver()) take(line)
      }
      return 'ended'
    } catch (error) {
      // It may be dead, or quiet: the API server need not say anything as long as nothing happens.
      if (isStalled) return 'stalled'
      if (mustList) return 'useless'
      throw error
    } finally {
      cancel()
    }
  }

  function take(line: string): void {
    const event: unknown = JSON.parse(line)
    if (!isObject(event)) throw new Error('an event is no object')
    const { type, object } = event
    if (type === 'ERROR') {
      throw refused(refusalIn(isObject(object) ? object : {}, 500), `go on with the watch of ${what}`, api.place)
    }
    if (!isKubeObject(object) && type !== 'BOOKMARK') throw new Error(`an event of type ${String(type)} has no object`)
    failures = 0
    const at = isObject(object) && isObject(object['metadata']) ? object['metadata']['resourceVersion'] : undefined
    if (isKubeObject(object)) {
      if (type === 'ADDED' || type === 'MODIFIED') listener.changed(object)
      else if (type === 'DELETED') listener.deleted(object)
      revision = revisionOf(object)
    } else if (typeof at === 'string') revision = at
  }

  function pauseMs(): number {
    const longest = Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(failures - 1, 10))
    return longest * (0.5 + chance() / 2)
  }

  const chance = () => chanceOf(clock)

  void run().catch((error: unknown) => {
    // A listener that throws is our own fault; the watch must not take the host with it.
    logger.error({ error: messageOf(error) }, `the watch of ${what} has failed`)
  })
  return () => stop.abort()
}

function isBefore(a: string, b: string): boolean {
  return Number(a) < Number(b)
}

/** From 0 up to 1. */
export function chanceOf(clock: Clock): number {
  const [a = 0, b = 0] = clock.randomBytes(2)
  return (a * 256 + b) / 65_536
}
