/** Finds sessions with free seats, the fullest first, so that matches become full. */
import { hasSeat, seatsOf } from '../../rules/lifecycle/server-sessions.js'
import type { ServerSelector } from '../../rules/model/allocation-request.js'
import { noData } from '../../rules/lifecycle/server-data.js'
import { fits } from '../../rules/planning/selection.js'
import type { CheckedTarget } from '../../rules/validation/session-schema.js'
import { noSelectedBuildError, selectedBuilds } from '../allocation/selected-builds.js'
import type { EngineContext } from '../context.js'
import { withFreeSeats } from '../state/best-candidate.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { hasEnded, isHeard } from '../state/queries.js'
import { unknownSeatsError } from './seat-errors.js'

export class SessionFinder {
  readonly #ctx: Pick<EngineContext, 'clock' | 'inventory'>

  constructor(ctx: Pick<EngineContext, 'clock' | 'inventory'>) {
    this.#ctx = ctx
  }

  /**
   * Yields the sessions that have so many free seats, those of the first selector first. Looks at each group of servers with the same data
   * once for each selector. Builds that are draining are passed over.
   */
  *withFreeSeats(target: CheckedTarget, seats: number): Generator<ServerEntry> {
    const now = this.#ctx.clock.now()
    const seen = new Set<ServerEntry>()
    for (const selector of selectorsOf(target)) {
      for (const servers of withFreeSeats(selectedBuilds(this.#ctx.inventory, selector), seats, selector)) {
        for (const entry of servers) {
          // Its game may have ended the session, though that is not stored yet.
          if (seen.has(entry) || freeSeatsIn(entry, now) < seats) continue
          seen.add(entry)
          yield entry
        }
      }
    }
  }

  /**
   * The session that an earlier call has joined these players to, so that a repeated call joins them to the same one: all of them have
   * seats there, and some are still on their way.
   */
  alreadyJoined(target: CheckedTarget, players: readonly string[]): ServerEntry | undefined {
    const { clock, inventory } = this.#ctx
    const now = clock.now()
    const found = inventory.players.find(inventory.everyBuild, players[0] ?? '')
    return found.find((entry) => {
      const { sessions, state } = entry.record
      const [session] = sessions
      const holds = session?.holds
      if (state !== 'Active' || !holds || hasEnded(entry, session)) return false
      if (!isHeard(entry) || !this.#fitsAny(entry, target)) return false
      const isSeated = (player: string) => hasSeat(player, entry.players, holds, now)
      return players.every(isSeated) && players.some((player) => !entry.players.includes(player))
    })
  }

  /** Throws `not-found` if the target names no build that exists, and `invalid` if none of them says how many seats a session has. */
  buildsOf(target: CheckedTarget): readonly BuildEntry[] {
    const { inventory } = this.#ctx
    const builds = new Set(selectorsOf(target).flatMap((selector) => selectedBuilds(inventory, selector)))
    const [first] = builds
    if (!first) throw noSelectedBuildError(inventory, selectorsOf(target))
    if (![...builds].some(({ record }) => record.spec.seatsPerSession !== undefined)) throw unknownSeatsError(first)
    return [...builds]
  }

  #fitsAny({ build, record }: ServerEntry, target: CheckedTarget): boolean {
    return selectorsOf(target).some(
      (selector) =>
        selectedBuilds(this.#ctx.inventory, selector).includes(build) &&
        fits(record.data ?? noData, selector, undefined),
    )
  }
}

function selectorsOf({ buildID = '', select }: CheckedTarget): readonly ServerSelector[] {
  return select ?? [{ builds: [buildID] }]
}

function freeSeatsIn(entry: ServerEntry, now: number): number {
  const { build, players, record } = entry
  const { seatsPerSession = 0 } = build.record.spec
  const [session] = record.sessions
  return session && !hasEnded(entry, session) ? seatsOf(seatsPerSession, players, session.holds, now).free : 0
}
