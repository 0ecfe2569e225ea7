/**
 * Metrics of a fleet for Prometheus, in the host's registry or in one of their own. Gauges are read from the fleet when
 * somebody asks for them; the rest is counted as it happens.
 */
import { type Clock, systemClock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import type { FleetEvent } from '../contracts/events.js'
import type { Fleet, FleetHealth, FleetStats } from '../contracts/fleet.js'
import { internalsOf } from '../fleet/internals.js'
import type { EndingReason, Ref, ServerState } from '../rules/model/resources.js'
import type { BuildCounts } from '../rules/model/status.js'
import { type MetricDefinition, definitions, type MetricName } from './definitions.js'
import { type Counter, type Gauge, type Histogram, loadPromClient, type MetricsRegistry } from './prom-client.js'

export interface FleetMetricsOptions {
  /** Default: one of their own. `register` of prom-client is the one that hosts share. */
  readonly registry?: MetricsRegistry
  /** Default: the real one. */
  readonly clock?: Clock
}

export interface FleetMetrics {
  readonly registry: MetricsRegistry
  /** Of what `text` resolves with. */
  readonly contentType: string
  /** All that is in the registry, in the text format of Prometheus. */
  text(): Promise<string>
  /** Observes the fleet no more, and takes its metrics out of the registry. */
  close(): void
}

/** What is measured. */
export type MeasuredFleet = Pick<Fleet, 'observe' | 'on' | 'stats' | 'health'>

/**
 * Counts from the beginning of the fleet's event log on, and measures from now on. Throws `internal` when the package
 * prom-client is not there, and `invalid` when the registry holds these metrics of a fleet already.
 */
export function fleetMetrics(fleet: MeasuredFleet, options: FleetMetricsOptions = {}): FleetMetrics {
  const { clock = systemClock } = options
  const client = loadPromClient()
  const registry = options.registry ?? new client.Registry()
  if (registry.getSingleMetric('gamekeeper_servers') !== undefined) {
    throw new FleetError(
      'invalid',
      'fleetMetrics: a registry holds one fleet; give another fleet a registry of its own',
    )
  }
  const stats = remembered(clock, () => fleet.stats())

  const settings = (name: MetricName, collect?: () => void | Promise<void>) => {
    const { help, labels, buckets }: MetricDefinition = definitions[name]
    return {
      name,
      help,
      labelNames: labels,
      registers: [registry],
      ...(buckets && { buckets }),
      ...(collect && { collect }),
    }
  }
  const histogram = (name: MetricName): Histogram => new client.Histogram(settings(name))
  const counter = (name: MetricName): Counter => new client.Counter(settings(name))

  /** What is no more, such as a deleted build, is gone at the next reading. */
  function gauge(name: MetricName, read: (set: Gauge['set']) => void | Promise<void>): void {
    const made = new client.Gauge(
      settings(name, async () => {
        made.reset()
        await read((labels, value) => made.set(labels, value))
      }),
    )
  }
  function buildGauge(name: MetricName, valueOf: (build: FleetStats['builds'][number]) => number): void {
    gauge(name, (set) => {
      for (const each of stats().builds) set(labelsOf(each.build), valueOf(each))
    })
  }
  const healthGauge = (name: MetricName, valueOf: (health: FleetHealth) => boolean) =>
    gauge(name, async (set) => set({}, Number(valueOf(await fleet.health()))))

  gauge('gamekeeper_servers', (set) => {
    for (const { build, servers } of stats().builds) {
      for (const [count, state] of states) set({ ...labelsOf(build), state }, servers[count])
    }
  })
  buildGauge('gamekeeper_build_standing_by', ({ standingBy }) => standingBy)
  buildGauge('gamekeeper_build_max', ({ max }) => max)
  buildGauge('gamekeeper_build_healthy', ({ health }) => Number(health === 'Healthy'))
  buildGauge('gamekeeper_players', ({ players }) => players)
  buildGauge('gamekeeper_waiting_callers', ({ waiting }) => waiting)
  gauge('gamekeeper_leader', (set) => set({}, Number(stats().leads)))
  healthGauge('gamekeeper_store_up', ({ store }) => store)
  healthGauge('gamekeeper_backend_up', ({ backend }) => backend)
  const beats: Counter = new client.Counter(
    settings('gamekeeper_heartbeats_total', () => {
      beats.reset()
      beats.inc({}, stats().heartbeats)
    }),
  )

  const allocations = histogram('gamekeeper_allocation_duration_seconds')
  const passes = histogram('gamekeeper_reconcile_duration_seconds')
  const backendCalls = histogram('gamekeeper_backend_call_duration_seconds')
  const storeCalls = histogram('gamekeeper_store_call_duration_seconds')
  const unobserve = fleet.observe({
    allocated: (outcome, ms) => allocations.observe({ outcome }, ms / 1000),
    reconciled: (ms) => passes.observe({}, ms / 1000),
    backendCall: (operation, outcome, ms) => backendCalls.observe({ operation, outcome }, ms / 1000),
    storeCall: (collection, operation, outcome, ms) =>
      storeCalls.observe({ collection, operation, outcome }, ms / 1000),
  })

  const ended = counter('gamekeeper_servers_ended_total')
  const crashes = counter('gamekeeper_crashes_total')
  const restarts = counter('gamekeeper_restarts_total')
  const failures = counter('gamekeeper_reconcile_failures_total')
  const terms = counter('gamekeeper_leader_terms_total')
  const deadLetters = counter('gamekeeper_webhook_dead_letters_total')
  const count = (event: FleetEvent) => {
    if (event.type === 'ServerEnding') {
      const { build, reason, crash } = event
      ended.inc({ ...labelsOf(build), reason })
      if (crash) crashes.inc({ ...labelsOf(build), reason })
      if (!wantedEnds.has(reason)) restarts.inc(labelsOf(build))
    } else if (event.type === 'ReconcileFailed') failures.inc(labelsOf(event.build))
    else if (event.type === 'LeadershipChanged' && event.leads) terms.inc({})
    else if (event.type === 'WebhookFailed') deadLetters.inc({})
  }
  // What a fleet finds when it is opened, such as a crash while its host was away, has happened by now.
  for (const event of internalsOf(fleet)?.log ?? []) count(event)
  const counted = ['ServerEnding', 'ReconcileFailed', 'LeadershipChanged', 'WebhookFailed'] as const
  const unlisten = counted.map((type) => fleet.on(type, count))

  return {
    registry,
    contentType: registry.contentType,
    text: () => registry.metrics(),
    close() {
      unobserve()
      for (const stop of unlisten) stop()
      for (const name of Object.keys(definitions)) registry.removeSingleMetric(name)
    },
  }
}

const states: readonly (readonly [keyof BuildCounts, ServerState])[] = [
  ['pending', 'Pending'],
  ['initializing', 'Initializing'],
  ['standingBy', 'StandingBy'],
  ['active', 'Active'],
  ['terminating', 'Terminating'],
]

/** An operator, or the plan, wanted so. */
const wantedEnds: ReadonlySet<EndingReason> = new Set(['ScaledDown', 'Replaced', 'Deleted', 'BuildDeleted', 'Drained'])

function labelsOf({ namespace, name }: Ref): { readonly namespace: string; readonly build: string } {
  return { namespace, build: name }
}

/** Gauges are read one after the other, and a fleet may have very many servers: one walk over them does for all. */
const freshMs = 100

function remembered<T>(clock: Clock, read: () => T): () => T {
  let last: { readonly at: number; readonly value: T } | undefined
  return () => {
    if (last === undefined || clock.elapsed() - last.at >= freshMs) last = { at: clock.elapsed(), value: read() }
    return last.value
  }
}
