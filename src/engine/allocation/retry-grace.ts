/**
 * Keeps track of callers whose wait timed out. Each counts as demand for a few more seconds, so that the server being
 * started for it is not scaled down before it retries.
 */
import type { Clock } from '../../contracts/clock.js'
import { sessionKey } from '../../rules/model/names.js'
import type { BuildEntry } from '../state/entries.js'

/** `Retry-After` is 1 s; the remaining 2 s are for the retry to arrive. */
export const retryGraceMs = 3_000

interface Caller {
  readonly build: BuildEntry
  /** True if not every server of the build fits it. */
  readonly isSelective: boolean
  /** Cancels its timer. */
  readonly cancel: () => void
}

export class RetryGrace {
  readonly #clock: Clock
  readonly #maxCallers: number
  readonly #changed: (build: BuildEntry) => void
  /** By session key. */
  readonly #callers = new Map<string, Caller>()
  readonly #counts = new Map<BuildEntry, { all: number; selective: number }>()

  /** `changed` is called if a caller does not retry in time, or gets its server from another build. */
  constructor(clock: Clock, maxCallers: number, changed: (build: BuildEntry) => void) {
    this.#clock = clock
    this.#maxCallers = maxCallers
    this.#changed = changed
  }

  /** Counts the caller for `retryGraceMs`, unless `maxCallers` callers are already counted. */
  add(build: BuildEntry, sessionID: string, isSelective = false): void {
    this.remove(sessionID, build)
    if (this.#callers.size >= this.#maxCallers) return
    const cancel = this.#clock.after(retryGraceMs, () => this.remove(sessionID))
    this.#callers.set(sessionKey(sessionID), { build, isSelective, cancel })
    const counts = this.#counts.get(build) ?? { all: 0, selective: 0 }
    this.#counts.set(build, counts)
    counts.all++
    if (isSelective) counts.selective++
  }

  /** Stops counting a caller that has retried or has a server. `build`: where it waits now, or that of the server. */
  remove(sessionID: string, build?: BuildEntry): void {
    if (this.#callers.size === 0) return
    const key = sessionKey(sessionID)
    const caller = this.#callers.get(key)
    const counts = caller && this.#counts.get(caller.build)
    if (!counts) return
    caller.cancel()
    this.#callers.delete(key)
    counts.all--
    if (caller.isSelective) counts.selective--
    if (counts.all === 0) this.#counts.delete(caller.build)
    if (caller.build !== build) this.#changed(caller.build)
  }

  /** Removes the callers of one build, or all callers. */
  clear(build?: BuildEntry): void {
    for (const [session, caller] of [...this.#callers]) {
      if (build === undefined || caller.build === build) this.remove(session, caller.build)
    }
  }

  count(build: BuildEntry): number {
    return this.#counts.get(build)?.all ?? 0
  }

  /** Of these, those that not every server of the build fits. */
  selective(build: BuildEntry): number {
    return this.#counts.get(build)?.selective ?? 0
  }
}
