/**
 * Keeps track of callers whose wait timed out. Each counts as demand for a few more seconds, so that the server being
 * started for it is not scaled down before it retries.
 */
import type { Clock } from '../../contracts/clock.js'
import { sessionKey } from '../../rules/model/session-ids.js'
import type { BuildEntry } from '../state/entries.js'

/** `Retry-After` is 1 s; the remaining 2 s are for the retry to arrive. */
export const retryGraceMs = 3_000

export class RetryGrace {
  readonly #clock: Clock
  readonly #maxCallers: number
  readonly #expired: (build: BuildEntry) => void
  /** Functions that cancel the timer of a caller, by build and session key. */
  readonly #builds = new Map<BuildEntry, Map<string, () => void>>()
  #total = 0

  /** `expired` is called if a caller does not retry in time. */
  constructor(clock: Clock, maxCallers: number, expired: (build: BuildEntry) => void) {
    this.#clock = clock
    this.#maxCallers = maxCallers
    this.#expired = expired
  }

  /** Counts the caller for `retryGraceMs`, unless `maxCallers` callers are already counted. */
  add(build: BuildEntry, session: string): void {
    this.remove(build, session)
    if (this.#total >= this.#maxCallers) return
    const cancel = this.#clock.after(retryGraceMs, () => {
      this.remove(build, session)
      this.#expired(build)
    })
    const callers = this.#builds.get(build) ?? new Map<string, () => void>()
    this.#builds.set(build, callers.set(session, cancel))
    this.#total++
  }

  /** Stops counting a caller that has retried or has a server. */
  remove(build: BuildEntry, sessionID: string): void {
    if (this.#total === 0) return
    const session = sessionKey(sessionID)
    const callers = this.#builds.get(build)
    const cancel = callers?.get(session)
    if (!callers || !cancel) return
    cancel()
    callers.delete(session)
    this.#total--
    if (callers.size === 0) this.#builds.delete(build)
  }

  /** Removes the callers of one build, or all callers. */
  clear(build?: BuildEntry): void {
    for (const [other, callers] of [...this.#builds]) {
      if (build === undefined || other === build) for (const session of [...callers.keys()]) this.remove(other, session)
    }
  }

  count(build: BuildEntry): number {
    return this.#builds.get(build)?.size ?? 0
  }
}
