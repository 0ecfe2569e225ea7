/** Ends sessions to which no player has come within the build's `claimSeconds`. */
import { afterEmptyHeartbeat } from '../../rules/lifecycle/claims.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

export class Claims {
  readonly #ctx: EngineContext

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Call with each heartbeat of a server that has a session. */
  heard(entry: ServerEntry, hasPlayers: boolean): void {
    if (hasPlayers) entry.hadPlayers = true
    const { claimSeconds } = entry.build.record.spec
    if (claimSeconds === undefined || entry.hadPlayers) {
      entry.claim = undefined
      return
    }
    const { clock, inventory, responsiveClock } = this.#ctx
    // Players may have come while this heartbeat waited for the host.
    if (responsiveClock.isLate) {
      entry.claim = undefined
      return
    }
    const claim = afterEmptyHeartbeat(entry.claim, responsiveClock.atLastTick, claimSeconds)
    entry.claim = claim === 'unclaimed' ? undefined : claim
    if (claim !== 'unclaimed') return
    const message = `no player came within ${claimSeconds} s`
    inventory.update(entry, transition(entry.record, { type: 'end', reason: 'Unclaimed', message }, clock.now()))
  }
}
