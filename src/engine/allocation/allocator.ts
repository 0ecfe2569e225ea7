/**
 * Allocates servers: one session gets one server, regardless of concurrent calls and failures. A server is reserved before
 * the first await and allocated in one conditional write; the call resolves only when that write is durable.
 */
import { FleetError, throwIfAborted } from '../../contracts/errors.js'
import type { Allocation } from '../../contracts/sessions.js'
import { sessionByKey } from '../../rules/lifecycle/server-sessions.js'
import type { AllocationRequest, NewSession } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/names.js'
import { type Selection, selectionOf, targetOf } from '../../rules/planning/selection.js'
import { withTimeout } from '../../util/with-timeout.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { Activity } from '../reporting/activity.js'
import type { DemandRecorder } from '../reporting/demand-recorder.js'
import type { BuildEntry, Place, ServerEntry } from '../state/entries.js'
import { hasEnded, isUncertain, placeOf } from '../state/queries.js'
import {
  drainingError,
  isNoServerError,
  noBuildError,
  noServerError,
  otherRequestError,
  outcomeUnknownError,
  queueFullError,
} from './allocation-errors.js'
import { allocationOf, hasSession, knownAllocation } from './answer.js'
import { type AllocateOptions, type CallInProgress, mayTakeUnheard, newCall, resultWithin } from './call-in-progress.js'
import type { Confirmations } from './confirmations.js'
import { type PickOptions, Places } from './places.js'
import type { RetryGrace } from './retry-grace.js'
import { checkInitialPlayers } from './selected-builds.js'
import { Selector } from './selector.js'
import type { Home, WaitQueue } from './wait-queue.js'

interface AllocatorDependencies {
  readonly activity: Pick<Activity, 'allocated' | 'refused'>
  readonly demand: Pick<DemandRecorder, 'refused' | 'served'>
  readonly writer: ServerWriter
  readonly waitQueue: WaitQueue
  readonly retryGrace: RetryGrace
  readonly confirmations: Pick<Confirmations, 'wait'>
  readonly isDraining: () => boolean
  /** Called if a caller who does not wait is refused, because the build has no server. */
  readonly refused: (build: BuildEntry) => void
}

export class Allocator {
  readonly #ctx: EngineContext
  readonly #deps: AllocatorDependencies
  readonly #selector: Selector
  readonly #places: Places
  readonly #outcomes: AllocationOutcomes
  /** Calls in progress, by session. A second call for the same session joins the first instead of taking another server. */
  readonly #calls = new Map<string, CallInProgress>()
  #lastTicket = 0

  constructor(ctx: EngineContext, deps: AllocatorDependencies) {
    this.#ctx = ctx
    this.#deps = deps
    this.#selector = new Selector(ctx, { callers: (build) => deps.waitQueue.demand(build) })
    const { retryGrace, waitQueue } = deps
    this.#places = new Places(ctx, { retryGrace, selector: this.#selector, waitQueue })
    this.#outcomes = new AllocationOutcomes(ctx, deps)
  }

  /** Resolves when the allocation is durable or, with `confirmMs`, when the game has also confirmed the session. */
  allocate(request: AllocationRequest, options: AllocateOptions): Promise<Allocation> {
    const { confirmMs } = options
    return confirmMs === undefined ? this.#allocate(request, options) : this.#confirm(request, options, confirmMs)
  }

