/**
 * Allocates servers: one session gets one server, regardless of concurrent calls and failures. A server is reserved before
 * the first await and allocated in one conditional write; the call resolves only when that write is durable.
 */
import { FleetError, throwIfAborted } from '../../contracts/errors.js'
import type { AllocationRequest, Session } from '../../rules/model/resources.js'
import { type Allocation, allocationOf } from '../../rules/model/wire.js'
import { pickServer, sessionKey } from '../../rules/planning/allocation.js'
import { type EngineContext, serverEvent } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { isNoServerError, noServerError, outcomeUnknownError } from './allocation-errors.js'
import { type AllocateOptions, type CallInProgress, newCall, resultWithin } from './call-in-progress.js'
import type { RetryGrace } from './retry-grace.js'
import type { WaitQueue } from './wait-queue.js'

export interface AllocatorDependencies {
  readonly writer: ServerWriter
  readonly waitQueue: WaitQueue
  readonly retryGrace: RetryGrace
  readonly isDraining: () => boolean
}

export class Allocator {
  readonly #ctx: EngineContext
  readonly #deps: AllocatorDependencies
  /** Calls in progress, by session. A second call for the same session joins the first instead of taking another server. */
  readonly #calls = new Map<string, CallInProgress>()
  #lastTicket = 0

  constructor(ctx: EngineContext, deps: AllocatorDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  allocate(request: AllocationRequest, options: AllocateOptions): Promise<Allocation> {
    const key = sessionKey(request.sessionID)
    const held = this.#ctx.inventory.serverBySession(key)
    if (held?.record.session) return Promise.resolve(allocationOf(held.record))
    const first = this.#calls.get(key)
    if (first) return this.#join(first, request, options)
    const call = newCall(request.buildID, ++this.#lastTicket)
    this.#calls.set(key, call)
    return (call.result = this.#run(key, call, request, options))
  }

  /**
   * Waits for the result of the first call, up to this call's own timeout. If the first call fails for a reason that does
   * not apply to this one, this call starts its own allocation.
   */
  async #join(first: CallInProgress, request: AllocationRequest, options: AllocateOptions): Promise<Allocation> {
    const { clock, inventory } = this.#ctx
    const since = clock.elapsed()
    const leftMs = () => Math.max(0, options.waitMs - (clock.elapsed() - since))
    const hasServer = () => inventory.serverBySession(request.sessionID) !== undefined
    try {
      const allocation = await resultWithin(clock, first, hasServer, options)
      if (allocation) return allocation
    } catch (error) {
      throwIfAborted(options.signal)
      const concernsOnlyFirst =
        first.buildID !== request.buildID || FleetError.is(error, 'aborted') || (isNoServerError(error) && leftMs() > 0)
      if (!concernsOnlyFirst) throw error
      return this.allocate(request, { ...options, waitMs: leftMs() })
    }
    throw noServerError(this.#buildFor(request), clock.elapsed() - since)
  }

  async #run(
    key: string,
    call: CallInProgress,
    request: AllocationRequest,
    options: AllocateOptions,
  ): Promise<Allocation> {
    const { clock, inventory } = this.#ctx
    const { writer } = this.#deps
    const { signal } = options
    const session = sessionOf(request)
    const since = clock.elapsed()
    try {
      for (;;) {
        throwIfAborted(signal)
        const stopError = this.#ctx.stopError()
        if (stopError) throw stopError
        const held = inventory.serverBySession(key)
        if (held?.uncertain) {
          await this.#resolveUncertain(held)
          continue
        }
        if (held?.record.session) return allocationOf(held.record)

        const build = this.#buildFor(request)
        this.#checkNotDraining(build)
        let entry = this.#reserveReady(build, session)
        if (!entry) {
          entry = await this.#waitForServer(build, call, session, since, options)
          if (!entry) continue
          if (signal?.aborted) {
            inventory.release(entry)
            continue
          }
        }
        call.hadServer = true
        try {
          await writer.save(entry)
          // The server ended during the save, so remove the session from the store before another server may get it.
          if (entry.intent) await writer.save(entry)
        } catch (error) {
          this.#saveFailed(entry, session, since, error)
          continue
        }
        // If another host is the leader now, only that host can know the outcome of this write.
        const deposedError = this.#ctx.deposedError()
        if (deposedError) throw deposedError
        if (entry.record.session?.id !== session.id) continue
        this.#reportAllocated(entry, session, since)
        return allocationOf(entry.record)
      }
    } finally {
      this.#calls.delete(key)
    }
  }

  #buildFor({ buildID }: AllocationRequest): BuildEntry {
    const build = this.#ctx.inventory.buildByID(buildID)
    if (!build) throw new FleetError('not-found', `no build has the buildID ${JSON.stringify(buildID)}`)
    return build
  }

  #checkNotDraining(build: BuildEntry): void {
    if (!build.draining && !this.#deps.isDraining()) return
    throw new FleetError('draining', `build ${build.record.name} is draining and allocates no servers`)
  }

  #reserveReady(build: BuildEntry, session: Session): ServerEntry | undefined {
    const entry = pickServer(build.buckets.ready, build.buckets.outdatedReady)
    if (entry) this.#reserve(entry, session)
    return entry
  }

