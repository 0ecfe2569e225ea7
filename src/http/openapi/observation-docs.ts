/** What the OpenAPI document says about events, metrics and probes. */
import type { OperationDoc } from './operation-docs.js'
import { health, readiness, unhealthy, unready } from './schemas.js'

type Observation = 'readEvents' | 'readMetrics' | 'checkHealth' | 'checkReadiness'

export const observationDocs: Readonly<Record<Observation, OperationDoc>> = {
  readEvents: {
    ...{ method: 'get', path: '/api/v1/events', tag: 'observation' },
    summary: 'Streams the events of the fleet as server-sent events.',
    query: [
      {
        name: 'from',
        description: 'Number of the first event to send. Default: the next one.',
        schema: { type: 'integer', minimum: 0, maximum: 999_999_999_999_999 },
      },
      {
        name: 'players',
        description: 'Whether `PlayersChanged` is sent, too: only the latest for each server, without an `id`.',
        schema: { type: 'boolean', default: false },
      },
    ],
    headers: [
      {
        name: 'Last-Event-ID',
        description: 'The `id` of the last event received: the stream continues after it.',
        schema: { type: 'string', pattern: '^(([A-Za-z0-9_-]{1,64}-)?[0-9]{1,15})?$' },
      },
    ],
    status: 200,
    answer: {
      mediaType: 'text/event-stream',
      description: 'Each `data:` is a FleetEvent as JSON; each `id:` is a value for Last-Event-ID.',
    },
    errors: [400],
  },
  readMetrics: {
    ...{ method: 'get', path: '/metrics', tag: 'observation' },
    summary: 'Returns the metrics of this host in the Prometheus text format.',
    status: 200,
    answer: { mediaType: 'text/plain', description: 'Metrics.' },
    errors: [],
  },
  checkHealth: {
    method: 'get',
    path: '/healthz',
    tag: 'observation',
    summary: 'Liveness: whether this process responds, and could lead.',
    status: 200,
    answer: health,
    errors: [],
    unavailable: unhealthy,
  },
  checkReadiness: {
    method: 'get',
    path: '/readyz',
    tag: 'observation',
    summary: 'Readiness: whether this host accepts calls.',
    status: 200,
    answer: readiness,
    errors: [],
    unavailable: unready,
  },
}
