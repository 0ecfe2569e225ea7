/**
 * What the parts of the engine share: the backend, store, clock, inventory and similar objects, and functions that queue
 * work.
 */
import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import type { FleetError } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { Logger } from '../contracts/logger.js'
import type { FleetBudget, FleetLimits } from '../contracts/options.js'
import type { Store } from '../contracts/store.js'
import type { BackoffLimits } from '../rules/lifecycle/backoff.js'
import type { Build, Ref } from '../rules/model/resources.js'
import type { FairLimiter } from '../util/limiter.js'
import type { ResponsiveClock } from './responsive-clock.js'
import type { EndedSessions } from './ended-sessions.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import type { Inventory } from './state/inventory.js'

export interface EngineContext {
  readonly backend: Backend
  readonly store: Store
  readonly clock: Clock
  readonly responsiveClock: ResponsiveClock
  readonly limits: FleetLimits
  /** What all builds together may have. Undefined: no limit. */
  readonly budget: FleetBudget | undefined
  readonly logger: Logger
  readonly emitter: Pick<FleetEmitter, 'emit'>
  readonly inventory: Inventory
  readonly endedSessions: EndedSessions
  /** `host:port` at which game servers reach the agent. */
  readonly agentAddress: string
  readonly createLimiter: FairLimiter<BuildEntry>
  /** `undefined` means orphans, which belong to no build. */
  readonly destroyLimiter: FairLimiter<BuildEntry | undefined>
  /** Queues a reconcile of the build. */
  enqueue(build: BuildEntry): void
  /** Queues a reconcile that acts on this server immediately, even if the server is backing off. */
  requeue(entry: ServerEntry): void
  /** True once the engine has stopped: no new work starts. */
  stopped(): boolean
  /** The error that new allocations are rejected with once the engine is stopping or the guard is closed. */
  stopError(): FleetError | undefined
  /** The leadership guard's error once the guard is closed. Undefined while a closing host finishes its calls in progress. */
  deposedError(): FleetError | undefined
}

/** Returns only the namespace and name of a record. */
export function refOf(record: Ref): Ref {
  return { namespace: record.namespace, name: record.name }
}

/** Returns the fields that every event about a build has. */
export function buildEvent(
  ctx: Pick<EngineContext, 'clock'>,
  build: Build,
  message: string,
): { readonly at: number; readonly build: Ref; readonly message: string } {
  return { at: ctx.clock.now(), build: refOf(build), message }
}

/** Returns the fields that every event about a server has. */
export function serverEvent(
  ctx: Pick<EngineContext, 'clock'>,
  entry: ServerEntry,
  message: string,
): { readonly at: number; readonly build: Ref; readonly server: Ref; readonly message: string } {
  return { at: ctx.clock.now(), build: entry.build.ref, server: entry.ref, message }
}

export function backoffLimits(ctx: Pick<EngineContext, 'limits'>): BackoffLimits {
  const { backoffInitialMs, backoffMaxMs, backoffResetMs } = ctx.limits
  return { initialMs: backoffInitialMs, maxMs: backoffMaxMs, resetMs: backoffResetMs }
}
