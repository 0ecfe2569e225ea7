/** Metrics of a fleet for Prometheus. Needs the package prom-client. */
export { definitions as metricDefinitions, type MetricDefinition, type MetricName } from './definitions.js'
export { fleetMetrics, type FleetMetrics, type FleetMetricsOptions, type MeasuredFleet } from './fleet-metrics.js'
export type { MetricsRegistry } from './prom-client.js'
