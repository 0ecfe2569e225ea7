import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

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
