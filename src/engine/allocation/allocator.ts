/**
 * Hands out servers: one session, one server, however many ask and whatever fails. A server is reserved before the
 * first await, is given in one conditional write, and nobody is told before that is durable.
 */
import { FleetError, messageOf, throwIfAborted } from '../../contracts/errors.js'
import { pick, refusal, sessionKey } from '../../rules/planning/allocation.js'
import type { AllocationRequest, Session } from '../../rules/model/resources.js'
import { buildHealth } from '../../rules/model/status.js'
import { type Allocation, allocationOf } from '../../rules/model/wire.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { RetryGrace } from './retry-grace.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { WaitQueue } from './wait-queue.js'

export interface AllocatorDependencies {
  readonly writer: ServerWriter
  readonly room: WaitQueue
  readonly expected: RetryGrace
  readonly isDraining: () => boolean
}

export interface AllocatorOptions {
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
}

export interface Allocator {
  allocate(request: AllocationRequest, options: AllocatorOptions): Promise<Allocation>
}

interface UnderWay {
  readonly buildID: string
  /** Who came first is served first, also when it comes back. */
  readonly turn: number
  /** It was given a server. If it waits all the same, that was lost. */
  hadServer: boolean
  /** Ends the waiting of those who have joined it, and whose time is up: they stay for a server that is on its way only. */
  overdue: (() => void)[] | undefined
  /** Set before anybody else can come in. */
  result: Promise<Allocation>
}

const unanswered = new Promise<never>(() => {})

