/**
 * Queues callers that wait for a server: one first-in, first-out queue per build. Waiting callers count as demand; a caller
 * whose wait times out continues to count during the retry grace.
 */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { type Link, LinkedSet, unlinked } from '../state/linked-set.js'
import type { RetryGrace } from './retry-grace.js'

interface Waiter {
  /** The waiter's position in the queue. */
  readonly link: Link<Waiter>
  readonly ticket: number
  readonly session: string
  /** Undefined if any server of the build will do. */
  readonly accepts: ((entry: ServerEntry) => boolean) | undefined
  /** Ends the wait with a server, or with undefined if the session already has one. */
  resolve(entry: ServerEntry | undefined): void
  reject(error: unknown): void
}

export interface WaitOptions {
  /** Key of the session. */
  readonly session: string
  /** Position in the queue: lower goes first. A caller that waits again keeps its ticket. */
  readonly ticket: number
  readonly waitMs: number
  /** Whether a server, of any build, fits. Undefined if any server of the build does, and no other. */
  readonly accepts?: ((entry: ServerEntry) => boolean) | undefined
  /** Returns the server to take when the wait ends, if there is one after all. */
  readonly lastResort: () => ServerEntry | undefined
  /** Creates the error for a wait that times out. */
  readonly timeoutError: () => FleetError
  readonly signal?: AbortSignal | undefined
}

export class WaitQueue {
  readonly #clock: Clock
  readonly #retryGrace: RetryGrace
  readonly #changed: (build: BuildEntry) => void
  readonly #queues = new Map<BuildEntry, LinkedSet<Waiter>>()
  readonly #bySession = new Map<string, Waiter>()
  /** The waiters that also accept servers of other builds. */
  readonly #selective = new Set<Waiter>()

  /** `changed` is called when a caller has joined or left a build's queue. */
  constructor(clock: Clock, retryGrace: RetryGrace, changed: (build: BuildEntry) => void) {
    this.#clock = clock
    this.#retryGrace = retryGrace
    this.#changed = changed
  }

  /** Number of callers in all queues. */
  get total(): number {
    return this.#bySession.size
  }

  /** Returns the number of callers in one build's queue. */
  waiting(build: BuildEntry): number {
    return this.#queues.get(build)?.size ?? 0
  }

  /**
   * Waits for a server. In the tick in which a server becomes ready, calls `reserve` for it and then resolves with it. At the
   * end of the wait, does so with the last resort, and rejects only if there is none. Resolves with undefined if the session
   * has been allocated a server in the meantime. A session has at most one waiter at a time.
   */
  wait(
    build: BuildEntry,
    { session, ticket, waitMs, accepts, lastResort, timeoutError, signal }: WaitOptions,
    reserve: (entry: ServerEntry) => void,
  ): Promise<ServerEntry | undefined> {
    return new Promise<ServerEntry | undefined>((resolve, reject) => {
      const leave = () => {
        cancel()
        signal?.removeEventListener('abort', abort)
        this.#remove(build, waiter)
      }
      const waiter: Waiter = {
        link: unlinked(),
        session,
        ticket,
        accepts,
        resolve: (entry) => {
          if (entry) reserve(entry)
          leave()
          this.#changed(build)
          resolve(entry)
        },
        reject: (error) => {
          leave()
          // Deferred by one tick, because another call for the same session may take over and need the server that is being
          // started.
          this.#clock.after(0, () => this.#changed(build))
          reject(error)
        },
      }
      const abort = () =>
        waiter.reject(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
      const cancel = this.#clock.after(waitMs, () => {
        const entry = lastResort()
        if (entry) return waiter.resolve(entry)
        this.#retryGrace.add(build, session)
        waiter.reject(timeoutError())
      })
      signal?.addEventListener('abort', abort, { once: true })
      this.#add(build, waiter)
    })
  }

  /** Gives a ready server to the caller who has waited longest of those it fits. */
  serve(entry: ServerEntry): void {
    const queue = this.#queues.get(entry.build)
    if (this.#selective.size === 0) return queue?.first?.resolve(entry)
    let next: Waiter | undefined
    for (const waiter of this.#selective) {
      if ((!next || waiter.ticket < next.ticket) && waiter.accepts?.(entry)) next = waiter
    }
    for (const waiter of queue ?? []) {
      if (next && waiter.ticket > next.ticket) break
      if (!waiter.accepts) return waiter.resolve(entry)
    }
    next?.resolve(entry)
  }

  /** Call when the data of a ready server have changed: it may fit a caller now. */
  dataChanged(entry: ServerEntry): void {
    if (this.#selective.size > 0) this.serve(entry)
  }

  /** Gives a server to the caller that waits for this session. Returns false if there is none. */
  serveSession(session: string, entry: ServerEntry): boolean {
    const waiter = this.#bySession.get(session)
    waiter?.resolve(entry)
    return waiter !== undefined
  }

  /** Ends the wait for a session to which another host has allocated a server. */
  sessionAllocated(session: string): void {
    this.#bySession.get(session)?.resolve(undefined)
  }

  /** Rejects the callers of one build, or all callers. */
  rejectAll(error: FleetError, build?: BuildEntry): void {
    for (const [other, queue] of [...this.#queues]) {
      if (build !== undefined && other !== build) continue
      for (const waiter of [...queue]) {
        // Another build may have a server for it.
        if (build !== undefined && waiter.accepts) waiter.resolve(undefined)
        else waiter.reject(error)
      }
    }
    this.#retryGrace.clear(build)
  }

  #add(build: BuildEntry, waiter: Waiter): void {
    const queue = this.#queues.get(build) ?? new LinkedSet<Waiter>(({ link }) => link)
    insertByTicket(queue, waiter)
    this.#retryGrace.remove(build, waiter.session)
    this.#queues.set(build, queue)
    this.#bySession.set(waiter.session, waiter)
    if (waiter.accepts) this.#selective.add(waiter)
    this.#changed(build)
  }

  #remove(build: BuildEntry, waiter: Waiter): void {
    const queue = this.#queues.get(build)
    if (!queue?.delete(waiter)) return
    this.#bySession.delete(waiter.session)
    this.#selective.delete(waiter)
    if (queue.size === 0) this.#queues.delete(build)
  }
}

function insertByTicket(queue: LinkedSet<Waiter>, waiter: Waiter): void {
  if (queue.last && queue.last.ticket > waiter.ticket) {
    for (const other of queue) if (other.ticket > waiter.ticket) return queue.addBefore(other, waiter)
  }
  queue.add(waiter)
}
