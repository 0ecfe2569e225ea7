/**
 * Reads, times and counts what a fleet does. Each function registers its metrics; those that listen return a function that
 * stops.
 */
import type { Clock } from '../contracts/clock.js'
import type { FleetEvent } from '../contracts/events.js'
import type { Fleet, FleetHealth, FleetStats } from '../contracts/fleet.js'
import { internalsOf } from '../fleet/internals.js'
import { turns } from '../platform/turns.js'
import type { EndingReason, Ref, ServerState } from '../rules/model/resources.js'
import type { BuildCounts } from '../rules/model/build-status.js'
import type { MetricName } from './definitions.js'
import type { MetricFactory } from './metric-factory.js'

/** The part of a fleet that metrics use. */
export type MeasuredFleet = Pick<Fleet, 'observe' | 'on' | 'stats' | 'health' | 'problems'>

/** Registers the gauges and the heartbeat counter, which are read from the fleet at each scrape. */
export function readState(fleet: MeasuredFleet, metrics: MetricFactory, clock: Clock): void {
  const stats = cached(clock, () => fleet.stats())
  const buildGauge = (name: MetricName, valueOf: (build: FleetStats['builds'][number]) => number) =>
    metrics.gauge(name, (set) => inSlices(stats().builds, (each) => set(labelsOf(each.build), valueOf(each))))
  const healthGauge = (name: MetricName, valueOf: (health: FleetHealth) => boolean) =>
    metrics.gauge(name, async (set) => set({}, Number(valueOf(await fleet.health()))))

  metrics.gauge('gamekeeper_servers', (set) =>
    inSlices(stats().builds, ({ build, servers }) => {
      for (const [count, state] of states) set({ ...labelsOf(build), state }, servers[count])
    }),
  )
  buildGauge('gamekeeper_build_standing_by', ({ standingBy }) => standingBy)
  buildGauge('gamekeeper_build_max', ({ max }) => max)
  buildGauge('gamekeeper_build_healthy', ({ health }) => Number(health === 'Healthy'))
  buildGauge('gamekeeper_build_ready', ({ ready }) => Number(ready))
  metrics.gauge('gamekeeper_build_condition', (set) =>
    inSlices(stats().builds, ({ build, conditions }) => {
      for (const type of conditions) set({ ...labelsOf(build), type }, 1)
    }),
  )
  metrics.gauge('gamekeeper_problem', async (set) =>
    inSlices(await fleet.problems(), ({ build: { namespace, name } = { namespace: '', name: '' }, kind, severity }) =>
      set({ namespace, build: name, kind, severity }, 1),
    ),
  )
  metrics.gauge('gamekeeper_template_servers', (set) =>
    inSlices(stats().builds, ({ build, templates }) => {
      set({ ...labelsOf(build), template: 'current' }, templates.updated)
      set({ ...labelsOf(build), template: 'earlier' }, templates.outdated)
    }),
  )
  buildGauge('gamekeeper_players', ({ players }) => players)
  buildGauge('gamekeeper_waiting_callers', ({ waiting }) => waiting)
  metrics.gauge('gamekeeper_leader', (set) => set({}, Number(stats().leads)))
  healthGauge('gamekeeper_can_lead', ({ canLead }) => canLead)
  healthGauge('gamekeeper_store_up', ({ store }) => store)
  healthGauge('gamekeeper_backend_up', ({ backend }) => backend)
  metrics.readCounter('gamekeeper_heartbeats_total', () => stats().heartbeats)
}

