/** The part of prom-client that is used, and how it is loaded. */
import { createRequire } from 'node:module'
import { FleetError, messageOf } from '../contracts/errors.js'

/** prom-client's `Registry`, structurally. */
export interface MetricsRegistry {
  readonly contentType: string
  metrics(): Promise<string>
  registerMetric(metric: unknown): void
  getSingleMetric(name: string): unknown
  removeSingleMetric(name: string): void
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

const install = 'npm install prom-client'

/** Throws `internal` when the package is missing or unusable. */
export function loadPromClient(): PromClient {
  // Each module format resolves packages in its own way.
  const here = typeof __filename === 'string' ? __filename : import.meta.url
  let loaded: unknown
  try {
    loaded = createRequire(here)('prom-client')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND'
    const why = isMissing ? 'is not installed' : `cannot be loaded (${messageOf(error)})`
    throw new FleetError('internal', `fleetMetrics needs the package prom-client, which ${why}: ${install}`, {
      cause: error,
    })
  }
  if (isPromClient(loaded)) return loaded
  throw new FleetError('internal', `fleetMetrics cannot use the installed version of prom-client: ${install}@15`)
}

function isPromClient(value: unknown): value is PromClient {
  const names = ['Registry', 'Gauge', 'Counter', 'Histogram']
  return (
    typeof value === 'object' && value !== null && names.every((name) => typeof Reflect.get(value, name) === 'function')
  )
}
