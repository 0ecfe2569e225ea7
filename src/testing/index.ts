/** `gamekeeper/testing`: tools for testing host apps, adapters and the fleet itself. */
export {
  backendConformance,
  type BackendConformanceCase,
  type BackendConformanceOptions,
} from './backend-conformance.js'
export type { ConformanceProgram, OpenedBackend } from './backend-subject.js'
export type { ConformanceCase } from './conformance.js'
export {
  type CallFault,
  type FaultPlan,
  type FaultOptions,
  type FaultyCall,
  type PlannedFault,
  randomFaults,
  scriptedFaults,
} from './faults.js'
export { type BackendFaults, type EventFault, faultyBackend, type FaultyEvent } from './faults.js'
export { faultyStore } from './faults.js'
export * from './records.js'
export { seededRandom } from './virtual-clock.js'
export { storeConformance, type StoreConformanceOptions } from './store-conformance.js'
export { type VirtualClock, virtualClock, type VirtualClockOptions } from './virtual-clock.js'
export {
  fixedNumberFor,
  replayDemand,
  type ReplayOptions,
  type ReplayOutcome,
  type ReplayPolicy,
  type ReplayWaits,
} from './replay.js'
export type { PlayedMinute } from './played-day.js'
export { demandShapes, type DemandShape, inventDemand, type InventedDemandOptions } from './invented-demand.js'
