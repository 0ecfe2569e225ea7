/** Implements the `Fleet` that a host app uses. Calls go to the engine of the current leadership term. */
import type { AgentTarget } from '../agent/index.js'
import type { Backend } from '../contracts/backend.js'
import type { CallOptions } from '../contracts/call-options.js'
import { type LeaderLink, leadsPath } from '../contracts/elector.js'
import { FleetError, messageOf, throwIfAborted } from '../contracts/errors.js'
import { checkEventType, type FleetEmitter } from '../contracts/events.js'
import type {
  AllocateManyOptions,
  AllocateOptions,
  Fleet,
  FleetStats,
  ServerFilter,
  ServerHistory,
} from '../contracts/fleet.js'
import type { FleetActivity } from '../contracts/observer.js'
import { checkNames, checkWait } from '../contracts/option-checks.js'
import type { ResolvedOptions } from '../contracts/options.js'
import type { Allocation, BatchResult } from '../contracts/sessions.js'
import type { Store, StoreCheck } from '../contracts/store.js'
import { buildStats, situationOf } from '../engine/reporting/stats.js'
import { lookUp } from '../engine/state/inventory.js'
import { confirmTimeoutMs } from '../rules/model/allocation-request.js'
import { type FleetProblem, problemsOf } from '../rules/model/problems.js'
import { type AllocationRequest, keyOf, type RefLike } from '../rules/model/resources.js'
import { readAllocationRequest, readBatch } from '../rules/validation/allocation-schema.js'
import { isObject, shown } from '../rules/validation/problem.js'
import { type Audit, type AuditedSubject, refusedRequest } from './audit.js'
import { HealthCheck } from './fleet-health.js'
import { withInternals } from './internals.js'
import type { LeaderTerm } from './leader-term.js'
import { buildCalls, checkDrainOptions, detailCalls, serverCalls } from './resource-calls.js'
import { ResourceView, toRef } from './resource-view.js'
import { UsageMeter } from './server-usage.js'
import { sessionCalls } from './session-calls.js'

interface FacadeDependencies {
  readonly term: LeaderTerm
  readonly backend: Backend
  readonly store: Store
  readonly resolved: ResolvedOptions
  readonly agentAddress: string | undefined
  readonly link: LeaderLink | undefined
  readonly audit: Audit
  /** For the agents of host apps: `agentListener(fleet)`. */
  readonly target: AgentTarget
  /** Gives up the lead for good. */
  readonly handOver: () => Promise<void>
  /** The steps of `close`, in order. If one fails, the remaining steps still run. */
  readonly cleanUp: readonly (() => Promise<void>)[]
}

