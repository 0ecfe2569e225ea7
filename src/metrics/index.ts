/** Prometheus metrics for a fleet. Requires the package prom-client. */
export type { MeasuredFleet } from './collectors.js'
export { definitions as metricDefinitions, type MetricDefinition, type MetricName } from './definitions.js'
export { fleetMetrics, type FleetMetrics, type FleetMetricsOptions } from './fleet-metrics.js'
export type { MetricsRegistry } from './prom-client.js'