  async #confirm(request: AllocationRequest, options: AllocateOptions, confirmMs: number): Promise<Allocation> {
    const { clock } = this.#ctx
    const since = clock.elapsed()
    const allocation = await this.#allocate(request, options)
    const waitMs = confirmMs - (clock.elapsed() - since)
    await this.#deps.confirmations.wait(request.sessionID, { waitMs, signal: options.signal })
    return allocation
  }

  #allocate(request: AllocationRequest, options: AllocateOptions): Promise<Allocation> {
    const key = sessionKey(request.sessionID)
    const held = this.#ctx.inventory.serverBySessionKey(key)
    const undecided = held && isUndecided(held, key) ? held : undefined
    if (held && hasSession(held, key) && !undecided)
      return Promise.resolve(knownAllocation(this.#ctx.logger, held, request))
    const first = this.#calls.get(key)
    if (first) return this.#join(first, request, options)
    if (undecided) return this.#allocateOnceDecided(undecided, request, options)
    const call = newCall(key, request, this.#selectionOf(request, options), ++this.#lastTicket, options)
    this.#calls.set(key, call)
    return (call.result = this.#run(held, call, options))
  }

  /** Each call waits up to its own timeout. */
  async #allocateOnceDecided(
    held: ServerEntry,
    request: AllocationRequest,
    options: AllocateOptions,
  ): Promise<Allocation> {
    const { clock } = this.#ctx
    const since = clock.elapsed()
    const { waitMs, signal } = options
    await this.#outcomes.resolve(held, waitMs)
    throwIfAborted(signal)
    const stopError = this.#ctx.stopError()
    if (stopError) throw stopError
    return this.#allocate(request, { ...options, waitMs: Math.max(0, waitMs - (clock.elapsed() - since)) })
  }

  /**
   * Waits for the result of the first call, up to this call's own timeout. If the first call fails for a reason that does
   * not apply to this one, this call starts its own allocation.
   */
  async #join(first: CallInProgress, request: AllocationRequest, options: AllocateOptions): Promise<Allocation> {
    const { clock } = this.#ctx
    const selection = this.#selectionOf(request, options)
    const isSame = targetOf(first.request) === targetOf(request)
    const since = clock.elapsed()
    const leftMs = () => Math.max(0, options.waitMs - (clock.elapsed() - since))
    const hasServer = () => first.place !== undefined && first.place.state !== 'held' && first.place.state !== 'lost'
    try {
      const allocation = await resultWithin(clock, first, hasServer, options)
      if (allocation) return isSame ? allocation : this.#answerJoined(allocation, request)
      // The first call would wait longer, but this one ends, so the session gets a server that has not been heard.
      if (isSame && this.#serveLastResort(request, selection, options)) {
        return await this.#join(first, request, { ...options, waitMs: 0 })
      }
    } catch (error) {
      throwIfAborted(options.signal)
      const concernsOnlyFirst =
        !isSame ||
        // Another session of its batch may have failed.
        (first.inBatch && !options.gate) ||
        FleetError.is(error, 'aborted') ||
        // Even without time left, this call may take an unheard server that the first call, which must be confirmed, may not.
        (isNoServerError(error) && (leftMs() > 0 || (first.confirms && options.confirmMs === undefined)))
      if (!concernsOnlyFirst) throw error
      return this.#allocate(request, { ...options, waitMs: leftMs() })
    }
    const waitedMs = clock.elapsed() - since
    if (!isSame) throw otherRequestError(request.sessionID, waitedMs)
    throw this.#refuse(sessionKey(request.sessionID), this.#homeOf(request, selection), selection, waitedMs)
  }

  async #run(known: ServerEntry | undefined, call: CallInProgress, options: AllocateOptions): Promise<Allocation> {
    const { clock, inventory } = this.#ctx
    const { writer } = this.#deps
    const { signal } = options
    const { key, request, selection, session } = call
    const since = clock.elapsed()
    try {
      for (let held = known; ; held = inventory.serverBySessionKey(key)) {
        throwIfAborted(signal)
        const stopError = this.#ctx.stopError()
        if (stopError) throw stopError
        if (held && isUndecided(held, key)) {
          await this.#outcomes.resolve(held, options.waitMs - (clock.elapsed() - since))
          continue
        }
        if (held && hasSession(held, key)) return knownAllocation(this.#ctx.logger, held, request)

        const busy = selection && this.#selector.busy()
        if (busy) {
          await busy
          continue
        }
        const build = selection ? undefined : this.#buildOf(request)
        this.#checkNotDraining(build)
        checkInitialPlayers(request, inventory)
        if (selection) this.#selector.checkOrder(selection)
        const isLastChance =
          options.waitMs <= 0 || clock.elapsed() - since >= options.waitMs || (this.#isQueueFull() && !call.hadServer)
        const canWait = !isLastChance || !mayTakeUnheard(options)
        let place = this.#takeReady(build, call, options, canWait)
        if (!place) {
          const home = this.#homeOf(request, selection)
          place = await this.#waitForServer(home, call, since, options)
          if (!place) continue
          if (signal?.aborted) {
            this.#places.release(place)
            continue
          }
        }
        call.hadServer = true
        if (options.gate && !(await options.gate.hold(key, this.#places.held(place)))) continue
        const { entry } = place
        try {
          await writer.save(entry)
          // The server ended during the save, so remove the session from the store before another server may get it.
          if (place.state === 'writing') await writer.save(entry)
        } catch (error) {
          this.#outcomes.failed(place, since, error)
          continue
        }
        // If another host is the leader now, only that host can know the outcome of this write.
        const deposedError = this.#ctx.deposedError()
        if (deposedError) throw deposedError
        if (place.state !== 'durable') continue
        this.#outcomes.allocated(entry, session, since)
        return allocationOf(entry, session.id)
      }
    } finally {
      this.#calls.delete(key)
    }
  }

  #buildOf({ buildID = '' }: AllocationRequest): BuildEntry {
    const build = this.#ctx.inventory.buildByID(buildID)
    if (!build) throw noBuildError(this.#ctx.inventory.builds.values(), buildID)
    return build
  }

  #selectionOf(request: AllocationRequest, { confirmMs }: AllocateOptions): Selection | undefined {
    const { buildID } = request
    const build = buildID === undefined ? undefined : this.#ctx.inventory.buildByID(buildID)
    return selectionOf(request, confirmMs !== undefined, build?.record.spec)
  }

  #homeOf(request: AllocationRequest, selection: Selection | undefined): Home {
    return selection ? this.#selector.home(selection) : { build: this.#buildOf(request), isDemand: true }
  }

  #answerJoined(allocation: Allocation, request: AllocationRequest): Allocation {
    const entry = this.#ctx.inventory.serverBySession(request.sessionID)
    const isKnown = entry && hasSession(entry, sessionKey(request.sessionID))
    return isKnown ? knownAllocation(this.#ctx.logger, entry, request) : allocation
  }

  #checkNotDraining(build: BuildEntry | undefined): void {
    if (build?.draining || this.#deps.isDraining()) throw drainingError(build)
  }

  /** `build` is undefined for a request with `selection`. */
  #takeReady(
    build: BuildEntry | undefined,
    call: CallInProgress,
    options: AllocateOptions,
    canWait: boolean,
  ): Place | undefined {
    const { confirmMs, gate } = options
    const entry = this.#pick(build, call.selection, { canWait, gate, soonest: confirmMs !== undefined })
    return entry && (call.place = this.#places.take(entry, call, gate))
  }

  #pick(
    build: BuildEntry | undefined,
    selection: Selection | undefined,
    options: PickOptions,
  ): ServerEntry | undefined {
    return build ? this.#places.pick(build, options) : selection && this.#selector.pick(selection, options.canWait)
  }

  #refuse(session: string, home: Home, selection: Selection | undefined, waitedMs: number): FleetError {
    this.#gotNone(session, home, waitedMs)
    return selection ? this.#selector.noServerError(selection, home, waitedMs) : noServerError(home.build, waitedMs)
  }

  /** A caller whom no new server would fit is no demand. */
  #gotNone(session: string, { build, isDemand }: Home, waitedMs: number): void {
    if (!isDemand) return
    this.#deps.demand.refused(build, session, waitedMs)
    this.#deps.activity.refused(build, this.#ctx.clock.now())
  }

  /** Gives an unheard server to the first call for this session. Returns false if there is none, or the call does not wait. */
  #serveLastResort(request: AllocationRequest, selection: Selection | undefined, options: AllocateOptions): boolean {
    const build = selection ? undefined : this.#buildOf(request)
    const entry = this.#pick(build, selection, { canWait: !mayTakeUnheard(options), soonest: false })
    return entry !== undefined && this.#deps.waitQueue.serveSession(sessionKey(request.sessionID), entry)
  }

  async #waitForServer(
    home: Home,
    call: CallInProgress,
    since: number,
    options: AllocateOptions,
  ): Promise<Place | undefined> {
    const { waitQueue } = this.#deps
    const { selection } = call
    const { waitMs, signal } = options
    call.place = undefined
    for (const timeOut of call.timedOutJoins?.splice(0) ?? []) timeOut()
    const waitedMs = this.#ctx.clock.elapsed() - since
    const leftMs = waitMs - waitedMs
    if (leftMs <= 0) {
      this.#deps.refused(home.build)
      throw this.#refuse(call.key, home, selection, waitedMs)
    }
    if (this.#isQueueFull() && !call.hadServer) {
      this.#gotNone(call.key, home, waitedMs)
      throw queueFullError(waitQueue.total, this.#ctx.limits.maxWaiting)
    }
    const waiting = {
      session: call.key,
      ticket: call.ticket,
      waitMs: leftMs,
      selective: selection && this.#selector.callerOf(selection),
      lastResort: () =>
        this.#pick(selection ? undefined : home.build, selection, {
          canWait: !mayTakeUnheard(options),
          soonest: false,
        }),
      timeoutError: (last: Home) => this.#refuse(call.key, last, selection, waitedMs + leftMs),
      signal,
    }
    try {
      await waitQueue.wait(home, waiting, (entry) => (call.place = this.#places.take(entry, call, options.gate)))
    } catch (error) {
      // A caller who gives up got no server either.
      if (FleetError.is(error, 'aborted')) this.#gotNone(call.key, home, this.#ctx.clock.elapsed() - since)
      throw error
    }
    return call.place
  }

  #isQueueFull(): boolean {
    return this.#deps.waitQueue.total >= this.#ctx.limits.maxWaiting
  }
}

