/**
 * Health of a server from the game's own reports. Pure. Three of the SDKs report Unhealthy when the game registered no
 * health callback, so Unhealthy only counts after the same process has reported Healthy.
 */
import type { Health } from '../model/resources.js'

/** A server's reports so far. Deliberately not persisted: after a restart the game must report Healthy again. */
export interface HealthMemory {
  readonly saidHealthy: boolean
  /** Consecutive reports of Unhealthy. */
  readonly unhealthyInARow: number
}

export const noReports: HealthMemory = Object.freeze({ saidHealthy: false, unhealthyInARow: 0 })
const wellSoFar: HealthMemory = Object.freeze({ saidHealthy: true, unhealthyInARow: 0 })

/** The memory after another heartbeat. One without a report changes nothing. */
export function afterReport(memory: HealthMemory, report: 'Healthy' | 'Unhealthy' | undefined): HealthMemory {
  if (report === undefined) return memory
  if (report === 'Healthy') return wellSoFar
  if (!memory.saidHealthy) return memory
  return { saidHealthy: true, unhealthyInARow: memory.unhealthyInARow + 1 }
}

/** The health of a server that has just sent a heartbeat. */
export function healthOf(memory: HealthMemory): Health {
  return memory.unhealthyInARow > 0 ? 'Unhealthy' : 'Healthy'
}

/** True when an idle server must be terminated for its reports. */
export function isUnfit(memory: HealthMemory, limit: number): boolean {
  return memory.unhealthyInARow >= limit
}
