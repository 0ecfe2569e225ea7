/** Makes a fleet: opens the store, starts the agent, and runs an engine for as long as this host leads. */
import { type Agent, startAgent } from './agent/index.js'
import type { AgentPlace, Backend, LogsOptions } from './backend.js'
import { startEngine, type Engine } from './engine/engine.js'
import { type Gate, gate } from './engine/gate.js'
import { buildStats } from './engine/stats.js'
import { countsOf, generationsOf, type ServerEntry, serversOf } from './engine/entries.js'
import { lookUp } from './engine/inventory.js'
import { FleetError, messageOf, throwIfAborted } from './errors.js'
import { fleetEmitter } from './emitter.js'
import type { AllocateOptions, Explanation, Fleet } from './fleet.js'
import { healthCheck } from './fleet-health.js'
import { type Observers, observersOf } from './observer.js'
import { withInside } from './inside.js'
import {
  type CallOptions,
  type Drained,
  type DrainOptions,
  type FleetOptions,
  type ResolvedOptions,
  resolveOptions,
} from './options.js'
import type { Heartbeat, HeartbeatAnswer } from './rules/heartbeat.js'
import { afterFailure, noBackoff } from './rules/backoff.js'
import { shown } from './rules/problem.js'
import { type AllocationRequest, keyOf, type Ref, type RefLike } from './rules/resources.js'
import { defaultNamespace, readAllocationRequest } from './rules/validation.js'
import { type Allocation, gameServer, gameServerBuild, gameServerBuildDetail, gameServerDetail } from './rules/wire.js'
import type { Store } from './store.js'
import { openDefaultStore } from './stores/default-store.js'

/**
 * Resolves once builds, servers and sessions of before are known again. Throws `invalid` for a bad option,
 * `port-in-use` when the agent's port is taken, `directory-in-use` or `directory-unusable` for the file store, and
 * whatever the store or the backend fails with.
 */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const resolved = resolveOptions(options)
  const { backend, agent: agentOptions = {} } = options
  const cleanUp: (() => Promise<void>)[] = []
  try {
    const store = options.store ?? (await openDefaultStore(backend.defaultStore, resolved.logger))
    // Async, so that one that throws at once does not keep the others from being closed.
    if (!options.store) cleanUp.unshift(async () => store.close())
    cleanUp.unshift(async () => backend.close())
    const target = { heartbeat: (id: string, beat: Heartbeat) => term.heartbeat(id, beat) }
    let agent: Agent | undefined
    let place: AgentPlace | undefined
    if (backend.capabilities.agent && !('mounted' in agentOptions)) {
      const { port } = agentOptions
      const isSettled = agentOptions.host !== undefined && agentOptions.address !== undefined
      if (!isSettled) place = await backend.agentPlace?.({ host: agentOptions.host })
      const host = agentOptions.host ?? place?.host
      agent = await startAgent({
        target,
        logger: resolved.logger,
        ...(host !== undefined && { host }),
        ...(port !== undefined && { port }),
      })
      const started = agent
      cleanUp.unshift(() => started.close())
    }
    const agentAddress =
      'mounted' in agentOptions
        ? agentOptions.mounted
        : agent && addressOf(agent, agentOptions.address ?? place?.reachedAt)
    const term = leaderTerm(options, resolved, store, agentAddress ?? '')
    cleanUp.unshift(() => term.close())
    await term.begun
    return facade({ term, backend, store, resolved, agentAddress, cleanUp })
  } catch (error) {
    for (const fn of cleanUp) await fn().catch(() => undefined) // The first failure is the one to tell.
    throw error
  }
}

function addressOf(agent: Agent, address: string | undefined): string {
  // Listening everywhere is no address to be reached at: here it means this machine.
  if (address === undefined)
    return `${agent.host === '0.0.0.0' || agent.host === '::' ? '127.0.0.1' : agent.host}:${agent.port}`
  return /:\d+$/.test(address) ? address : `${address}:${agent.port}`
}

/** The engine while this host leads, and what to say while it does not. */
interface LeaderTerm {
  /** Settles with the first word of the elector: rejects when the first engine cannot start. */
  readonly begun: Promise<void>
  engine(): Engine
  heartbeat(id: string, beat: Heartbeat): HeartbeatAnswer
  readonly emitter: ReturnType<typeof fleetEmitter>
  readonly observers: Observers
  /** Why this host hands out nothing now, if that is so. */
  hindrance(): string | undefined
  leads(): boolean
  readonly heartbeats: number
  close(): Promise<void>
}