/** A write that takes longer holds up no caller that does not wait. */
const writeMs = 1_000

interface AllocationOutcomesDependencies {
  readonly activity: Pick<Activity, 'allocated'>
  readonly demand: Pick<DemandRecorder, 'served'>
  readonly writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>
}

/** What follows the write that allocates a server: the event, or what is known after a failure. */
class AllocationOutcomes {
  readonly #ctx: EngineContext
  readonly #deps: AllocationOutcomesDependencies

  constructor(ctx: EngineContext, deps: AllocationOutcomesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** `since`: when the caller came, in elapsed ms. */
  allocated({ build, ref: server }: ServerEntry, { id: sessionID }: NewSession, since: number): void {
    const { clock, emitter } = this.#ctx
    const waitedMs = Math.round(clock.elapsed() - since)
    const at = clock.now()
    this.#deps.activity.allocated(build, at, waitedMs)
    this.#deps.demand.served(build, sessionID, waitedMs)
    emitter.emit({ type: 'Allocated', at, build: build.ref, server, message: '', sessionID, waitedMs })
  }

  /** Returns normally if the outcome is known: the session has this server, or the caller needs another. Throws if it is unknown. */
  failed(place: Place, since: number, error: unknown): void {
    const { entry, session } = place
    this.#ctx.requeue(entry)
    if (error instanceof LostServer || place.state === 'lost') return
    const report = () => {
      if (!this.#ctx.deposedError()) this.allocated(entry, session, since)
    }
    // Another write of the record, which contained the session as well, has ended before this failure was noticed.
    if (place.state === 'durable') return report()
    // Until the store has been read back, the session stays bound to this server.
    place.granted = report
    throw outcomeUnknownError(error)
  }

  /**
   * Returns when it may be known which session the server has. Throws `unavailable` if the store does not say so within `waitMs`, or, for
   * a caller that does not wait, within about the time that a write takes.
   */
  async resolve(entry: ServerEntry, waitMs: number): Promise<void> {
    const what = `the write that decides about ${entry.record.name}`
    try {
      await withTimeout(this.#ctx.clock, Math.max(waitMs, writeMs), what, () => this.#decision(entry))
    } catch (error) {
      throw outcomeUnknownError(error)
    }
  }

  async #decision(entry: ServerEntry): Promise<void> {
    if (entry.removal) return entry.removal
    // This write decides. The one after it may be for another session, whose caller alone waits for it.
    if (entry.saving) return entry.saving.catch(() => undefined)
    try {
      if (isUncertain(entry)) await this.#deps.writer.resolveUncertain(entry)
      else await this.#deps.writer.save(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw error
      this.#ctx.requeue(entry)
    }
  }
}

/** True while a write decides whether the server has the session: one that allocates it, that records its end, or that removes the server. */
function isUndecided(entry: ServerEntry, key: string): boolean {
  const { ends, record, removal } = entry
  const place = placeOf(entry, key)
  if (removal || (place && place.state !== 'held')) return true
  if (!ends || record.state !== 'Active') return false
  const session = sessionByKey(record, key)
  return session !== undefined && hasEnded(entry, session)
}