export function facade(deps: FacadeDependencies): Fleet {
  const { term, backend, store, resolved, agentAddress, link, audit, target, handOver, cleanUp } = deps
  const { apiGroup, limits } = resolved
  const { emitter, observers } = term
  const { forwardHeartbeat, ...answers } = target
  const view = new ResourceView(term, apiGroup)
  const health = new HealthCheck({
    store,
    backend,
    clock: resolved.clock,
    logger: resolved.logger,
    notReadyReason: () => term.notReadyReason(),
    cannotLeadReason: () => term.cannotLeadReason(),
    leads: () => term.leads(),
    follower: link && {
      isClosed: () => term.isClosed,
      askLeader: (signal) => askLeader(link, signal),
      obstacle: () => term.obstacle,
    },
  })
  const timedAllocate = (request: AllocationRequest, options: AllocateOptions) => {
    if (observers.isEmpty) return allocate(term, limits.maxWaitMs, request, options)
    return observers.timedCall(
      () => allocate(term, limits.maxWaitMs, request, options),
      (observer, outcome, ms) => observer.allocated?.(outcome, ms),
    )
  }
  let closing: Promise<void> | undefined

  return Object.freeze<Fleet>({
    ...withInternals({
      emit: (event) => emitter.emit(event),
      log: emitter.logged(),
      maxWaitMs: limits.maxWaitMs,
      maxWaiting: limits.maxWaiting,
      cannotLeadReason: () => term.cannotLeadReason(),
      observers,
      link,
      handOver,
    }),
    ...answers,
    ...(forwardHeartbeat && { forwardHeartbeat }),
    allocateOwnServer: (sessionHostId, request = {}) => target.allocateOwnServer(sessionHostId, request),
    agentAddress,
    builds: buildCalls(term, view, audit),
    servers: serverCalls(term, view, backend, audit, new UsageMeter(backend, resolved.clock)),
    details: detailCalls(view),
    sessions: sessionCalls({
      term,
      view,
      audit,
      clock: resolved.clock,
      logger: resolved.logger,
      maxWaitMs: limits.maxWaitMs,
    }),

    allocate(request, options = {}) {
      if (options.caller === undefined) return timedAllocate(request, options)
      const subjectOf = (allocation?: Allocation) => allocated(term, request, allocation)
      return audit.call('allocate', options, subjectOf, () => timedAllocate(request, options))
    },

    allocateMany(requests, options = {}) {
      const subjectOf = (request: AllocationRequest, allocation?: Allocation) => allocated(term, request, allocation)
      return allocateMany({ term, maxWaitMs: limits.maxWaitMs, audit, subjectOf }, requests, options)
    },
    on: (type, listener) => emitter.on(type, listener),
    events(options = {}) {
      checkNames('events', options, ['from', 'last', 'to', 'types', 'signal'])
      for (const name of ['from', 'last', 'to'] as const) checkNumber(`events: ${name}`, options[name])
      for (const type of options.types ?? []) checkEventType('events', type)
      return emitter.read(options)
    },
    observe: (observer) => observers.add(observer),
    store: Object.freeze({ backup: (directory: string) => backUp(store, directory), check: async () => check(store) }),
    stats: () => statsOf(term, limits.maxServersPerBuild),
    activity: async (options = {}) => activityOf(term, view, options),
    health: () => health.run(),
    problems: async (options = {}) => problemsNow(term, health, limits.maxServersPerBuild, options),
    explain: async (like, options = {}) => explain(term, view, like, options),

    async drain(options = {}) {
      throwIfAborted(options.signal)
      checkDrainOptions(options)
      const engine = term.engine()
      audit.begun('drainFleet', options, {})
      return engine.drainFleet(options)
    },

    close() {
      closing ??= closeAll(cleanUp, emitter)
      return closing
    },
  })
}

function checkNumber(name: string, value: unknown): void {
  if (value === undefined || (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0)) return
  throw new FleetError('invalid', `${name} must be a whole number from 0, but is ${shown(value)}`)
}

/** All of them, which the compiler checks. */
const allocateOptions: Record<keyof AllocateOptions, true> = { waitMs: true, confirm: true, signal: true, caller: true }

/** Not an async function: that would create an extra promise on this hot path. */
function allocate(
  term: LeaderTerm,
  maxWaitMs: number,
  request: AllocationRequest,
  options: AllocateOptions,
): Promise<Allocation> {
  try {
    for (const name in options) {
      if (!Object.hasOwn(allocateOptions, name)) checkNames('allocate', options, Object.keys(allocateOptions))
    }
    const { waitMs = 0, confirm = false, signal } = options
    throwIfAborted(signal)
    checkWait(waitMs, maxWaitMs)
    if (typeof confirm !== 'boolean') {
      throw new FleetError('invalid', `confirm must be true or false, but is ${shown(confirm)}`)
    }
    const checked = readAllocationRequest(request)
    if (!checked.ok) throw refusedRequest(checked.problem)
    const confirmMs = confirm ? confirmTimeoutMs(options.waitMs, maxWaitMs) : undefined
    return term.engine().allocator.allocate(checked.value, { waitMs, confirmMs, signal })
  } catch (error) {
    return Promise.reject(error)
  }
}

/** The server of a session. Undefined if the call failed and left the session without one. */
function allocated(term: LeaderTerm, request: unknown, allocation?: Allocation): AuditedSubject | undefined {
  const sessionID = isObject(request) ? request['sessionID'] : undefined
  if (typeof sessionID !== 'string') return undefined
  const entry = term.leads() ? term.engine().inventory.serverBySession(sessionID) : undefined
  if (entry) return { build: entry.build.ref, server: entry.ref, sessionID }
  return allocation && { sessionID }
}

