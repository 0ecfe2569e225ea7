/**
 * Finds servers with free places, and takes places for sessions, in the tick in which a caller finds them. One session is written to its server
 * together with all others that have taken a place there since the last write.
 */
import { sessionsPerServer } from '../../rules/lifecycle/server-sessions.js'
import { isAllocatable, isHeartbeatOverdue, pickServer, pickSoonest } from '../../rules/planning/server-choice.js'
import type { Selection } from '../../rules/planning/selection.js'
import type { EngineContext } from '../context.js'
import { fullestServer } from '../state/best-candidate.js'
import type { BuildEntry, Place, ServerEntry } from '../state/entries.js'
import { isBeingAllocated } from '../state/queries.js'
import type { BatchGate, HeldServer } from './batch-gate.js'
import type { RetryGrace } from './retry-grace.js'
import type { Selector } from './selector.js'
import type { WaitQueue } from './wait-queue.js'

export interface PlacesDependencies {
  readonly retryGrace: Pick<RetryGrace, 'remove'>
  readonly selector: Pick<Selector, 'accepts'>
  readonly waitQueue: Pick<WaitQueue, 'serveMate'>
}

export interface PickOptions {
  /** Whether the caller can wait instead of getting a server that this host has not heard. */
  readonly canWait: boolean
  readonly gate?: BatchGate | undefined
  /** Of the servers that are standing by, takes the one whose game receives its session first. */
  readonly soonest: boolean
}

/** What takes a place: a session, and what its request demands of the server. */
export type Wanted = Pick<Place, 'key' | 'selection' | 'session'>

export class Places {
  readonly #ctx: EngineContext
  readonly #deps: PlacesDependencies
  /** The servers on which an atomic batch holds places. */
  readonly #heldBy = new WeakMap<BatchGate, Set<ServerEntry>>()

  constructor(ctx: EngineContext, deps: PlacesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * A server of the build with a free place: one on which the same batch holds one, else one that has sessions, else one that is standing by.
   */
  pick(build: BuildEntry, { canWait, gate, soonest }: PickOptions): ServerEntry | undefined {
    const shared = build.candidates?.takesSeveral && (this.#heldWithFreePlace(gate, build) ?? fullestServer([build]))
    return shared || (soonest ? soonestIn(this.#ctx, build, canWait) : pickServer(build.buckets, canWait))
  }

  /** Takes a place for a session. An atomic batch only holds it. */
  take(entry: ServerEntry, { key, selection, session }: Wanted, gate: BatchGate | undefined): Place {
    const place: Place = { entry, session, key, selection, state: gate ? 'held' : 'reserved', granted: undefined }
    const isIdle = entry.places.length === 0 && isAllocatable(entry.record)
    this.#ctx.inventory.take(place)
    this.#deps.retryGrace.remove(session.id, entry.build)
    this.#ctx.enqueue(entry.build)
    if (gate && isIdle) this.#serveMates(entry, gate)
    return place
  }

  release(place: Place): void {
    this.#ctx.inventory.release(place)
    this.#ctx.enqueue(place.entry.build)
  }

  /** A place that an atomic batch holds. */
  held(place: Place): HeldServer {
    const { entry, selection } = place
    return {
      isFree: () => place.state === 'held' && takes(entry) && this.#fits(entry, selection),
      reserve: () => this.#ctx.inventory.reserve(place),
      release: () => this.release(place),
    }
  }

  #fits(entry: ServerEntry, selection: Selection | undefined): boolean {
    return selection ? this.#deps.selector.accepts(selection, entry) : !entry.build.draining
  }

  /** Other sessions of the batch may wait for this server, whose free places are for nobody else. */
  #serveMates(entry: ServerEntry, gate: BatchGate): void {
    this.#heldBy.set(gate, (this.#heldBy.get(gate) ?? new Set()).add(entry))
    for (const key of gate.sessions) {
      if (!entry.build.candidates?.hasFreePlace(entry)) break
      this.#deps.waitQueue.serveMate(key, entry)
    }
  }

  #heldWithFreePlace(gate: BatchGate | undefined, build: BuildEntry): ServerEntry | undefined {
    if (!gate) return undefined
    for (const entry of this.#heldBy.get(gate) ?? []) {
      const isHeld = entry.places.length > 0 && isAllocatable(entry.record) && !isBeingAllocated(entry)
      if (isHeld && entry.build === build && build.candidates?.hasFreePlace(entry)) return entry
    }
    return undefined
  }
}

/** True if another session may begin on the server. Since a place on it was taken, its build may have got another spec. */
function takes({ build, isLeaving, places, record }: ServerEntry): boolean {
  const taken = record.sessions.length + places.filter(({ state }) => state !== 'held').length
  if (isLeaving || taken >= sessionsPerServer(build.record.spec)) return false
  return record.state === 'Active' ? record.sessions.length > 0 : isAllocatable(record)
}

/** The ready server of the build whose game receives its session first. */
function soonestIn(
  { limits, responsiveClock }: Pick<EngineContext, 'limits' | 'responsiveClock'>,
  { buckets, dueReady: due, parkedReady: held }: BuildEntry,
  canWait: boolean,
): ServerEntry | undefined {
  const now = responsiveClock.now()
  const isOverdue = ({ silentSince }: ServerEntry) => isHeartbeatOverdue(now - silentSince, limits.heartbeatIntervalMs)
  return pickSoonest({ ...buckets, held, due }, isOverdue, canWait)
}
