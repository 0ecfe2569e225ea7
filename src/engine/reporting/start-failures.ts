/**
 * Reports that a server cannot be started, both as an event and as a condition of its build. The condition remains until a
 * server starts again.
 */
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import type { Conditions } from './conditions.js'
import type { EventReporter } from './event-reporter.js'

export class StartFailures {
  readonly #ctx: EngineContext
  readonly #events: EventReporter
  readonly #conditions: Conditions

  constructor(ctx: EngineContext, events: EventReporter, conditions: Conditions) {
    this.#ctx = ctx
    this.#events = events
    this.#conditions = conditions
  }

  /** Resolves when the condition is written. */
  async report(entry: ServerEntry, error: unknown): Promise<void> {
    this.#events.startFailed(entry, error)
    if (entry.build.deleted) return
    await this.#conditions.setCreateBlocked(entry, error)
  }

  /**
   * Reports without waiting for the write. A failed write is only logged, because the server's status contains the reason
   * anyway.
   */
  startReport(entry: ServerEntry, error: unknown): void {
    this.report(entry, error).catch((failure: unknown) => {
      this.#ctx.logger.warn({ server: entry.record.name, err: failure }, 'CreateBlocked condition not written')
    })
  }
}

/**
 * Sets why a server is still Pending, and has the store display it if it has changed. That there is no reason is always passed on: an earlier
 * leader may have had one displayed.
 */
export function setPendingReason(ctx: EngineContext, entry: ServerEntry, reason: string | undefined): void {
  if (reason === entry.pendingReason && reason !== undefined) return
  entry.pendingReason = reason
  const { namespace, name, state } = entry.record
  if (state === 'Pending') ctx.store.display?.server?.({ namespace, name }, reason)
}
