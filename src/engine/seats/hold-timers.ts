/** Ends holds of seats at their time, with one timer for each server that has any. A late timer does no harm: expired holds are not counted. */
import { afterLapse } from '../../rules/lifecycle/server-sessions.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

/** How late a hold may end after the wall clock was changed. */
const longestWaitMs = 60_000

interface Timer {
  /** Wall time in ms. */
  readonly at: number
  readonly cancel: () => void
}

export class HoldTimers {
  readonly #ctx: EngineContext
  readonly #lapsed: (entry: ServerEntry, players: readonly string[]) => void
  readonly #timers = new Map<ServerEntry, Timer>()

  /** `lapsed` is called with the players whose seats are no longer held. */
  constructor(ctx: EngineContext, lapsed: (entry: ServerEntry, players: readonly string[]) => void) {
    this.#ctx = ctx
    this.#lapsed = lapsed
  }

  /** Call when the record of a server has changed or was loaded. */
  update(entry: ServerEntry): void {
    const { sessions, state } = entry.record
    const [session] = sessions
    const timer = this.#timers.get(entry)
    if (!session?.holds || state === 'Terminating' || this.#ctx.stopped()) {
      if (timer) this.#clear(entry, timer)
      return
    }
    const at = session.holds.reduce((least, { until }) => Math.min(least, until), Infinity)
    if (timer?.at === at) return
    if (timer) this.#clear(entry, timer)
    const { clock } = this.#ctx
    const ms = Math.min(Math.max(1, at - clock.now()), longestWaitMs)
    this.#timers.set(entry, { at, cancel: clock.after(ms, () => this.#due(entry)) })
  }

  stop(): void {
    for (const [entry, timer] of this.#timers) this.#clear(entry, timer)
  }

  #due(entry: ServerEntry): void {
    this.#timers.delete(entry)
    const { clock, inventory, stopped } = this.#ctx
    const { holds } = entry.record.sessions[0] ?? {}
    if (!holds || stopped()) return
    const now = clock.now()
    const { left, lapsed } = afterLapse(holds, now)
    // The wall clock may have been set back a little meanwhile.
    if (lapsed.length === 0) return this.update(entry)
    inventory.update(entry, transition(entry.record, { type: 'seats', holds: left }, now))
    this.#lapsed(entry, lapsed)
  }

  #clear(entry: ServerEntry, timer: Timer): void {
    timer.cancel()
    this.#timers.delete(entry)
  }
}
