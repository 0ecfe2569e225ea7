/** How long a story lets things last: with longer limits than the usual ones longer. */
import { defaultLimits, type FleetLimits } from '../../contracts/options.js'

const minuteMs = 60_000

export interface Allowances {
  /** Until whatever is not final has come to its end. */
  readonly stuckMs: number
  /** Until what was written by hand is acted on. */
  readonly editMs: number
  /** Once nothing fails any more: longer than whatever may have to run out one after the other. */
  readonly settlingMs: number
  /** The same after the numbers of a build were changed, or were not. */
  readonly resizedMs: number
  readonly leftAloneMs: number
  /** After a crash a change of template goes on a quarter at a time, each of which has to stay up for so long. */
  readonly changeMs: number
}

/** `isCalm`: little fails. */
export function allowances(limits: FleetLimits, isCalm: boolean): Allowances {
  const { firstHeartbeatMs, backoffMaxMs, backoffResetMs, resyncIntervalMs } = limits
  const longerMs = longerThanUsual(limits)
  return {
    stuckMs: (isCalm ? 5 : 12) * minuteMs + longerMs,
    editMs: (isCalm ? 2 : 6) * resyncIntervalMs + minuteMs / 4,
    settlingMs: 2 * minuteMs + firstHeartbeatMs + backoffMaxMs + resyncIntervalMs + longerMs,
    resizedMs: 2 * minuteMs + firstHeartbeatMs + 2 * resyncIntervalMs,
    leftAloneMs: minuteMs + resyncIntervalMs,
    changeMs: 4 * (backoffResetMs + minuteMs),
  }
}

function longerThanUsual(limits: FleetLimits): number {
  const lasting = ['callTimeoutMs', 'firstHeartbeatMs', 'silenceMs', 'backoffMaxMs', 'backoffResetMs'] as const
  return lasting.reduce((ms, name) => ms + Math.max(0, limits[name] - defaultLimits[name]), 0)
}
