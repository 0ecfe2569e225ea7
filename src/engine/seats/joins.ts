/**
 * Puts groups of players into sessions with room, and begins a session where there is none. While one is being begun, the groups that fit
 * into it wait for it instead of beginning others: each of their calls allocates the same session, so all of them get its server.
 */
import { FleetError } from '../../contracts/errors.js'
import type { AllocationRequest } from '../../rules/model/allocation-request.js'
import { guidOf } from '../../rules/model/names.js'
import type { CheckedJoin } from '../../rules/validation/session-schema.js'
import type { Allocator } from '../allocation/allocator.js'
import type { AllocateOptions } from '../allocation/call-in-progress.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { noSessionError, noSessionWithRoomError } from './seat-errors.js'
import type { Seats } from './seats.js'

export interface JoinsDependencies {
  readonly allocator: Pick<Allocator, 'allocate'>
  readonly seats: Pick<Seats, 'joinable' | 'leastSeats' | 'reserve'>
}

/** A session that is being begun, until it has a server or no call waits for it. */
interface Start {
  readonly request: AllocationRequest
  /** Seats for which no call waits. */
  free: number
  calls: number
}

export class Joins {
  readonly #ctx: Pick<EngineContext, 'clock' | 'inventory'>
  readonly #deps: JoinsDependencies
  /** By what they select, in the order in which they were begun. */
  readonly #starts = new Map<string, Set<Start>>()

  constructor(ctx: Pick<EngineContext, 'clock' | 'inventory'>, deps: JoinsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Holds seats for all players in the fullest session that has room for them, and returns its server. A repeated call finds the same
   * session while its players are on their way. If there is none, begins one with `orAllocate`, and otherwise rejects with `no-room`.
   * Rejects with `draining`, and otherwise like `Seats.reserve` and `Allocator.allocate`.
   */
  async join(request: CheckedJoin, options: AllocateOptions): Promise<ServerEntry> {
    const { clock } = this.#ctx
    const { seats } = this.#deps
    const since = clock.elapsed()
    const count = new Set(request.players).size
    for (;;) {
      const entry = seats.joinable(request)
      if (entry) return this.#reserve(entry, entry.record.sessions[0]?.id ?? '', request)
      if (!request.orAllocate) throw noSessionWithRoomError(count)
      // In one tick with the search, so that it finds either the session or its start.
      const start = this.#startUnderWay(request, count)
      const waitMs = Math.max(0, options.waitMs - (clock.elapsed() - since))
      if (!start) return this.#begin(request, count, { ...options, waitMs })
      try {
        return await this.#follow(start, request, count, { ...options, waitMs })
      } catch (error) {
        // Another caller took the seats first, or the session has already ended: search again.
        if (!FleetError.is(error, 'no-room') && !FleetError.is(error, 'not-found')) throw error
      }
    }
  }

  #startUnderWay(request: CheckedJoin, count: number): Start | undefined {
    return [...(this.#starts.get(targetOf(request)) ?? [])].find(({ free }) => free >= count)
  }

  /** The players are those whom the session begins with, so they have seats there. */
  #begin(request: CheckedJoin, count: number, options: AllocateOptions): Promise<ServerEntry> {
    const { buildID, players, select, sessionCookie, sessionID = guidOf(this.#ctx.clock.randomBytes(16)) } = request
    const target = select ? { select } : { buildID: buildID ?? '' }
    const start: Start = {
      request: { ...target, sessionID, initialPlayers: players, ...(sessionCookie !== undefined && { sessionCookie }) },
      free: this.#deps.seats.leastSeats(request),
      calls: 0,
    }
    const key = targetOf(request)
    const starts = this.#starts.get(key) ?? new Set()
    this.#starts.set(key, starts.add(start))
    return this.#follow(start, request, count, options)
  }

  async #follow(start: Start, request: CheckedJoin, count: number, options: AllocateOptions): Promise<ServerEntry> {
    const { sessionID } = start.request
    start.free -= count
    start.calls++
    let isOver = false
    try {
      await this.#deps.allocator.allocate(start.request, options)
      isOver = true
    } finally {
      start.free += count
      if (--start.calls === 0 || isOver) this.#forget(start, targetOf(request))
    }
    const entry = this.#ctx.inventory.serverBySession(sessionID)
    if (!entry) throw noSessionError(sessionID)
    return this.#reserve(entry, sessionID, request)
  }

  async #reserve(entry: ServerEntry, sessionID: string, request: CheckedJoin): Promise<ServerEntry> {
    await this.#deps.seats.reserve(entry, sessionID, request)
    return entry
  }

  #forget(start: Start, key: string): void {
    const starts = this.#starts.get(key)
    starts?.delete(start)
    if (starts?.size === 0) this.#starts.delete(key)
  }
}

function targetOf({ buildID, select }: CheckedJoin): string {
  return JSON.stringify([buildID, select])
}
