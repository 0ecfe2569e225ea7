/**
 * Reserves idle servers for a time. The time is in the server's record, so a reservation survives restarts and ends at the same time on
 * the next host. A server is reserved in the tick of the call, so that no caller gets it any more, and the call is answered when that is
 * durable.
 */
import { FleetError } from '../../contracts/errors.js'
import { isIdle, maxReservationMs, transition } from '../../rules/lifecycle/lifecycle.js'
import { keyOf } from '../../rules/model/resources.js'
import { type EngineContext, serverEvent } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { ServerEntry } from '../state/entries.js'
import { isUncertain } from '../state/queries.js'

export interface ReservationsDependencies {
  readonly writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>
  readonly isDraining: () => boolean
}

interface Timer {
  /** Wall time in ms. */
  readonly at: number
  readonly cancel: () => void
}

export class Reservations {
  readonly #ctx: EngineContext
  readonly #deps: ReservationsDependencies
  readonly #timers = new Map<ServerEntry, Timer>()

  constructor(ctx: EngineContext, deps: ReservationsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /**
   * Reserves an idle server, or renews its reservation. Resolves when that is durable. Rejects with `in-use` if the server has a session
   * or is getting one, `not-found` if it terminates, `draining`, `not-leader`, or the store's error: it is then reserved all the same.
   */
  async reserve(entry: ServerEntry, forMs: number): Promise<void> {
    this.#check(entry)
    if (entry.places.length > 0) throw inUseError(entry, 'is being allocated')
    if (entry.build.draining || this.#deps.isDraining()) {
      const what = entry.build.draining ? `build ${entry.build.record.name}` : 'the fleet'
      throw new FleetError('draining', `${what} is draining, so its idle servers are being terminated`)
    }
    this.#set(entry, this.#ctx.clock.now() + forMs, 'ServerReserved')
    await this.#save(entry)
    // A caller that names the server may have been faster, or another host.
    this.#check(entry)
  }

  /** Ends a reservation, if there is one. Resolves when that is durable. Rejects with `not-found`, `not-leader`, or the store's error. */
  async release(entry: ServerEntry): Promise<void> {
    this.#set(entry, undefined, 'ReservationReleased')
    await this.#save(entry)
  }

  /** Call when the record of a server has changed or was loaded. */
  recordChanged(entry: ServerEntry): void {
    const { reservedUntil: at } = entry.record
    const timer = this.#timers.get(entry)
    if (timer?.at === at) return
    if (timer) this.#clear(entry, timer)
    if (at === undefined || this.#ctx.stopped()) return
    const { clock } = this.#ctx
    // Counted by the monotonic clock from here on, so that a jump of the wall clock neither ends nor prolongs it.
    const ms = Math.min(Math.max(0, at - clock.now()), maxReservationMs)
    this.#timers.set(entry, { at, cancel: clock.after(ms, () => this.#due(entry)) })
  }

  stop(): void {
    for (const [entry, timer] of this.#timers) this.#clear(entry, timer)
  }

  #due(entry: ServerEntry): void {
    this.#timers.delete(entry)
    if (!this.#ctx.stopped()) this.#set(entry, undefined, 'ReservationLapsed')
  }

  #clear(entry: ServerEntry, timer: Timer): void {
    timer.cancel()
    this.#timers.delete(entry)
  }

  #check(entry: ServerEntry): void {
    const { record, recordDeleted, ref } = entry
    if (recordDeleted) throw new FleetError('not-found', `the record of server ${keyOf(ref)} was deleted`)
    if (record.state === 'Terminating') throw new FleetError('not-found', `server ${keyOf(ref)} is terminating`)
    if (!isIdle(record)) throw inUseError(entry, 'has a session')
  }

  #set(
    entry: ServerEntry,
    until: number | undefined,
    type: 'ServerReserved' | 'ReservationReleased' | 'ReservationLapsed',
  ): void {
    const { clock, emitter, inventory } = this.#ctx
    const reserved = transition(entry.record, { type: 'reservation', until }, clock.now())
    if (reserved === entry.record) return
    // Before the event: its listeners may change the record, too.
    inventory.update(entry, reserved)
    const { name } = reserved
    const event = (message: string) => serverEvent(this.#ctx, entry, message)
    if (type === 'ServerReserved' && until !== undefined) {
      const message = `${name} is reserved until ${new Date(until).toISOString()}`
      emitter.emit({ type, ...event(message), until })
    } else if (type !== 'ServerReserved') {
      const message = `the reservation of ${name} ${type === 'ReservationLapsed' ? 'has lapsed' : 'was released'}`
      emitter.emit({ type, ...event(message) })
    }
  }

  async #save(entry: ServerEntry): Promise<void> {
    try {
      if (isUncertain(entry)) await this.#deps.writer.resolveUncertain(entry)
      await this.#deps.writer.save(entry)
    } catch (error) {
      // Another host has allocated or terminated the server, which the entry shows by now.
      if (!(error instanceof LostServer)) throw error
    }
    // If another host is the leader now, it may have read the record before this change was stored.
    const deposedError = this.#ctx.deposedError()
    if (deposedError) throw deposedError
  }
}

function inUseError({ ref }: ServerEntry, why: string): FleetError {
  return new FleetError('in-use', `server ${keyOf(ref)} ${why}, so it cannot be reserved; only idle servers can`)
}
