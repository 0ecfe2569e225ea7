/** Measurements of a fleet's own work, for metrics. Nothing is measured unless an observer is added. */
import type { Ref } from '../rules/model/resources.js'
import type { BuildCounts, BuildHealth } from '../rules/model/status.js'
import type { ErrorCode } from './errors.js'

export type BackendOperation = 'create' | 'destroy' | 'list' | 'prepare' | 'protect' | 'find'
export type StoreCollection = 'builds' | 'servers' | 'details'
export type StoreOperation = 'get' | 'list' | 'create' | 'update' | 'delete'

/** Durations are in ms. The methods are called synchronously during the measured work, so they must return quickly. */
export interface FleetObserver {
  /** A call to `allocate` settled. `outcome` is `ok` or the error code. */
  allocated?(outcome: 'ok' | ErrorCode, ms: number): void
  /** A build was reconciled. */
  reconciled?(ms: number): void
  /** A call to the backend settled. */
  backendCall?(operation: BackendOperation, outcome: CallOutcome, ms: number): void
  /** A call to the store settled. */
  storeCall?(collection: StoreCollection, operation: StoreOperation, outcome: CallOutcome, ms: number): void
}

/** `conflict`: the store works, but rejected the call because the record had changed or been deleted. */
export type CallOutcome = 'ok' | 'conflict' | 'failed'

/** The statistics of a build. */
export interface BuildStats {
  readonly build: Ref
  /** From its spec. */
  readonly standingBy: number
  /** From its spec. */
  readonly max: number
  readonly health: BuildHealth
  /** Number of crashes since the build was created. */
  readonly crashes: number
  readonly servers: BuildCounts
  /** Number of players connected to its servers. */
  readonly players: number
  /** Number of callers waiting for one of its servers. */
  readonly waiting: number
}

export function callOutcome(outcome: 'ok' | ErrorCode): CallOutcome {
  if (outcome === 'ok') return 'ok'
  return outcome === 'conflict' || outcome === 'not-found' ? 'conflict' : 'failed'
}