function leaderTerm(options: FleetOptions, resolved: ResolvedOptions, store: Store, agentAddress: string): LeaderTerm {
  const { logger, clock, elector, limits } = resolved
  const emitter = fleetEmitter(logger, limits.eventLogSize)
  const observers = observersOf(clock, logger)
  let heartbeats = 0
  const goOn: HeartbeatAnswer = {
    operation: 'Continue',
    nextHeartbeatIntervalMs: limits.heartbeatIntervalMs,
    isElsewhere: true,
  }
  let engine: Engine | undefined
  let leader: string | undefined
  let door: Gate | undefined
  let leads = false
  let closed = false
  let tries = noBackoff
  let cancelRetry = () => {}
  const startLimits = { firstMs: limits.backoffFirstMs, lastMs: limits.backoffLastMs, resetMs: limits.backoffResetMs }
  /** One change of leadership after the other. */
  let changes = Promise.resolve()
  let firstWord: { resolve(): void; reject(error: unknown): void } | undefined
  const begun = new Promise<void>((resolve, reject) => {
    firstWord = { resolve, reject }
  })

  const notLeading = () => {
    const who = leader === undefined ? '' : `; ${leader} does`
    return new FleetError('not-leader', `this host does not lead the fleet${who}`)
  }

  async function elected(): Promise<void> {
    if (closed || engine || !leads) return
    try {
      door = gate(store, options.backend, observers)
      engine = await startEngine({ door, options: resolved, emitter, agentAddress, observers })
      firstWord?.resolve()
      emitter.emit({ type: 'LeadershipChanged', at: clock.now(), leads: true, message: 'this host leads the fleet' })
      tries = noBackoff
    } catch (error) {
      // Deposed while it started: there is nothing to try again, and `lost` has the next word.
      if (!leads) return
      logger.error({ error: messageOf(error) }, 'the engine could not be started')
      firstWord?.reject(error)
      // The first time `createFleet` tells of it; later the lead is kept, and the engine tried again.
      tries = afterFailure(tries, clock.elapsed(), startLimits)
      cancelRetry = clock.after(tries.until - clock.elapsed(), () => {
        changes = changes.then(elected)
      })
    }
  }

  async function lost(): Promise<void> {
    cancelRetry()
    const ending = engine
    engine = undefined
    firstWord?.resolve()
    if (!ending) return
    emitter.emit({ type: 'LeadershipChanged', at: clock.now(), leads: false, message: notLeading().message })
    await ending.stop(notLeading(), 'deposed')
  }

  const resign = elector.run({
    elected() {
      leads = true
      leader = undefined
      changes = changes.then(elected)
    },
    lost(by) {
      leads = false
      leader = by
      // At once, also upon an engine that is just starting: whatever it does from now on is another host's to do.
      door?.shut(notLeading())
      changes = changes.then(lost)
    },
  })

  return {
    begun,
    emitter,
    engine() {
      if (closed) throw new FleetError('closed', 'the fleet is closed on this host')
      if (!engine || !leads) throw notLeading()
      return engine
    },
    heartbeat(id, beat) {
      heartbeats++
      return engine?.heartbeat(id, beat) ?? goOn
    },
    get heartbeats() {
      return heartbeats
    },
    observers,
    leads: () => leads && engine !== undefined && !closed,
    hindrance() {
      if (closed) return 'this fleet is closed'
      if (!engine || !leads) return notLeading().message
      return engine.isDraining() ? 'the fleet is being drained' : undefined
    },
    async close() {
      closed = true
      cancelRetry()
      const error = new FleetError('closed', 'this host is closing; another, or this one started again, goes on')
      changes = changes.then(() => engine?.stop(error, 'closing'))
      await changes
      engine = undefined
      await resign()
    },
  }
}

interface FacadeParts {
  readonly term: LeaderTerm
  readonly backend: Backend
  readonly store: Store
  readonly resolved: ResolvedOptions
  readonly agentAddress: string | undefined
  readonly cleanUp: readonly (() => Promise<void>)[]
}

function facade({ term, backend, store, resolved, agentAddress, cleanUp }: FacadeParts): Fleet {
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
    ...withInside({ emit: term.emitter.emit, log: term.emitter.logged() }),
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
    health: healthCheck({ ...resolved, store, backend, hindrance: term.hindrance, leads: term.leads }),

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

    async drain(options: DrainOptions = {}): Promise<Drained> {
      throwIfAborted(options.signal)
      return term.engine().drainFleet(options)
    },

    close() {
      closing ??= (async () => {
        const failures: unknown[] = []
        // Each, whatever became of the one before: the store's lock must not outlast a backend that fails to close.
        for (const fn of cleanUp) await fn().catch((error: unknown) => failures.push(error))
        if (failures.length > 0) throw failures[0]
      })()
      return closing
    },
  })
}

function toRef(like: RefLike): Ref {
  return typeof like === 'string'
    ? { namespace: defaultNamespace, name: like }
    : { namespace: like.namespace ?? defaultNamespace, name: like.name }
}
