/** Queues callers that wait for a server, first in, first out for each build. They count as demand, also during the retry grace after a timeout. */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { BuildSpec } from '../../rules/model/resources.js'
import { freePlacesOn } from '../state/candidates.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { inUse, isReady, maxServersOf, serversForCallers } from '../state/queries.js'
import { type Link, LinkedSet, unlinked } from '../state/linked-set.js'
import type { RetryGrace } from './retry-grace.js'
import { insertByTicket, SelectiveIndex } from './selective-index.js'

/** Where a caller waits. */
export interface Home {
  readonly build: BuildEntry
  /** Whether a new server of the build would fit the caller, who then counts as demand. */
  readonly isDemand: boolean
  /** True if no build whose new servers would fit the caller could get another one. */
  readonly isFull?: boolean
}

/** A caller whom servers of any build may fit, depending on their data. */
export interface SelectiveCaller {
  /** The keys of its selectors in the index. */
  readonly buildKeys: readonly string[]
  accepts(entry: ServerEntry): boolean
  /** Returns a ready server that fits, or where to wait. `current`: where it waits now. Throws if no server can be expected. */
  reconsider(current: Home): ServerEntry | Home
}

interface Queue {
  readonly waiters: LinkedSet<Waiter>
  /** How many are no demand. */
  noDemand: number
  /** How many are demand, but only for servers that fit: none that is ready does. */
  selectiveDemand: number
}

interface Waiter {
  /** The waiter's position in the queue. */
  readonly link: Link<Waiter>
  readonly ticket: number
  readonly session: string
  home: Home
  /** Undefined if any server of the build will do, and no other. */
  readonly selective: SelectiveCaller | undefined
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
  /** Absent if any server of the build will do, and no other. */
  readonly selective?: SelectiveCaller | undefined
  /** Returns the server to take when the wait ends, if there is one after all. */
  readonly lastResort: () => ServerEntry | undefined
  /** Creates the error for a wait that times out. */
  readonly timeoutError: (home: Home) => FleetError
  readonly signal?: AbortSignal | undefined
}

