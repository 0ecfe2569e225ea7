/**
 * Holds seats of sessions for players who are on their way. Decides in one tick, so that no seat is given twice, and answers when the
 * server's record with the holds is durable, so that a restart or another leader does not give it again.
 */
import { FleetError } from '../../contracts/errors.js'
import { reserved, withoutPlayers } from '../../rules/lifecycle/server-sessions.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { counted } from '../../rules/validation/problem.js'
import { keyOf, type SeatHold } from '../../rules/model/resources.js'
import { sessionKey } from '../../rules/model/names.js'
import { cutList } from '../../rules/model/sizes.js'
import type { CheckedJoin, RoomQuery, SeatRequest } from '../../rules/validation/session-schema.js'
import { type EngineContext, serverEvent } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { ServerEntry } from '../state/entries.js'
import { hasEnded, isHeard } from '../state/queries.js'
import { HoldTimers } from './hold-timers.js'
import {
  drainingError,
  fullError,
  noSessionError,
  sessionEndingError,
  unheardError,
  unknownSeatsError,
} from './seat-errors.js'
import { SessionFinder } from './session-finder.js'

export interface SeatsDependencies {
  readonly writer: Pick<ServerWriter, 'save'>
  readonly isDraining: () => boolean
}

export class Seats {
  readonly #ctx: EngineContext
  readonly #deps: SeatsDependencies
  readonly #finder: SessionFinder
  readonly #timers: HoldTimers

  constructor(ctx: EngineContext, deps: SeatsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
    this.#finder = new SessionFinder(ctx)
    this.#timers = new HoldTimers(ctx, (entry, players) => this.#emit('SeatsLapsed', entry, players))
  }

  /**
   * Holds seats for all players or none. Resolves when that is durable. Rejects with `no-room`, `not-found` if the session ends, `invalid`
   * if the build does not say how many seats there are, `unavailable` until the game has been heard, `not-leader`, or the store's error:
   * the seats are then held in vain until they lapse.
   */
  async reserve(entry: ServerEntry, sessionID: string, request: SeatRequest): Promise<void> {
    this.#check(entry, sessionID)
    const { clock, responsiveClock } = this.#ctx
    const { seatsPerSession } = entry.build.record.spec
    if (seatsPerSession === undefined) throw unknownSeatsError(entry.build)
    if (!isHeard(entry) || responsiveClock.isLate) throw unheardError(sessionID)
    const { players, holdMs } = request
    const wanted = { total: seatsPerSession, players: entry.players, wanted: players, holdMs }
    const outcome = reserved(entry.record.sessions[0]?.holds, wanted, clock.now())
    if (!outcome.ok) throw fullError(sessionID, outcome.seats, outcome.needed, outcome.tooLarge)
    await this.#change(entry, sessionID, outcome.holds)
    if (outcome.reserved.length > 0) this.#emit('SeatsReserved', entry, outcome.reserved)
  }

  /** Ends the holds of these players. Resolves when that is durable. Rejects like `reserve`. */
  async release(entry: ServerEntry, sessionID: string, players: readonly string[]): Promise<void> {
    this.#check(entry, sessionID)
    const { holds = [] } = entry.record.sessions[0] ?? {}
    const left = withoutPlayers(holds, players) ?? []
    const released = holds.filter((hold) => !left.includes(hold)).map(({ player }) => player)
    await this.#change(entry, sessionID, left)
    if (released.length > 0) this.#emit('SeatsReleased', entry, released)
  }

  /**
   * The server of the fullest session that has seats for all players, or of the one that they have joined before and are on their way to.
   * Undefined if there is none. Throws `not-found`, `invalid` if no session can have seats, and `draining`.
   */
  joinable(request: CheckedJoin): ServerEntry | undefined {
    const builds = this.#finder.buildsOf(request)
    const players = [...new Set(request.players)]
    const joined = this.#finder.alreadyJoined(request, players)
    if (joined) return joined
    if (this.#deps.isDraining() || builds.every(({ draining }) => draining)) throw drainingError()
    const [entry] = this.#finder.withFreeSeats(request, players.length)
    return entry
  }

  /** How many seats a new session has for certain, whichever of the builds it belongs to. */
  leastSeats(request: CheckedJoin): number {
    return Math.min(...this.#finder.buildsOf(request).map(({ record }) => record.spec.seatsPerSession ?? 1))
  }

  /** The sessions that have free seats, the fullest first. Throws `not-found` or `invalid` if there can be none. */
  withFreeSeats(query: RoomQuery): readonly ServerEntry[] {
    this.#finder.buildsOf(query)
    const found: ServerEntry[] = []
    if (this.#deps.isDraining()) return found
    for (const entry of this.#finder.withFreeSeats(query, query.seats)) {
      found.push(entry)
      if (found.length === query.limit) break
    }
    return found
  }

  /** Call when the game has reported other players than before. Those who have come need no hold any more. */
  playersChanged(entry: ServerEntry): void {
    const { clock, inventory } = this.#ctx
    const holds = withoutPlayers(entry.record.sessions[0]?.holds, entry.players)
    if (holds) inventory.update(entry, transition(entry.record, { type: 'seats', holds }, clock.now()))
  }

  /** Call when the record of a server has changed or was loaded. */
  recordChanged(entry: ServerEntry): void {
    this.#timers.update(entry)
  }

  stop(): void {
    this.#timers.stop()
  }

  #check(entry: ServerEntry, sessionID: string): void {
    const { sessions, state } = entry.record
    const [session] = sessions
    // Its game has ended the session, though that is not stored yet.
    if (!session || hasEnded(entry, session) || sessionKey(session.id) !== sessionKey(sessionID))
      throw noSessionError(sessionID)
    if (state === 'Terminating') throw sessionEndingError(sessionID)
  }

  async #change(entry: ServerEntry, sessionID: string, holds: readonly SeatHold[]): Promise<void> {
    const { clock, inventory } = this.#ctx
    inventory.update(entry, transition(entry.record, { type: 'seats', holds }, clock.now()))
    try {
      await this.#deps.writer.save(entry)
    } catch (error) {
      throw error instanceof LostServer ? sessionEndingError(sessionID) : error
    }
    // If another host is the leader now, it may have read the record before this change was stored.
    const deposedError = this.#ctx.deposedError()
    if (deposedError) throw deposedError
    if (entry.recordDeleted) throw new FleetError('not-found', `the record of server ${keyOf(entry.ref)} was deleted`)
    this.#check(entry, sessionID)
  }

  #emit(type: 'SeatsReserved' | 'SeatsReleased' | 'SeatsLapsed', entry: ServerEntry, all: readonly string[]): void {
    const sessionID = entry.record.sessions[0]?.id ?? ''
    const seats = counted(all.length, 'seat')
    const message = {
      SeatsReserved: `${seats} of session ${sessionID} ${all.length === 1 ? 'is' : 'are'} held`,
      SeatsReleased: `${seats} of session ${sessionID} ${all.length === 1 ? 'was' : 'were'} released`,
      SeatsLapsed: `${counted(all.length, 'player')} did not come to session ${sessionID} in time`,
    }[type]
    this.#ctx.emitter.emit({ type, ...serverEvent(this.#ctx, entry, message), sessionID, players: cutList(all) })
  }
}
