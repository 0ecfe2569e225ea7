/** Finds the ready server of a build whose game receives its session first. */
import { isHeartbeatOverdue, pickSoonest } from '../../rules/planning/allocation.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

export function soonestIn(
  { limits, responsiveClock }: Pick<EngineContext, 'limits' | 'responsiveClock'>,
  { buckets, dueReady: due, heldReady: held }: BuildEntry,
  canWait: boolean,
): ServerEntry | undefined {
  const now = responsiveClock.now()
  const isOverdue = ({ silentSince }: ServerEntry) => isHeartbeatOverdue(now - silentSince, limits.heartbeatIntervalMs)
  return pickSoonest({ ...buckets, held, due }, isOverdue, canWait)
}