/** Rejects if the leader cannot be reached. */
async function askLeader(link: LeaderLink, signal: AbortSignal): Promise<void> {
  const address = link.leader()
  if (address === undefined) throw new FleetError('not-leader', 'no host leads the fleet now')
  const sent = await link.send(address, { method: 'GET', path: leadsPath, headers: {}, body: undefined }, signal)
  if ('failure' in sent) throw sent.error
  for await (const _ of sent.response.text);
  if (sent.response.status !== 204) throw new FleetError('not-leader', 'it does not lead the fleet now')
}

async function backUp(store: Store, directory: unknown): Promise<void> {
  if (typeof directory !== 'string' || directory === '') {
    throw new FleetError('invalid', `store.backup: the directory must be a path, but is ${shown(directory)}`)
  }
  if (!store.backup) throw new FleetError('unsupported', 'this store keeps no files of its own that could be copied')
  await store.backup(directory)
}

async function check(store: Store): Promise<StoreCheck> {
  if (!store.check) throw new FleetError('unsupported', 'this store keeps no files of its own that could be checked')
  return store.check()
}

function statsOf(term: LeaderTerm, maxServersPerBuild: number): FleetStats {
  const { heartbeats } = term
  if (!term.leads()) return { leads: false, heartbeats, builds: [] }
  const engine = term.engine()
  const waiting = engine.waiting.bind(engine)
  const builds = buildStats({ inventory: engine.inventory, waiting, maxServersPerBuild })
  return { leads: true, heartbeats, builds }
}

function activityOf(term: LeaderTerm, view: ResourceView, options: CallOptions & ServerFilter): FleetActivity {
  checkNames('activity', options, ['build', 'signal'])
  throwIfAborted(options.signal)
  const { activity } = term.engine()
  if (options.build === undefined) return activity.read()
  return activity.read(view.findBuild(options.build))
}

async function problemsNow(
  term: LeaderTerm,
  health: HealthCheck,
  maxServersPerBuild: number,
  options: CallOptions,
): Promise<readonly FleetProblem[]> {
  checkNames('problems', options, ['signal'])
  throwIfAborted(options.signal)
  const { problems: host } = await health.run()
  throwIfAborted(options.signal)
  if (!term.leads()) return problemsOf({ host, builds: [], servers: [] })
  return problemsOf({ host, ...situationOf(term.engine().inventory, maxServersPerBuild) })
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

interface BatchCallDependencies {
  readonly term: LeaderTerm
  readonly maxWaitMs: number
  readonly audit: Audit
  readonly subjectOf: (request: AllocationRequest, allocation?: Allocation) => AuditedSubject | undefined
}

async function allocateMany(
  { term, maxWaitMs, audit, subjectOf }: BatchCallDependencies,
  requests: unknown,
  options: AllocateManyOptions,
): Promise<readonly BatchResult[]> {
  checkNames('allocateMany', options, ['atomic', 'waitMs', 'signal', 'caller'])
  const { atomic = false, waitMs = 0, signal } = options
  throwIfAborted(signal)
  if (typeof atomic !== 'boolean') {
    throw new FleetError('invalid', `atomic must be true or false, but is ${shown(atomic)}`)
  }
  checkWait(waitMs, maxWaitMs)
  const checked = readBatch(requests)
  if (!checked.ok) throw refusedRequest(checked.problem)
  const outcomes = term.engine().batches.allocate(checked.value, { atomic, waitMs, signal })
  // Each allocation is one call to the audit and to the observers, as if it had been made alone.
  const settled = checked.value.map((request, i) => {
    const one = async (): Promise<Allocation> => {
      const outcome = (await outcomes)[i]
      if (outcome?.status === 'fulfilled') return outcome.value
      throw outcome?.reason
    }
    const audited = () => audit.call('allocate', options, (allocation) => subjectOf(request, allocation), one)
    const { observers } = term
    if (observers.isEmpty) return audited()
    return observers.timedCall(audited, (observer, outcome, ms) => observer.allocated?.(outcome, ms))
  })
  const results = await Promise.allSettled(settled)
  // An atomic batch rejects as a whole.
  await outcomes
  return results.map((result, i) => resultOf(checked.value[i]?.sessionID ?? '', result))
}

function resultOf(sessionID: string, result: PromiseSettledResult<Allocation>): BatchResult {
  if (result.status === 'fulfilled') return { sessionID, allocation: result.value }
  const reason: unknown = result.reason
  const error = FleetError.is(reason) ? reason : new FleetError('internal', messageOf(reason), { cause: reason })
  return { sessionID, error }
}
