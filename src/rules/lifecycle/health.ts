/**
 * A server's health, derived from the game's own reports, and the time limits that apply to it. Pure. Three of the SDKs report Unhealthy if
 * the game has registered no health callback, so Unhealthy counts only after the same process has reported Healthy.
 */
import type { Health, HealthLimits } from '../model/resources.js'

/**
 * What a server has reported so far. Deliberately not persisted: after this host restarts, the game must report Healthy
 * again before Unhealthy counts.
 */
export interface HealthReports {
  readonly hasReportedHealthy: boolean
  /** Number of consecutive Unhealthy reports. */
  readonly unhealthyInARow: number
}

export const noReports: HealthReports = Object.freeze({ hasReportedHealthy: false, unhealthyInARow: 0 })
const onlyHealthyReports: HealthReports = Object.freeze({ hasReportedHealthy: true, unhealthyInARow: 0 })

/**
 * Returns the reports after another heartbeat. A heartbeat that reports no health changes nothing. `isProbed`: the report is the fleet's own, so that
 * it counts in any case.
 */
export function afterReport(
  reports: HealthReports,
  report: 'Healthy' | 'Unhealthy' | undefined,
  isProbed: boolean,
): HealthReports {
  if (report === undefined) return reports
  if (report === 'Healthy') return onlyHealthyReports
  if (!reports.hasReportedHealthy && !isProbed) return reports
  return { hasReportedHealthy: true, unhealthyInARow: reports.unhealthyInARow + 1 }
}

/** Returns the health of a server that has just sent a heartbeat. */
export function healthOf(reports: HealthReports): Health {
  return reports.unhealthyInARow > 0 ? 'Unhealthy' : 'Healthy'
}

/** True if an idle server must be terminated because of its reports. */
export function reachesUnhealthyLimit(reports: HealthReports, limit: number): boolean {
  return reports.unhealthyInARow >= limit
}

/** Times in ms. An absent limit means unlimited. */
export interface LifeLimits {
  readonly firstHeartbeatMs: number
  readonly silenceMs: number
  readonly lateStartMs: number
  readonly initializingMs?: number
  readonly sessionMs?: number
}

/**
 * Makes the silence limit at least two heartbeat intervals, so that a server that sends heartbeats on schedule never exceeds
 * it.
 */
export function lifeLimits(
  build: HealthLimits | undefined,
  fleet: {
    readonly firstHeartbeatMs: number
    readonly silenceMs: number
    readonly heartbeatIntervalMs: number
    readonly lateStartMs: number
  },
): LifeLimits {
  const { firstHeartbeatSeconds, silenceSeconds, lateStartSeconds, initializingSeconds, sessionSeconds } = build ?? {}
  return {
    firstHeartbeatMs: ms(firstHeartbeatSeconds) ?? fleet.firstHeartbeatMs,
    silenceMs: Math.max(ms(silenceSeconds) ?? fleet.silenceMs, 2 * fleet.heartbeatIntervalMs),
    lateStartMs: ms(lateStartSeconds) ?? fleet.lateStartMs,
    ...(initializingSeconds !== undefined && { initializingMs: initializingSeconds * 1000 }),
    ...(sessionSeconds !== undefined && { sessionMs: sessionSeconds * 1000 }),
  }
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000
}
