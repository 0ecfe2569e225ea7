/** What a host calls: checks what it is given, asks the engine of this term of leadership, and shows records as resources. */
import type { Backend, LogsOptions } from '../contracts/backend.js'
import { countsOf, generationsOf, type ServerEntry, serversOf } from '../engine/state/entries.js'
import { lookUp } from '../engine/state/inventory.js'
import { buildStats } from '../engine/reporting/stats.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import { healthCheck } from './health.js'
import type { AllocateOptions, Explanation, Fleet } from '../contracts/fleet.js'
import { withInternals } from './internals.js'
import type { LeaderTerm } from './leader-term.js'
import type { CallOptions } from '../contracts/call-options.js'
import type { DrainOptions, DrainResult, ResolvedOptions } from '../contracts/options.js'
import { shown } from '../rules/validation/problem.js'
import { type AllocationRequest, keyOf, type Ref, type RefLike } from '../rules/model/resources.js'
import { defaultNamespace, readAllocationRequest } from '../rules/validation/requests.js'
import {
  type Allocation,
  gameServer,
  gameServerBuild,
  gameServerBuildDetail,
  gameServerDetail,
} from '../rules/model/wire.js'
import type { Store } from '../contracts/store.js'

export interface FacadeDependencies {
  readonly term: LeaderTerm
  readonly backend: Backend
  readonly store: Store
  readonly resolved: ResolvedOptions
  readonly agentAddress: string | undefined
  readonly cleanUp: readonly (() => Promise<void>)[]
}