export function allocator(ctx: EngineContext, parts: AllocatorDependencies): Allocator {
  const { clock, inventory } = ctx
  const { writer, room, expected, isDraining } = parts
  /** Calls under way by session: a second one for the same session joins instead of taking another server. */
  const underWay = new Map<string, UnderWay>()
  let turns = 0

  function allocate(request: AllocationRequest, options: AllocatorOptions): Promise<Allocation> {
    const key = sessionKey(request.sessionID)
    const held = inventory.serverBySession(key)
    if (held?.record.session) return Promise.resolve(allocationOf(held.record))
    const first = underWay.get(key)
    if (first) return join(first, request, options)
    const call: UnderWay = {
      buildID: request.buildID,
      turn: ++turns,
      hadServer: false,
      overdue: undefined,
      result: unanswered,
    }
    underWay.set(key, call)
    return (call.result = find(key, call, request, options))
  }

  /**
   * Takes what the call before gets, waiting no longer than it may itself. Where that one gives up for reasons of its
   * own, this one goes on by itself.
   */
  async function join(first: UnderWay, request: AllocationRequest, options: AllocatorOptions): Promise<Allocation> {
    const since = clock.elapsed()
    const leftMs = () => Math.max(0, options.waitMs - (clock.elapsed() - since))
    try {
      const allocation = await outcomeOf(first, request, options)
      if (allocation) return allocation
    } catch (error) {
      throwIfAborted(options.signal)
      const ofItsOwn =
        first.buildID !== request.buildID || FleetError.is(error, 'aborted') || (isRefusal(error) && leftMs() > 0)
      if (!ofItsOwn) throw error
      return allocate(request, { ...options, waitMs: leftMs() })
    }
    throw refused(buildOf(request), clock.elapsed() - since)
  }

  /** What the call before gets; undefined when the time is up and no server is on its way to the session, or no more. */
  function outcomeOf(
    first: UnderWay,
    { sessionID }: AllocationRequest,
    { waitMs, signal }: AllocatorOptions,
  ): Promise<Allocation | undefined> {
    return new Promise((resolve, reject) => {
      const aborted = () => reject(new FleetError('aborted', 'the caller stopped waiting', { cause: signal?.reason }))
      const cancel = clock.after(waitMs, () => {
        const timeUp = () => resolve(undefined)
        if (inventory.serverBySession(sessionID)) (first.overdue ??= []).push(timeUp)
        else timeUp()
      })
      signal?.addEventListener('abort', aborted, { once: true })
      first.result.then(resolve, reject).finally(() => {
        cancel()
        signal?.removeEventListener('abort', aborted)
      })
    })
  }

  async function find(
    key: string,
    call: UnderWay,
    request: AllocationRequest,
    options: AllocatorOptions,
  ): Promise<Allocation> {
    const { signal } = options
    const session = sessionOf(request)
    const since = clock.elapsed()
    try {
      for (;;) {
        throwIfAborted(signal)
        const over = ctx.over()
        if (over) throw over
        const held = inventory.serverBySession(key)
        if (held?.uncertain) {
          await settle(held)
          continue
        }
        if (held?.record.session) return allocationOf(held.record)

        const build = buildOf(request)
        if (build.draining || isDraining()) {
          throw new FleetError('draining', `build ${build.record.name} is being drained and hands out no servers`)
        }
        let entry = reserveNow(build, session)
        if (!entry) {
          entry = await waitFor(build, call, session, since, options)
          if (!entry) continue
          if (signal?.aborted) {
            inventory.release(entry)
            continue
          }
        }
        call.hadServer = true
        try {
          await writer.save(entry)
          // It ended while it was being handed out: the store must forget the session before another server may have it.
          if (entry.intent) await writer.save(entry)
        } catch (error) {
          notSaved(entry, session, since, error)
          continue
        }
        // It was written under a lead that has been lost since: what is true now, only the next leader knows.
        const deposed = ctx.deposed()
        if (deposed) throw deposed
        if (entry.record.session?.id !== session.id) continue
        tellAllocated(entry, session, since)
        return allocationOf(entry.record)
      }
    } finally {
      underWay.delete(key)
    }
  }

  function tellAllocated(entry: ServerEntry, session: Session, since: number): void {
    const waitedMs = clock.elapsed() - since
    const { at, build, server, message } = serverEvent(
      ctx,
      entry,
      `${entry.record.name} was handed to session ${session.id}`,
    )
    ctx.emitter.emit({ type: 'Allocated', at, build, server, message, sessionID: session.id, waitedMs })
  }

  function buildOf({ buildID }: AllocationRequest): BuildEntry {
    const build = inventory.buildByID(buildID)
    if (!build) throw new FleetError('not-found', `no build has the buildID ${JSON.stringify(buildID)}`)
    return build
  }

  function reserveNow(build: BuildEntry, session: Session): ServerEntry | undefined {
    const entry = pick(build.buckets.ready, build.buckets.outdatedReady)
    if (entry) reserve(entry, session)
    return entry
  }

  function reserve(entry: ServerEntry, session: Session): void {
    inventory.reserve(entry, session)
    expected.remove(entry.build, sessionKey(session.id))
    ctx.enqueue(entry.build)
  }

  function waitFor(
    build: BuildEntry,
    call: UnderWay,
    session: Session,
    since: number,
    { waitMs, signal }: AllocatorOptions,
  ): Promise<ServerEntry | undefined> {
    for (const timeUp of call.overdue?.splice(0) ?? []) timeUp()
    const waitedMs = clock.elapsed() - since
    const leftMs = waitMs - waitedMs
    if (leftMs <= 0) throw refused(build, waitedMs)
    if (room.total >= ctx.limits.maxWaiting && !call.hadServer) {
      throw new FleetError('unavailable', `${room.total} callers wait already, and no more are let in`)
    }
    const timedOut = () => refused(build, waitedMs + leftMs)
    const waiting = { session: sessionKey(session.id), turn: call.turn, waitMs: leftMs, timedOut, signal }
    return room.wait(build, waiting, (entry) => reserve(entry, session))
  }

  /** Returns when another server must be found; throws when nobody knows what the store holds now. */
  function notSaved(entry: ServerEntry, session: Session, since: number, error: unknown): void {
    ctx.touch(entry)
    if (error instanceof LostServer) return
    // Whether the session is in the store, nobody knows. It stays bound to this server until that is found out.
    writer.markUncertain(entry, () => {
      if (!ctx.deposed()) tellAllocated(entry, session, since)
    })
    throw unavailable(error)
  }

  async function settle(entry: ServerEntry): Promise<void> {
    try {
      await writer.resolveUncertain(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw unavailable(error)
      ctx.touch(entry)
    }
  }

  return { allocate }
}

function sessionOf({ sessionID, sessionCookie, initialPlayers = noPlayers }: AllocationRequest): Session {
  return sessionCookie === undefined
    ? { id: sessionID, initialPlayers }
    : { id: sessionID, cookie: sessionCookie, initialPlayers }
}

const noPlayers: readonly string[] = Object.freeze([])

function refused(build: BuildEntry, waitedMs: number): FleetError {
  const { record, buckets } = build
  const { name, spec } = record
  const after = waitedMs > 0 ? ` after ${Math.round(waitedMs / 100) / 10} s of waiting` : ''
  const isUnhealthy = buildHealth(record) === 'Unhealthy'
  const code = refusal(buckets.active.size + buckets.reserved.size, spec.max)
  switch (code) {
    case 'max-reached': {
      const hope = isUnhealthy ? noNewOnes : '; a match has to end first'
      return new FleetError(code, `all ${spec.max} servers of build ${name} are in use${after}${hope}`)
    }
    case 'none-standing-by': {
      const hope = isUnhealthy ? noNewOnes : '; try again soon'
      return new FleetError(code, `no server of build ${name} is standing by${after}${hope}`)
    }
  }
}

const noNewOnes = ', and it gets no new ones: it is Unhealthy, until its crashesToMarkUnhealthy is raised or removed'

function isRefusal(error: unknown): boolean {
  return FleetError.is(error, 'none-standing-by') || FleetError.is(error, 'max-reached')
}

function unavailable(cause: unknown): FleetError {
  return new FleetError(
    'unavailable',
    `the store did not answer, so nothing was handed out for certain; the same call again settles it (${messageOf(cause)})`,
    { cause },
  )
}
