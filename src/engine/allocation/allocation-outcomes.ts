/** What follows the write that allocates a server: the event, or what is known after a failure. */
import { sessionByKey } from '../../rules/lifecycle/sessions.js'
import type { NewSession } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { Activity } from '../reporting/activity.js'
import type { Place, ServerEntry } from '../state/entries.js'
import { hasEnded, isUncertain, placeOf } from '../state/queries.js'
import { withTimeout } from '../../util/with-timeout.js'
import { outcomeUnknownError } from './allocation-errors.js'

/** A write that takes longer holds up no caller that does not wait. */
const writeMs = 1_000

export interface AllocationOutcomesDependencies {
  readonly activity: Pick<Activity, 'allocated'>
  readonly writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>
}

export class AllocationOutcomes {
  readonly #ctx: EngineContext
  readonly #deps: AllocationOutcomesDependencies

  constructor(ctx: EngineContext, deps: AllocationOutcomesDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** `since`: when the caller came, in elapsed ms. */
  allocated({ build, ref: server }: ServerEntry, { id: sessionID }: NewSession, since: number): void {
    const { clock, emitter } = this.#ctx
    const waitedMs = Math.round(clock.elapsed() - since)
    const at = clock.now()
    this.#deps.activity.allocated(build, at, waitedMs)
    emitter.emit({ type: 'Allocated', at, build: build.ref, server, message: '', sessionID, waitedMs })
  }

  /** Returns normally if the outcome is known: the session has this server, or the caller needs another. Throws if it is unknown. */
  failed(place: Place, since: number, error: unknown): void {
    const { entry, session } = place
    this.#ctx.requeue(entry)
    if (error instanceof LostServer || place.state === 'lost') return
    const report = () => {
      if (!this.#ctx.deposedError()) this.allocated(entry, session, since)
    }
    // Another write of the record, which contained the session as well, has ended before this failure was noticed.
    if (place.state === 'durable') return report()
    // Until the store has been read back, the session stays bound to this server.
    place.granted = report
    throw outcomeUnknownError(error)
  }

  /**
   * Returns when it may be known which session the server has. Throws `unavailable` if the store does not say so within `waitMs`, or, for
   * a caller that does not wait, within about the time that a write takes.
   */
  async resolve(entry: ServerEntry, waitMs: number): Promise<void> {
    const what = `the write that decides about ${entry.record.name}`
    try {
      await withTimeout(this.#ctx.clock, Math.max(waitMs, writeMs), what, () => this.#decision(entry))
    } catch (error) {
      throw outcomeUnknownError(error)
    }
  }

  async #decision(entry: ServerEntry): Promise<void> {
    if (entry.removal) return entry.removal
    // This write decides. The one after it may be for another session, whose caller alone waits for it.
    if (entry.saving) return entry.saving.catch(() => undefined)
    try {
      if (isUncertain(entry)) await this.#deps.writer.resolveUncertain(entry)
      else await this.#deps.writer.save(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw error
      this.#ctx.requeue(entry)
    }
  }
}

/** True while a write decides whether the server has the session: one that allocates it, that records its end, or that removes the server. */
export function isUndecided(entry: ServerEntry, key: string): boolean {
  const { ends, record, removal } = entry
  const place = placeOf(entry, key)
  if (removal || (place && place.state !== 'held')) return true
  if (!ends || record.state !== 'Active') return false
  const session = sessionByKey(record, key)
  return session !== undefined && hasEnded(entry, session)
}