export class WaitQueue {
  readonly #clock: Clock
  readonly #retryGrace: RetryGrace
  readonly #changed: (build: BuildEntry) => void
  readonly #queues = new Map<BuildEntry, Queue>()
  readonly #bySession = new Map<string, Waiter>()
  /** The waiters that also accept servers of other builds. */
  readonly #selective = new SelectiveIndex<Waiter>()
  /** How many of them wait for a build to fall below its `max`. */
  #full = 0

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
    return this.#queues.get(build)?.waiters.size ?? 0
  }

  /** Returns the number of callers in one build's queue whom a new server of the build would fit. */
  demand(build: BuildEntry): number {
    const queue = this.#queues.get(build)
    return queue ? queue.waiters.size - queue.noDemand : 0
  }

  /** Returns how many of them no ready server fits, so that each needs one that is not ready yet. */
  selectiveDemand(build: BuildEntry): number {
    return this.#queues.get(build)?.selectiveDemand ?? 0
  }

  /**
   * Waits for a server. In the tick in which a server becomes ready, calls `reserve` for it and then resolves with it. At the
   * end of the wait, does so with the last resort, and rejects only if there is none. Resolves with undefined if the session
   * has been allocated a server in the meantime. A session has at most one waiter at a time.
   */
  wait(
    home: Home,
    { session, ticket, waitMs, selective, lastResort, timeoutError, signal }: WaitOptions,
    reserve: (entry: ServerEntry) => void,
  ): Promise<ServerEntry | undefined> {
    return new Promise<ServerEntry | undefined>((resolve, reject) => {
      const leave = () => {
        cancel()
        signal?.removeEventListener('abort', abort)
        this.#remove(waiter)
      }
      const waiter: Waiter = {
        link: unlinked(),
        session,
        ticket,
        home,
        selective,
        resolve: (entry) => {
          // Left first, because the server may have free places for others, who are then served at once.
          leave()
          this.#changed(waiter.home.build)
          try {
            if (entry) reserve(entry)
            resolve(entry)
          } catch (error) {
            reject(error)
          }
        },
        reject: (error) => {
          leave()
          // Deferred by one tick, because another call for the same session may take over and need the server that is being
          // started.
          this.#clock.after(0, () => this.#changed(waiter.home.build))
          reject(error)
        },
      }
      const abort = () =>
        waiter.reject(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
      const cancel = this.#clock.after(waitMs, () => {
        try {
          const entry = lastResort()
          if (entry) return waiter.resolve(entry)
        } catch (error) {
          return waiter.reject(error)
        }
        if (waiter.home.isDemand) this.#retryGrace.add(waiter.home.build, session, selective !== undefined)
        waiter.reject(timeoutError(waiter.home))
      })
      signal?.addEventListener('abort', abort, { once: true })
      this.#add(waiter)
      this.#changed(home.build)
    })
  }

  /** Gives a ready server to the caller who has waited longest of those it fits. */
  serve(entry: ServerEntry): void {
    const waiters = this.#queues.get(entry.build)?.waiters
    if (this.#selective.size === 0) return waiters?.first?.resolve(entry)
    const next = this.#selectiveCallerOf(entry)
    for (const waiter of waiters ?? []) {
      if (next && waiter.ticket > next.ticket) break
      if (!waiter.selective) return waiter.resolve(entry)
    }
    next?.resolve(entry)
  }

  /** Gives the free places of a server that has sessions to the callers who have waited longest. */
  servePlaces(entry: ServerEntry): void {
    for (let left = Infinity; this.total > 0 && freePlacesOn(entry) > 0 && freePlacesOn(entry) < left;) {
      left = freePlacesOn(entry)
      this.serve(entry)
    }
  }

  /** Call when the data of a server that is ready or has free places have changed: it may fit a caller now. */
  dataChanged(entry: ServerEntry): void {
    if (this.#selective.size > 0 && isReady(entry.bucket)) this.serve(entry)
    else this.servePlaces(entry)
  }

  /**
   * Call when a build has come, or what decides about its new servers has changed, such as its spec, a drain or a back-off. A caller who
   * selects servers may be demand for another build now, or get a server. `specs`: those of the build, now and before.
   */
  reconsider(...specs: readonly BuildSpec[]): void {
    if (this.#selective.size === 0) return
    for (const waiter of [...this.#selective.naming(...specs)]) this.#reconsider(waiter)
  }

  /** Call when a server of the build is ending, or when it may have more: a caller whose builds were all full may be demand for this one now. */
  capacityFreed(build: BuildEntry): void {
    if (this.#full === 0) return
    for (const waiter of [...this.#selective.naming(build.record.spec)]) {
      if (inUse(build) + serversForCallers(build, this.demand(build)) >= maxServersOf(build)) return
      if (waiter.home.isFull) this.#reconsider(waiter)
    }
  }

  /** Gives a server to the caller that waits for this session. Returns false if there is none. */
  serveSession(session: string, entry: ServerEntry): boolean {
    const waiter = this.#bySession.get(session)
    waiter?.resolve(entry)
    return waiter !== undefined
  }

  /** Gives a place on a server that an atomic batch holds to another session of the batch, if it waits for a server of that build. */
  serveMate(session: string, entry: ServerEntry): void {
    const waiter = this.#bySession.get(session)
    if (waiter && !waiter.selective && waiter.home.build === entry.build) waiter.resolve(entry)
  }

  /** Ends the wait for a session to which another host has allocated a server. */
  sessionAllocated(session: string): void {
    this.#bySession.get(session)?.resolve(undefined)
  }

  /** Rejects the callers of one build, or all callers. */
  rejectAll(error: FleetError, build?: BuildEntry): void {
    for (const [other, queue] of [...this.#queues]) {
      if (build !== undefined && other !== build) continue
      for (const waiter of [...queue.waiters]) {
        // Another build may have a server for it.
        if (build !== undefined && waiter.selective) this.#reconsider(waiter)
        else waiter.reject(error)
      }
    }
    this.#retryGrace.clear(build)
  }

  #selectiveCallerOf(entry: ServerEntry): Waiter | undefined {
    for (const waiter of this.#selective.naming(entry.build.record.spec)) {
      if (waiter.selective?.accepts(entry)) return waiter
    }
    return undefined
  }

  #reconsider(waiter: Waiter): void {
    if (!waiter.selective || waiter.link.set === undefined) return
    try {
      const found = waiter.selective.reconsider(waiter.home)
      if ('record' in found) return waiter.resolve(found)
      const { build, isDemand, isFull } = waiter.home
      if (found.build === build && found.isDemand === isDemand && found.isFull === isFull) return
      // Without leaving the fleet's callers in between, so that no server is scaled down that is still needed.
      this.#leaveQueue(waiter)
      waiter.home = found
      this.#joinQueue(waiter)
      this.#changed(build)
      this.#changed(found.build)
    } catch (error) {
      waiter.reject(error)
    }
  }

  #add(waiter: Waiter): void {
    this.#joinQueue(waiter)
    this.#retryGrace.remove(waiter.session, waiter.home.build)
    this.#bySession.set(waiter.session, waiter)
    if (waiter.selective) this.#selective.add(waiter, waiter.selective.buildKeys)
  }

  #remove(waiter: Waiter): void {
    if (!this.#leaveQueue(waiter)) return
    this.#bySession.delete(waiter.session)
    if (waiter.selective) this.#selective.delete(waiter)
  }

  #joinQueue(waiter: Waiter): void {
    const { build, isFull } = waiter.home
    const queue = this.#queues.get(build) ?? newQueue()
    insertByTicket(queue.waiters, waiter)
    this.#queues.set(build, queue)
    count(queue, waiter, 1)
    if (isFull) this.#full++
  }

  /** Returns false if it has left already. */
  #leaveQueue(waiter: Waiter): boolean {
    const { build, isFull } = waiter.home
    const queue = this.#queues.get(build)
    if (!queue?.waiters.delete(waiter)) return false
    count(queue, waiter, -1)
    if (queue.waiters.size === 0) this.#queues.delete(build)
    if (isFull) this.#full--
    return true
  }
}

function newQueue(): Queue {
  return { waiters: new LinkedSet<Waiter>(({ link }) => link), noDemand: 0, selectiveDemand: 0 }
}

function count(queue: Queue, { home, selective }: Waiter, by: 1 | -1): void {
  if (!home.isDemand) queue.noDemand += by
  else if (selective) queue.selectiveDemand += by
}
