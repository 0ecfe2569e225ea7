/**
 * Derives a server's health from the game's own reports. Pure. Three of the SDKs report Unhealthy if the game has registered
 * no health callback, so Unhealthy counts only after the same process has reported Healthy.
 */
import type { Health } from '../model/resources.js'

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

/** Returns the reports after another heartbeat. A heartbeat that reports no health changes nothing. */
export function afterReport(reports: HealthReports, report: 'Healthy' | 'Unhealthy' | undefined): HealthReports {
  if (report === undefined) return reports
  if (report === 'Healthy') return onlyHealthyReports
  if (!reports.hasReportedHealthy) return reports
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
