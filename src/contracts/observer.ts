/** Measurements that a fleet makes of its own work, for metrics. Without an observer nothing is measured. */
import type { Ref } from '../rules/model/resources.js'
import type { BuildCounts, BuildHealth } from '../rules/model/status.js'
import type { ErrorCode } from './errors.js'

export type BackendOperation = 'create' | 'destroy' | 'list' | 'prepare' | 'protect' | 'find'
export type StoreCollection = 'builds' | 'servers' | 'details'
export type StoreOperation = 'get' | 'list' | 'create' | 'update' | 'delete'

/** Durations are in ms. Methods are called synchronously in the middle of the work: they must return quickly. */
export interface FleetObserver {
  /** A call of `allocate` ended, with `ok` or the code of its error. */
  allocated?(outcome: 'ok' | ErrorCode, ms: number): void
  /** A reconcile of a build ended. */
  reconciled?(ms: number): void
  /** A call of the backend ended. */
  backendCall?(operation: BackendOperation, outcome: CallOutcome, ms: number): void
  /** A call of the store ended. */
  storeCall?(collection: StoreCollection, operation: StoreOperation, outcome: CallOutcome, ms: number): void
}

/** `conflict`: rejected because the record had changed or was deleted. The store itself works. */
export type CallOutcome = 'ok' | 'conflict' | 'failed'

/** The statistics of a build. */
export interface BuildStats {
  readonly build: Ref
  /** From its spec. */
  readonly standingBy: number
  /** From its spec. */
  readonly max: number
  readonly health: BuildHealth
  /** Crashes since the build was created. */
  readonly crashes: number
  readonly servers: BuildCounts
  /** Players connected to its servers. */
  readonly players: number
  /** Callers waiting for one of its servers. */
  readonly waiting: number
}

export function callOutcome(outcome: 'ok' | ErrorCode): CallOutcome {
  if (outcome === 'ok') return 'ok'
  return outcome === 'conflict' || outcome === 'not-found' ? 'conflict' : 'failed'
}