/** Registers the histograms and the counter of requests, which measure calls from now on. */
export function timeCalls(fleet: MeasuredFleet, metrics: MetricFactory): () => void {
  const allocations = metrics.histogram('gamekeeper_allocation_duration_seconds')
  const reconciles = metrics.histogram('gamekeeper_reconcile_duration_seconds')
  const backendCalls = metrics.histogram('gamekeeper_backend_call_duration_seconds')
  const storeCalls = metrics.histogram('gamekeeper_store_call_duration_seconds')
  const forwarded = metrics.histogram('gamekeeper_forwarded_duration_seconds')
  const requests = metrics.counter('gamekeeper_requests_total')
  // A series that begins with its first failure has no rate.
  for (const outcome of ['ok', 'not-leader']) requests.inc({ operation: 'allocate', outcome }, 0)
  return fleet.observe({
    allocated: (outcome, ms) => allocations.observe({ outcome }, ms / 1000),
    answered: (operation, outcome) => requests.inc({ operation, outcome }),
    reconciled: (ms) => reconciles.observe({}, ms / 1000),
    backendCall: (operation, outcome, ms) => backendCalls.observe({ operation, outcome }, ms / 1000),
    storeCall: (collection, operation, outcome, ms) =>
      storeCalls.observe({ collection, operation, outcome }, ms / 1000),
    forwarded: (kind, outcome, ms) => forwarded.observe({ kind, outcome }, ms / 1000),
  })
}

/** Registers the counters. They include the events already in the fleet's log, such as a crash while the host was down. */
export function countEvents(fleet: MeasuredFleet, metrics: MetricFactory): () => void {
  const ended = metrics.counter('gamekeeper_servers_ended_total')
  const crashes = metrics.counter('gamekeeper_crashes_total')
  const restarts = metrics.counter('gamekeeper_restarts_total')
  const failures = metrics.counter('gamekeeper_reconcile_failures_total')
  const terms = metrics.counter('gamekeeper_leader_terms_total')
  const deadLetters = metrics.counter('gamekeeper_webhook_dead_letters_total')
  const count = (event: FleetEvent) => {
    if (event.type === 'ServerEnding') {
      const { build, reason, crash } = event
      ended.inc({ ...labelsOf(build), reason })
      if (crash) crashes.inc({ ...labelsOf(build), reason })
      if (!intendedReasons.has(reason)) restarts.inc(labelsOf(build))
    } else if (event.type === 'ReconcileFailed') failures.inc(labelsOf(event.build))
    else if (event.type === 'LeadershipChanged' && event.leads) terms.inc({})
    else if (event.type === 'WebhookFailed') deadLetters.inc({})
  }
  for (const event of internalsOf(fleet)?.log ?? []) count(event)
  const counted = ['ServerEnding', 'ReconcileFailed', 'LeadershipChanged', 'WebhookFailed'] as const
  const stops = counted.map((type) => fleet.on(type, count))
  return () => {
    for (const stop of stops) stop()
  }
}

const states: readonly (readonly [keyof BuildCounts, ServerState])[] = [
  ['pending', 'Pending'],
  ['initializing', 'Initializing'],
  ['standingBy', 'StandingBy'],
  ['active', 'Active'],
  ['terminating', 'Terminating'],
]

/** Reasons to end a server intentionally, on request or by reconciling. These are not counted as restarts. */
const intendedReasons: ReadonlySet<EndingReason> = new Set([
  'ScaledDown',
  'Replaced',
  'Deleted',
  'SessionEnded',
  'BuildDeleted',
  'Drained',
])

function labelsOf({ namespace, name }: Ref): { readonly namespace: string; readonly build: string } {
  return { namespace, build: name }
}

const buildsPerSlice = 40

/** Handles the builds in slices, between which the event loop handles other work. */
async function inSlices<T>(builds: readonly T[], handle: (build: T) => void): Promise<void> {
  for (const [i, build] of builds.entries()) {
    if (i > 0 && i % buildsPerSlice === 0) await turns.take()
    handle(build)
  }
}

const cacheMs = 100

/** Gauges are read one after another. Caching lets them share one pass over a large fleet's servers. */
function cached<T>(clock: Clock, read: () => T): () => T {
  let last: { readonly at: number; readonly value: T } | undefined
  return () => {
    if (last === undefined || clock.elapsed() - last.at >= cacheMs) last = { at: clock.elapsed(), value: read() }
    return last.value
  }
}
