/**
 * What a game's own health reports mean. Pure. Three of the SDKs report Unhealthy whenever the game registered no
 * health callback, so Unhealthy counts only after the same process has said Healthy.
 */
import type { Health } from '../model/resources.js'

/** What is remembered of one server's reports. Lost with the host, on purpose: then the game has to say Healthy again. */
export interface HealthMemory {
  readonly saidHealthy: boolean
  /** Reports of Unhealthy in a row. */
  readonly unhealthyInARow: number
}

export const noReports: HealthMemory = Object.freeze({ saidHealthy: false, unhealthyInARow: 0 })
const wellSoFar: HealthMemory = Object.freeze({ saidHealthy: true, unhealthyInARow: 0 })

/** The memory after one more heartbeat; one that says nothing of health changes nothing. */
export function afterReport(memory: HealthMemory, report: 'Healthy' | 'Unhealthy' | undefined): HealthMemory {
  if (report === undefined) return memory
  if (report === 'Healthy') return wellSoFar
  if (!memory.saidHealthy) return memory
  return { saidHealthy: true, unhealthyInARow: memory.unhealthyInARow + 1 }
}

/** The health of a server that has just spoken: Healthy, unless it says otherwise and is to be believed. */
export function healthOf(memory: HealthMemory): Health {
  return memory.unhealthyInARow > 0 ? 'Unhealthy' : 'Healthy'
}

/** True when an idle server is to be removed for what it reports. */
export function isUnfit(memory: HealthMemory, limit: number): boolean {
  return memory.unhealthyInARow >= limit
}
