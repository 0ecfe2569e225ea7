/** How long the fleet may take to meet each expectation of a run. Longer fleet limits allow more time. */
import { defaultLimits, type FleetLimits } from '../../src/contracts/options.js'

const minuteMs = 60_000

export interface TimingAllowances {
  /** Time for a server to leave a transitional state. */
  readonly livenessMs: number
  /** Time for an external edit to take effect. */
  readonly editMs: number
  /** Time for the fleet to become idle after the last fault. Exceeds the sum of all timeouts that may expire in sequence. */
  readonly settlingMs: number
  /** Time for the fleet to become idle after the final resize of a build. */
  readonly resizedMs: number
  /** Time for the fleet to become idle if there was no build to resize. */
  readonly notResizedMs: number
  /** Time for a rolling update after a crash: it replaces a quarter at a time, which must stay up for `backoffResetMs`. */
  readonly rolloutMs: number
}

/** `isCalm`: whether few faults are injected. `startsHang`: whether starts may hang. */
export function timingAllowances(limits: FleetLimits, isCalm: boolean, startsHang: boolean): TimingAllowances {
  const { firstHeartbeatMs, backoffMaxMs, backoffResetMs, resyncIntervalMs, lateStartMs } = limits
  // Servers whose start hangs are late at the latest after 16 times the limit.
  const lateMs = startsHang ? 17 * lateStartMs : 0
  const extraMs = beyondDefaults(limits)
  return {
    livenessMs: (isCalm ? 5 : 12) * minuteMs + extraMs,
    editMs: (isCalm ? 2 : 6) * resyncIntervalMs + minuteMs / 4,
    settlingMs: lateMs + 2 * minuteMs + firstHeartbeatMs + backoffMaxMs + resyncIntervalMs + extraMs,
    resizedMs: lateMs + 2 * minuteMs + firstHeartbeatMs + 2 * resyncIntervalMs,
    notResizedMs: lateMs + minuteMs + resyncIntervalMs,
    rolloutMs: lateMs + 4 * (backoffResetMs + minuteMs),
  }
}

function beyondDefaults(limits: FleetLimits): number {
  const names = ['callTimeoutMs', 'firstHeartbeatMs', 'silenceMs', 'backoffMaxMs', 'backoffResetMs'] as const
  return names.reduce((ms, name) => ms + Math.max(0, limits[name] - defaultLimits[name]), 0)
}
