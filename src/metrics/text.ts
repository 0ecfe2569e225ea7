/** The text of a registry, made in slices between which the event loop handles other work. */
import { turns } from '../platform/turns.js'
import type { MetricsRegistry, RegisteredMetric } from './prom-client.js'

const valuesPerSlice = 300

/** Resolves with what `registry.metrics()` returns. */
export async function textOf(registry: MetricsRegistry): Promise<string> {
  if (registry.contentType.startsWith('application/openmetrics-text')) return registry.metrics()
  const texts: string[] = []
  for (const metric of registry.getMetricsAsArray()) {
    await turns.take()
    texts.push(await metricText(registry, metric))
  }
  return `${texts.join('\n\n')}\n`
}

async function metricText(registry: MetricsRegistry, metric: RegisteredMetric): Promise<string> {
  if (!metric.get || metric.getForPromString || !registry.getMetricsAsString) {
    return registry.getSingleMetricAsString(metric.name)
  }
  const read = await metric.get()
  const texts: string[] = []
  for (let from = 0; from === 0 || from < read.values.length; from += valuesPerSlice) {
    await turns.take()
    const slice = { ...read, values: read.values.slice(from, from + valuesPerSlice) }
    const text = await registry.getMetricsAsString({ get: () => Promise.resolve(slice) })
    texts.push(from === 0 ? text : withoutHead(text))
  }
  return texts.join('\n')
}

/** Removes the lines HELP and TYPE. */
function withoutHead(text: string): string {
  return text.slice(text.indexOf('\n', text.indexOf('\n') + 1) + 1)
}
