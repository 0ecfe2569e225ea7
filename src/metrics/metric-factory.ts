/** Creates the metrics in `definitions` in one registry. Knows prom-client but not the fleet. */
import { type MetricDefinition, definitions, type MetricName } from './definitions.js'
import type { Counter, Gauge, Histogram, MetricsRegistry, PromClient } from './prom-client.js'

export class MetricFactory {
  readonly #client: PromClient
  readonly #registry: MetricsRegistry

  constructor(client: PromClient, registry: MetricsRegistry) {
    this.#client = client
    this.#registry = registry
  }

  /**
   * A gauge whose values `read` sets at each scrape. Earlier values are removed, so that those of a deleted build disappear.
   * A scrape that begins while another one reads waits for its values, which would be incomplete otherwise.
   */
  gauge(name: MetricName, read: (set: Gauge['set']) => void | Promise<void>): void {
    let reading: Promise<void> | undefined
    const refresh = async () => {
      gauge.reset()
      await read((labels, value) => gauge.set(labels, value))
    }
    const gauge: Gauge = new this.#client.Gauge(
      this.#settings(name, () => (reading ??= refresh().finally(() => (reading = undefined)))),
    )
  }

  /** A counter whose total is kept elsewhere and read at each scrape. */
  readCounter(name: MetricName, read: () => number): void {
    const counter: Counter = new this.#client.Counter(
      this.#settings(name, () => {
        counter.reset()
        counter.inc({}, read())
      }),
    )
  }

  counter(name: MetricName): Counter {
    return new this.#client.Counter(this.#settings(name))
  }

  histogram(name: MetricName): Histogram {
    return new this.#client.Histogram(this.#settings(name))
  }

  #settings(name: MetricName, collect?: () => void | Promise<void>) {
    const { help, labels, buckets }: MetricDefinition = definitions[name]
    return {
      name,
      help,
      labelNames: labels,
      registers: [this.#registry],
      ...(buckets && { buckets }),
      ...(collect && { collect }),
    }
  }
}