  #reserve(entry: ServerEntry, session: Session): void {
    this.#ctx.inventory.reserve(entry, session)
    this.#deps.retryGrace.remove(entry.build, sessionKey(session.id))
    this.#ctx.enqueue(entry.build)
  }

  #waitForServer(
    build: BuildEntry,
    call: CallInProgress,
    session: Session,
    since: number,
    { waitMs, signal }: AllocateOptions,
  ): Promise<ServerEntry | undefined> {
    const { waitQueue } = this.#deps
    for (const timeOut of call.timedOutJoins?.splice(0) ?? []) timeOut()
    const waitedMs = this.#ctx.clock.elapsed() - since
    const leftMs = waitMs - waitedMs
    if (leftMs <= 0) throw noServerError(build, waitedMs)
    const { maxWaiting } = this.#ctx.limits
    if (waitQueue.total >= maxWaiting && !call.hadServer) {
      throw new FleetError('unavailable', `${waitQueue.total} callers are waiting, and maxWaiting is ${maxWaiting}`)
    }
    const timeoutError = () => noServerError(build, waitedMs + leftMs)
    const waiting = { session: sessionKey(session.id), ticket: call.ticket, waitMs: leftMs, timeoutError, signal }
    return waitQueue.wait(build, waiting, (entry) => this.#reserve(entry, session))
  }

  /** Returns normally if the caller needs another server. Throws if the outcome of the write is unknown. */
  #saveFailed(entry: ServerEntry, session: Session, since: number, error: unknown): void {
    this.#ctx.requeue(entry)
    if (error instanceof LostServer) return
    // Until the store has been read back, the session stays bound to this server.
    this.#deps.writer.markUncertain(entry, () => {
      if (!this.#ctx.deposedError()) this.#reportAllocated(entry, session, since)
    })
    throw outcomeUnknownError(error)
  }

  async #resolveUncertain(entry: ServerEntry): Promise<void> {
    try {
      await this.#deps.writer.resolveUncertain(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw outcomeUnknownError(error)
      this.#ctx.requeue(entry)
    }
  }

  #reportAllocated(entry: ServerEntry, session: Session, since: number): void {
    const { clock, emitter } = this.#ctx
    const waitedMs = clock.elapsed() - since
    const text = `${entry.record.name} was allocated to session ${session.id}`
    const { at, build, server, message } = serverEvent(this.#ctx, entry, text)
    emitter.emit({ type: 'Allocated', at, build, server, message, sessionID: session.id, waitedMs })
  }
}

function sessionOf({ sessionID, sessionCookie, initialPlayers = noPlayers }: AllocationRequest): Session {
  return sessionCookie === undefined
    ? { id: sessionID, initialPlayers }
    : { id: sessionID, cookie: sessionCookie, initialPlayers }
}

const noPlayers: readonly string[] = Object.freeze([])