export function facade({ term, backend, store, resolved, agentAddress, cleanUp }: FacadeDependencies): Fleet {
  const { apiGroup, limits } = resolved
  let closing: Promise<void> | undefined

  const findServer = (like: RefLike): ServerEntry => {
    const ref = toRef(like)
    const entry = lookUp(term.engine().inventory.servers, ref)
    if (!entry) throw new FleetError('not-found', `server ${keyOf(ref)} does not exist`)
    return entry
  }
  const findBuild = (like: RefLike) => term.engine().builds.find(toRef(like))
  const showBuild = (build: ReturnType<typeof findBuild>) =>
    gameServerBuild(build.record, countsOf(build), apiGroup, generationsOf(build))
  const showServer = (entry: ServerEntry) => gameServer(entry.record, apiGroup, entry.pendingReason)
  const showDetail = (entry: ServerEntry) =>
    gameServerDetail(entry.record, { ...entry.record, players: entry.players }, apiGroup)

  const allocate = (request: AllocationRequest, { waitMs = 0, signal }: AllocateOptions): Promise<Allocation> => {
    try {
      throwIfAborted(signal)
      if (!(waitMs >= 0 && waitMs <= limits.maxWaitMs)) {
        throw new FleetError('invalid', `waitMs must be from 0 to ${limits.maxWaitMs}, but is ${shown(waitMs)}`)
      }
      const checked = readAllocationRequest(request)
      if (!checked.ok) throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
      return term.engine().allocator.allocate(checked.value, { waitMs, signal })
    } catch (error) {
      return Promise.reject(error)
    }
  }

  return Object.freeze({
    ...withInternals({ emit: term.emitter.emit, log: term.emitter.logged() }),
    agentAddress,

    builds: Object.freeze<Fleet['builds']>({
      async create(build, { signal } = {}) {
        throwIfAborted(signal)
        return showBuild(await term.engine().builds.create(build))
      },
      async get(ref, { signal } = {}) {
        throwIfAborted(signal)
        return showBuild(findBuild(ref))
      },
      async list({ signal } = {}) {
        throwIfAborted(signal)
        return [...term.engine().inventory.builds.values()].map(showBuild)
      },
      async patch(ref, change, { signal } = {}) {
        throwIfAborted(signal)
        return showBuild(await term.engine().builds.patch(toRef(ref), change))
      },
      async update(ref, change, { signal } = {}) {
        throwIfAborted(signal)
        return showBuild(await term.engine().builds.update(toRef(ref), change))
      },
      async drain(ref, options = {}) {
        throwIfAborted(options.signal)
        checkDrain(options)
        return term.engine().drainBuild(findBuild(ref), options)
      },
      async resume(ref, { signal } = {}) {
        throwIfAborted(signal)
        return showBuild(await term.engine().builds.setDraining(toRef(ref), false))
      },
      async delete(ref, { signal } = {}) {
        throwIfAborted(signal)
        await term.engine().builds.delete(toRef(ref))
      },
    }),

    servers: Object.freeze<Fleet['servers']>({
      async get(ref, { signal } = {}) {
        throwIfAborted(signal)
        return showServer(findServer(ref))
      },
      async list({ build, signal } = {}) {
        throwIfAborted(signal)
        const entries = build === undefined ? term.engine().inventory.servers.values() : serversOf(findBuild(build))
        return [...entries].map(showServer)
      },
      async drain(ref, options = {}) {
        throwIfAborted(options.signal)
        checkDrain(options)
        return term.engine().drainServer(findServer(ref), options)
      },
      async delete(ref, { signal } = {}) {
        throwIfAborted(signal)
        await term.engine().deleteServer(findServer(ref))
      },
      logs(ref, options: LogsOptions = {}) {
        if (!backend.logs)
          throw new FleetError('unsupported', `the ${backend.name} backend keeps no logs of its servers`)
        return backend.logs(toRef(ref), options)
      },
    }),

    details: Object.freeze<Fleet['details']>({
      async get(ref, { signal } = {}) {
        throwIfAborted(signal)
        return showDetail(findServer(ref))
      },
      async ofBuild(ref, { signal } = {}) {
        throwIfAborted(signal)
        const build = findBuild(ref)
        return gameServerBuildDetail(build.record, [...serversOf(build)].map(showDetail), apiGroup)
      },
    }),

    allocate(request: AllocationRequest, options: AllocateOptions = {}): Promise<Allocation> {
      if (term.observers.idle) return allocate(request, options)
      return term.observers.timedCall(
        () => allocate(request, options),
        (observer, outcome, ms) => observer.allocated?.(outcome, ms),
      )
    },

    heartbeat: term.heartbeat,
    on: term.emitter.on,
    events: term.emitter.read,
    observe: term.observers.add,
    health: healthCheck({ ...resolved, store, backend, notReadyReason: term.notReadyReason, leads: term.leads }),

    stats() {
      const leads = term.leads()
      const { inventory, waiting } = leads ? term.engine() : { inventory: undefined, waiting: () => 0 }
      const builds = inventory ? buildStats(inventory, waiting) : []
      return { leads, heartbeats: term.heartbeats, builds }
    },

    async explain(like: RefLike, { signal }: CallOptions = {}): Promise<Explanation> {
      throwIfAborted(signal)
      const ref = toRef(like)
      const entry = lookUp(term.engine().inventory.servers, ref)
      const events = [...term.emitter.logged()].filter(
        (event) => 'server' in event && keyOf(event.server) === keyOf(ref),
      )
      if (!entry && events.length === 0) {
        throw new FleetError('not-found', `server ${keyOf(ref)} does not exist, and the log knows nothing of it`)
      }
      const text = events.map(({ at, message }) => `${new Date(at).toISOString()}  ${message}`).join('\n')
      return { ...(entry && { server: showServer(entry) }), events, text }
    },

    async drain(options: DrainOptions = {}): Promise<DrainResult> {
      throwIfAborted(options.signal)
      checkDrain(options)
      return term.engine().drainFleet(options)
    },

    close() {
      closing ??= (async () => {
        const failures: unknown[] = []
        // Each, whatever became of the one before: the store's lock must not outlast a backend that fails to close.
        for (const fn of cleanUp) await fn().catch((error: unknown) => failures.push(error))
        term.emitter.close()
        if (failures.length > 0) throw failures[0]
      })()
      return closing
    },
  })
}

/** Throws `invalid`: no misspelt word may end a match. */
function checkDrain({ active, deadlineMs }: DrainOptions): void {
  if (active !== undefined && active !== 'wait' && active !== 'terminate') {
    throw new FleetError('invalid', `active must be 'wait' or 'terminate', but is ${shown(active)}`)
  }
  if (deadlineMs !== undefined && !(Number.isFinite(deadlineMs) && deadlineMs >= 0)) {
    throw new FleetError('invalid', `deadlineMs must be a finite number ≥ 0, but is ${shown(deadlineMs)}`)
  }
}

function toRef(like: RefLike): Ref {
  return typeof like === 'string'
    ? { namespace: defaultNamespace, name: like }
    : { namespace: like.namespace ?? defaultNamespace, name: like.name }
}
