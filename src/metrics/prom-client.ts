/** Types for the part of prom-client that is used, and the function that loads it. */
import { loadOptionalPackage, unusablePackage } from '../platform/packages.js'

/** Structural type for prom-client's `Registry`. */
export interface MetricsRegistry {
  readonly contentType: string
  metrics(): Promise<string>
  getMetricsAsArray(): readonly RegisteredMetric[]
  getSingleMetricAsString(name: string): Promise<string>
  /** Not in prom-client's types. */
  getMetricsAsString?(metric: Pick<Required<RegisteredMetric>, 'get'>): Promise<string>
  registerMetric(metric: unknown): void
  getSingleMetric(name: string): unknown
  removeSingleMetric(name: string): void
}

export interface RegisteredMetric {
  readonly name: string
  get?(): Promise<{ readonly values: readonly unknown[] }>
  /** Histograms have it in addition to `get`. */
  getForPromString?(): unknown
}

type Labels = Readonly<Record<string, string>>

export interface Gauge {
  reset(): void
  set(labels: Labels, value: number): void
}

export interface Counter {
  reset(): void
  inc(labels: Labels, value?: number): void
}

export interface Histogram {
  observe(labels: Labels, value: number): void
}

interface MetricOptions {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly string[]
  readonly registers: readonly MetricsRegistry[]
  readonly buckets?: readonly number[]
  /** Called at each scrape, before the metric is read. */
  readonly collect?: () => void | Promise<void>
}

export interface PromClient {
  readonly Registry: new () => MetricsRegistry
  readonly Gauge: new (options: MetricOptions) => Gauge
  readonly Counter: new (options: MetricOptions) => Counter
  readonly Histogram: new (options: MetricOptions) => Histogram
}

/** Throws `internal` if the package is missing or unusable. */
export function loadPromClient(): PromClient {
  const loaded = loadOptionalPackage('prom-client', 'fleetMetrics')
  if (isPromClient(loaded)) return loaded
  throw unusablePackage('prom-client', 'fleetMetrics')
}

function isPromClient(value: unknown): value is PromClient {
  const names = ['Registry', 'Gauge', 'Counter', 'Histogram']
  return (
    typeof value === 'object' && value !== null && names.every((name) => typeof Reflect.get(value, name) === 'function')
  )
}
