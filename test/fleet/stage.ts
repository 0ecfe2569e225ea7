/**
 * * Runs the real engine on the memory backend and the memory store in virtual time. Records calls, injects faults, and lets
 * * hosts close, crash and restart.
 */
import {
  type Backend,
  type ErrorDetails,
  type FleetError,
  type Fleet,
  type FleetEvent,
  type FleetEventType,
  type FleetOptions,
  type GameServer,
  type Store,
  type BuildSpec,
} from 'gamekeeper'
import { memoryBackend, type MemoryBackend, type MemoryBackendOptions, type MemoryServer } from 'gamekeeper/memory'
import {
  type CallFault,
  type EventFault,
  faultyBackend,
  type FaultyCall,
  type FaultyEvent,
  faultyStore,
  type FaultPlan,
  virtualClock,
  type VirtualClock,
} from 'gamekeeper/testing'
import { expect, onTestFinished } from 'vitest'
import type { Prober } from '../../src/contracts/prober.js'
import type { AskWebhook } from '../../src/contracts/scaling-demand.js'
import { createFleetWith } from '../../src/fleet/create-fleet.js'
import { memoryStore } from '../../src/stores/memory.js'

export type Call = FaultyCall & { readonly of: 'store' | 'backend'; readonly atMs: number }

export interface StageOptions {
  /** How game servers behave. Default: they become ready on their own. */
  readonly memory?: Omit<MemoryBackendOptions, 'clock'>
  readonly limits?: FleetOptions['limits']
  /** Answers for scaling webhooks. Default: requests over HTTP. */
  readonly askWebhook?: AskWebhook
  /** Probes the games of builds without an SDK. Those of the backend then send no heartbeats. */
  readonly prober?: Prober
  /** Runs the commands of such builds; null: the backend runs none. Default: each of them succeeds. */
  readonly exec?: Backend['exec'] | null
}

export interface Stage {
  readonly clock: VirtualClock
  /** The game servers, for the test to control. */
  readonly backend: MemoryBackend
  /** The store's records, to be read, or written as another host does. */
  readonly records: Store
  /** Faults to inject into calls and events from now on. */
  readonly faults: {
    store: FaultPlan<FaultyCall, CallFault>
    backend: FaultPlan<FaultyCall, CallFault>
    events: FaultPlan<FaultyEvent, EventFault>
  }
  /** All calls of all hosts so far, in order. */
  readonly calls: readonly Call[]
  /** All events of all hosts so far, in order. */
  readonly events: readonly FleetEvent[]
  eventsOf<T extends FleetEventType>(type: T): readonly Extract<FleetEvent, { type: T }>[]
  /** Starts the first host, or the next one after a close or crash. */
  open(options?: Partial<FleetOptions>): Promise<Fleet>
  /** Kills the last host: calls in progress may still take effect, but it makes no more calls and receives no more replies. */
  crash(): void
}

const nothing = () => undefined

export function stage({ memory, limits, askWebhook, prober, exec }: StageOptions = {}): Stage {
  const clock = virtualClock()
  const backend = memoryBackend({ clock, ...memory })
  const records = memoryStore()
  const faults: Stage['faults'] = { store: nothing, backend: nothing, events: nothing }
  const calls: Call[] = []
  const events: FleetEvent[] = []
  let crash = () => {}

  const told =
    (of: Call['of']): FaultPlan<FaultyCall, CallFault> =>
    (call) => {
      calls.push({ ...call, of, atMs: clock.elapsed() })
      return faults[of](call)
    }

  return {
    clock,
    backend,
    records,
    faults,
    calls,
    events,
    eventsOf: <T extends FleetEventType>(type: T) =>
      events.filter((event): event is Extract<FleetEvent, { type: T }> => event.type === type),
    async open(options = {}) {
      const host = killable(clock)
      crash = host.crash
      const outside = { ...(askWebhook && { askWebhook }), ...(prober && { prober }) }
      const create = (all: FleetOptions) => createFleetWith(all, outside)
      const fleet = await create({
        backend: host.backend(
          faultyBackend(prober ? silent(backend, exec) : backend, {
            clock,
            calls: told('backend'),
            events: (event) => faults.events(event),
          }),
        ),
        store: host.store(faultyStore(records, { clock, calls: told('store') })),
        clock: host.clock,
        logger: false,
        ...(prober && { agent: { external: 'agent:56001' } }),
        ...(limits && { limits }),
        ...options,
        // The clock of a host that can be killed is another object than the backend's.
        ...(options.backend && { backend: { ...options.backend, clock: undefined } }),
      })
      fleet.on('*', (event) => events.push(event))
      onTestFinished(async () => {
        Object.assign(faults, { store: nothing, backend: nothing, events: nothing })
        if (host.alive()) await fleet.close()
      })
      return fleet
    },
    crash: () => crash(),
  }
}

/** The same backend with games that know nothing of the fleet. */
function silent({ exec: execOfMemory, ...backend }: Backend, exec: StageOptions['exec'] = execOfMemory): Backend {
  const heartbeat = () => ({ operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }) as const
  return {
    ...backend,
    ...(exec && { exec }),
    capabilities: { ...backend.capabilities, agent: true },
    watch: (listener) => backend.watch({ ...listener, heartbeat }),
  }
}

