/** What the parts of the engine share: the ports to the outside, the inventory, and how to ask for attention. */
import type { Backend } from '../contracts/backend.js'
import type { Clock } from '../contracts/clock.js'
import type { FleetError } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { Limiter } from '../util/limiter.js'
import type { Logger } from '../contracts/logger.js'
import type { FleetLimits } from '../contracts/options.js'
import type { BackoffLimits } from '../rules/lifecycle/backoff.js'
import type { Build, Ref } from '../rules/model/resources.js'
import type { Store } from '../contracts/store.js'
import type { BuildEntry, ServerEntry } from './state/entries.js'
import type { Inventory } from './state/inventory.js'
import type { ResponsiveClock } from './instances/responsive-clock.js'

export interface EngineContext {
  readonly backend: Backend
  readonly store: Store
  readonly clock: Clock
  readonly responsiveClock: ResponsiveClock
  readonly limits: FleetLimits
  readonly logger: Logger
  readonly emitter: FleetEmitter
  readonly inventory: Inventory
  /** `host:port` that game servers are told. */
  readonly agentAddress: string
  readonly creating: Limiter
  readonly destroying: Limiter
  /** Asks for a pass over a build. */
  enqueue(build: BuildEntry): void
  /** Asks for a pass that looks after this server. */
  touch(entry: ServerEntry): void
  /** True once the engine has stopped: nothing new is begun. */
  stopped(): boolean
  /** Why nothing can be handed out any more, once that is so. */
  over(): FleetError | undefined
  /** The same, but not while this host closes and what is under way is still brought to its end. */
  deposed(): FleetError | undefined
}

/** Names of things, without the rest of their records. */
export function refOf(ref: Ref): Ref {
  return { namespace: ref.namespace, name: ref.name }
}

export function buildRefOf(server: { readonly namespace: string; readonly build: string }): Ref {
  return { namespace: server.namespace, name: server.build }
}

export function buildEvent(
  ctx: Pick<EngineContext, 'clock'>,
  build: Build,
  message: string,
): { readonly at: number; readonly build: Ref; readonly message: string } {
  return { at: ctx.clock.now(), build: refOf(build), message }
}

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
