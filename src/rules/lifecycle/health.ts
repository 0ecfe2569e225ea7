/**
 * Health of a server from the game's own reports. Pure. Three of the SDKs report Unhealthy when the game registered no
 * health callback, so Unhealthy only counts after the same process has reported Healthy.
 */
import type { Health } from '../model/resources.js'

/** What a server has reported so far. Deliberately not persisted: after a restart the game must report Healthy again. */
export interface HealthReports {
  readonly hasReportedHealthy: boolean
  /** Consecutive reports of Unhealthy. */
  readonly unhealthyInARow: number
}

export const noReports: HealthReports = Object.freeze({ hasReportedHealthy: false, unhealthyInARow: 0 })
const onlyHealthyReports: HealthReports = Object.freeze({ hasReportedHealthy: true, unhealthyInARow: 0 })

/** The reports after another heartbeat. A heartbeat without a report changes nothing. */
export function afterReport(reports: HealthReports, report: 'Healthy' | 'Unhealthy' | undefined): HealthReports {
  if (report === undefined) return reports
  if (report === 'Healthy') return onlyHealthyReports
  if (!reports.hasReportedHealthy) return reports
  return { hasReportedHealthy: true, unhealthyInARow: reports.unhealthyInARow + 1 }
}

/** The health of a server that has just sent a heartbeat. */
export function healthOf(reports: HealthReports): Health {
  return reports.unhealthyInARow > 0 ? 'Unhealthy' : 'Healthy'
}

/** True when an idle server must be terminated because of its reports. */
export function reachesUnhealthyLimit(reports: HealthReports, limit: number): boolean {
  return reports.unhealthyInARow >= limit
}
