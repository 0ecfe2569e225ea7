/** Implements the `Fleet` that a host app uses. Calls go to the engine of the current leadership term. */
import type { Backend } from '../contracts/backend.js'
import type { CallOptions } from '../contracts/call-options.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import type { FleetEmitter } from '../contracts/events.js'
import type { AllocateOptions, Fleet, FleetStats, ServerHistory } from '../contracts/fleet.js'
import type { ResolvedOptions } from '../contracts/options.js'
import type { Store } from '../contracts/store.js'
import { buildStats } from '../engine/reporting/stats.js'
import { lookUp } from '../engine/state/inventory.js'
import { type AllocationRequest, keyOf, type RefLike } from '../rules/model/resources.js'
import type { Allocation } from '../rules/model/wire.js'
import { shown } from '../rules/validation/problem.js'
import { readAllocationRequest } from '../rules/validation/requests.js'
import { HealthCheck } from './health.js'
import { withInternals } from './internals.js'
import type { LeaderTerm } from './leader-term.js'
import { buildCalls, checkDrainOptions, detailCalls, serverCalls } from './resource-calls.js'
import { ResourceView, toRef } from './resource-view.js'

export interface FacadeDependencies {
  readonly term: LeaderTerm
  readonly backend: Backend
  readonly store: Store
  readonly resolved: ResolvedOptions
  readonly agentAddress: string | undefined
  /** The steps of `close`, in order. If one fails, the remaining steps still run. */
  readonly cleanUp: readonly (() => Promise<void>)[]
}

export function facade({ term, backend, store, resolved, agentAddress, cleanUp }: FacadeDependencies): Fleet {
  const { apiGroup, limits } = resolved
  const { emitter, observers } = term
  const view = new ResourceView(term, apiGroup)
  const health = new HealthCheck({
    ...{ store, backend, clock: resolved.clock, logger: resolved.logger },
    notReadyReason: () => term.notReadyReason(),
    leads: () => term.leads(),
  })
  let closing: Promise<void> | undefined

  return Object.freeze<Fleet>({
    ...withInternals({ emit: (event) => emitter.emit(event), log: emitter.logged(), maxWaitMs: limits.maxWaitMs }),
    agentAddress,
    builds: buildCalls(term, view),
    servers: serverCalls(term, view, backend),
    details: detailCalls(view),

    allocate(request, options = {}) {
      if (observers.isEmpty) return allocate(term, limits.maxWaitMs, request, options)
      return observers.timedCall(
        () => allocate(term, limits.maxWaitMs, request, options),
        (observer, outcome, ms) => observer.allocated?.(outcome, ms),
      )
    },

    heartbeat: (sessionHostId, heartbeat) => term.heartbeat(sessionHostId, heartbeat),
    on: (type, listener) => emitter.on(type, listener),
    events: (options) => emitter.read(options),
    observe: (observer) => observers.add(observer),
    stats: () => statsOf(term),
    health: () => health.run(),
    explain: async (like, options = {}) => explain(term, view, like, options),

    async drain(options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      return term.engine().drainFleet(options)
    },

    close() {
      closing ??= closeAll(cleanUp, emitter)
      return closing
    },
  })
}

/** Not an async function: that would create an extra promise on this hot path. */
function allocate(
  term: LeaderTerm,
  maxWaitMs: number,
  request: AllocationRequest,
  { waitMs = 0, signal }: AllocateOptions,
): Promise<Allocation> {
  try {
    throwIfAborted(signal)
    if (!(waitMs >= 0 && waitMs <= maxWaitMs)) {
      throw new FleetError('invalid', `waitMs must be from 0 to ${maxWaitMs}, but is ${shown(waitMs)}`)
    }
    const checked = readAllocationRequest(request)
    if (!checked.ok) throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
    return term.engine().allocator.allocate(checked.value, { waitMs, signal })
  } catch (error) {
    return Promise.reject(error)
  }
}

function statsOf(term: LeaderTerm): FleetStats {
  const { heartbeats } = term
  if (!term.leads()) return { leads: false, heartbeats, builds: [] }
  const engine = term.engine()
  return { leads: true, heartbeats, builds: buildStats(engine.inventory, (build) => engine.waiting(build)) }
}

function explain(term: LeaderTerm, view: ResourceView, like: RefLike, { signal }: CallOptions): ServerHistory {
  throwIfAborted(signal)
  const ref = toRef(like)
  const entry = lookUp(term.engine().inventory.servers, ref)
  const events = [...term.emitter.logged()].filter((event) => 'server' in event && keyOf(event.server) === keyOf(ref))
  if (!entry && events.length === 0) {
    throw new FleetError('not-found', `server ${keyOf(ref)} does not exist, and the event log has no events of it`)
  }
  const text = events.map(({ at, message }) => `${new Date(at).toISOString()}  ${message}`).join('\n')
  return { ...(entry && { server: view.server(entry) }), events, text }
}

/** Runs every step even if one fails. For example, a backend that fails to close must not leave the store locked. */
async function closeAll(cleanUp: FacadeDependencies['cleanUp'], emitter: FleetEmitter): Promise<void> {
  const failures: unknown[] = []
  for (const step of cleanUp) await step().catch((error: unknown) => failures.push(error))
  emitter.close()
  if (failures.length > 0) throw failures[0]
}