/** A host process that can be killed between any two steps: from then on, its calls never settle and its timers never fire. */
function killable(clock: VirtualClock) {
  let dead = false
  const unwatch: (() => void)[] = []
  const never = new Promise<never>(() => {})
  const whileAlive = async <T>(call: () => Promise<T>): Promise<T> => {
    if (dead) return never
    try {
      const result = await call()
      return dead ? await never : result
    } catch (error) {
      if (dead) return never
      throw error
    }
  }
  const collection = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get(target, name) {
        const method: unknown = Reflect.get(target, name)
        if (typeof method !== 'function') return method
        return (...given: unknown[]) => whileAlive(() => Promise.resolve(Reflect.apply(method, target, given)))
      },
    })

  return {
    alive: () => !dead,
    crash() {
      dead = true
      for (const stop of unwatch) stop()
    },
    clock: {
      now: clock.now,
      elapsed: clock.elapsed,
      randomBytes: clock.randomBytes,
      after: (ms: number, fn: () => void) =>
        clock.after(ms, () => {
          if (!dead) fn()
        }),
    },
    backend: (inner: Backend): Backend => ({
      ...inner,
      create: (spec, options) => whileAlive(() => inner.create(spec, options)),
      destroy: (ref, uid, options) => whileAlive(() => inner.destroy(ref, uid, options)),
      list: (options) => whileAlive(() => inner.list(options)),
      watch(listener) {
        const stop = inner.watch(listener)
        unwatch.push(stop)
        return stop
      },
    }),
    store: (inner: Store): Store => ({
      ...inner,
      builds: collection(inner.builds),
      servers: collection(inner.servers),
      details: collection(inner.details),
      ...(inner.demand && { demand: collection(inner.demand) }),
    }),
  }
}

export interface BuildOverrides {
  readonly name?: string
  readonly namespace?: string
  readonly buildID?: string
  readonly standingBy?: number
  readonly max?: number
  readonly portsToExpose?: readonly number[]
  readonly crashesToMarkUnhealthy?: number
  readonly graceSeconds?: number
  readonly buildMetadata?: Readonly<Record<string, string>>
  readonly scaling?: BuildSpec['scaling']
  readonly budget?: BuildSpec['budget']
  readonly game?: BuildSpec['game']
  readonly stdin?: boolean
  readonly claimSeconds?: number
}

/** A build as a host app writes it. Its buildID defaults to its name. */
export function aBuild(overrides: BuildOverrides = {}) {
  const { name = 'arena', namespace, buildID = name, standingBy = 2, max = 10, portsToExpose = [7777] } = overrides
  const { crashesToMarkUnhealthy, graceSeconds, buildMetadata, scaling, budget, game, stdin, claimSeconds } = overrides
  return {
    metadata: { name, ...(namespace !== undefined && { namespace }) },
    spec: {
      buildID,
      standingBy,
      max,
      portsToExpose,
      ...(crashesToMarkUnhealthy !== undefined && { crashesToMarkUnhealthy }),
      ...(buildMetadata !== undefined && { buildMetadata }),
      ...(scaling !== undefined && { scaling }),
      ...(budget !== undefined && { budget }),
      ...(game !== undefined && { sdk: 'none' as const, game }),
      ...(claimSeconds !== undefined && { claimSeconds }),
      template: {
        spec: {
          containers: [{ name: 'game', ...(stdin !== undefined && { stdin }) }],
          ...(graceSeconds !== undefined && { terminationGracePeriodSeconds: graceSeconds }),
        },
      },
    },
  }
}

/** The n-th session of a test. */
export function session(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}

/** An allocation request; for the build `arena` by default. */
export function ask(n: number, more: { readonly buildID?: string; readonly sessionCookie?: string } = {}) {
  return { buildID: 'arena', sessionID: session(n), ...more }
}

export async function statusOf(fleet: Fleet, build = 'arena') {
  return (await fleet.builds.get(build)).status
}

/** Advances the clock until `count` servers are standing by. */
export function untilReady({ clock }: Stage, fleet: Fleet, count: number, build = 'arena'): Promise<void> {
  return clock.until(async () => (await statusOf(fleet, build)).currentStandingBy === count)
}

export async function serversBy(fleet: Fleet, state: GameServer['status']['state']): Promise<readonly GameServer[]> {
  return (await fleet.servers.list()).filter((server) => server.status.state === state)
}

/** The game process of the server with the n-th session. */
export async function playing({ backend }: Stage, fleet: Fleet, n: number): Promise<MemoryServer> {
  const server = (await fleet.servers.list()).find(({ status }) => status.sessionID === session(n))
  if (!server) throw new Error(`no server has session ${n}`)
  return backend.server(server.metadata)
}

/** The only item of a list. */
export function only<T>(items: readonly T[]): T {
  const [item, ...others] = items
  if (item === undefined || others.length > 0) throw new Error(`there must be one, but there are ${items.length}`)
  return item
}

export function nth<T>(items: readonly T[], index: number): T {
  const item = items[index]
  if (item === undefined) throw new Error(`there is no item ${index} of ${items.length}`)
  return item
}

/** The outcome of a promise so far, without waiting for it. */
export function watched<T>(promise: Promise<T>): {
  readonly outcome: () => 'pending' | { value: T } | { error: unknown }
} {
  let outcome: 'pending' | { value: T } | { error: unknown } = 'pending'
  promise.then(
    (value) => (outcome = { value }),
    (error: unknown) => (outcome = { error }),
  )
  return { outcome: () => outcome }
}

/** The error of a call that is expected to fail. */
export async function failureOf(
  promise: Promise<unknown>,
): Promise<{ readonly code: string; readonly message: string; readonly details: ErrorDetails | undefined }> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(outcome).toMatchObject({ name: 'FleetError' })
  return outcome as FleetError
}
