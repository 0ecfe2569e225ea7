/** How much time a run allows the fleet for each expectation. Longer fleet limits allow more time. */
import { defaultLimits, type FleetLimits } from '../../contracts/options.js'

const minuteMs = 60_000

export interface TimingAllowances {
  /** For a server to leave a state that is not final. */
  readonly livenessMs: number
  /** For an external edit to take effect. */
  readonly editMs: number
  /** For the fleet to settle after the last fault: longer than all timeouts that may expire one after the other. */
  readonly settlingMs: number
  /** For the fleet to settle after the final resize of a build. */
  readonly resizedMs: number
  /** The same without such a resize. */
  readonly notResizedMs: number
  /** For a rolling update after a crash: it proceeds by quarters, and each has to stay up for `backoffResetMs`. */
  readonly rolloutMs: number
}

/** `isCalm`: few faults are injected. */
export function timingAllowances(limits: FleetLimits, isCalm: boolean): TimingAllowances {
  const { firstHeartbeatMs, backoffMaxMs, backoffResetMs, resyncIntervalMs } = limits
  const extraMs = beyondDefaults(limits)
  return {
    livenessMs: (isCalm ? 5 : 12) * minuteMs + extraMs,
    editMs: (isCalm ? 2 : 6) * resyncIntervalMs + minuteMs / 4,
    settlingMs: 2 * minuteMs + firstHeartbeatMs + backoffMaxMs + resyncIntervalMs + extraMs,
    resizedMs: 2 * minuteMs + firstHeartbeatMs + 2 * resyncIntervalMs,
    notResizedMs: minuteMs + resyncIntervalMs,
    rolloutMs: 4 * (backoffResetMs + minuteMs),
  }
}

function beyondDefaults(limits: FleetLimits): number {
  const names = ['callTimeoutMs', 'firstHeartbeatMs', 'silenceMs', 'backoffMaxMs', 'backoffResetMs'] as const
  return names.reduce((ms, name) => ms + Math.max(0, limits[name] - defaultLimits[name]), 0)
}
