/** Prometheus metrics for a fleet, in the host app's registry or a separate one. */
import { type Clock, systemClock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'
import { aClock, anObject, checkFleet, checkOptions } from '../contracts/option-checks.js'
import { countEvents, type MeasuredFleet, readState, timeCalls } from './collectors.js'
import { definitions } from './definitions.js'
import { MetricFactory } from './metric-factory.js'
import { loadPromClient, type MetricsRegistry } from './prom-client.js'
import { textOf } from './text.js'

export interface FleetMetricsOptions {
  /** Default: a new registry. Pass prom-client's `register` to use the host app's. */
  readonly registry?: MetricsRegistry
  /** Default: the system clock. */
  readonly clock?: Clock
}

export interface FleetMetrics {
  readonly registry: MetricsRegistry
  /** Content type for the result of `text`. */
  readonly contentType: string
  /** Returns all metrics in the registry, in the Prometheus text format. */
  text(): Promise<string>
  /** Stops observing the fleet and removes its metrics from the registry. */
  close(): void
}

/**
 * Counters start at the beginning of the fleet's event log; durations are measured from now on. Throws `internal` if
 * prom-client is not installed, and `invalid` if the registry already contains a fleet's metrics.
 */
export function fleetMetrics(fleet: MeasuredFleet, options: FleetMetricsOptions = {}): FleetMetrics {
  checkFleet('fleetMetrics', fleet, ['observe', 'on', 'stats', 'health', 'problems'])
  checkOptions('fleetMetrics', options, { registry: anObject, clock: aClock })
  const client = loadPromClient()
  const registry = options.registry ?? new client.Registry()
  if (registry.getSingleMetric('gamekeeper_servers') !== undefined) {
    throw new FleetError('invalid', 'fleetMetrics: a registry holds one fleet; give each fleet its own registry')
  }
  const metrics = new MetricFactory(client, registry)
  readState(fleet, metrics, options.clock ?? systemClock)
  const stopTiming = timeCalls(fleet, metrics)
  const stopCounting = countEvents(fleet, metrics)
  let text: Promise<string> | undefined
  return {
    registry,
    contentType: registry.contentType,
    // Concurrent scrapes share one text.
    text: () => (text ??= textOf(registry).finally(() => (text = undefined))),
    close() {
      stopTiming()
      stopCounting()
      for (const name of Object.keys(definitions)) registry.removeSingleMetric(name)
    },
  }
}
