/** What those ask who watch over this host: whether it lives, whether calls can be sent to it, and its metrics. */
import type { Hono } from 'hono'
import type { Fleet } from '../../contracts/fleet.js'
import { corsOf } from '../access/cors.js'
import { type Answer, json, retryAfter } from '../core/exchange.js'
import { answerOf, managementStatuses } from '../core/error-responses.js'
import { guard, type GuardOptions } from '../access/guard.js'
import { closer, operation, type Part, routes } from '../core/routing.js'

/** `fleetMetrics(fleet)` of `gamekeeper/metrics`, or anything that makes such a text. */
export interface MetricsSource {
  readonly contentType: string
  text(): Promise<string>
}

export interface ObservationOptions extends GuardOptions {
  /** Served at `/metrics`. Default: nothing is. */
  readonly metrics?: MetricsSource
}

export type ObservedFleet = Pick<Fleet, 'health'>

/**
 * `/healthz` says that this process answers, `/readyz` whether calls can be sent here: anybody may ask these two.
 * `/metrics` is the operation `readMetrics`.
 */
export function observationRoutes(fleet: ObservedFleet, options: ObservationOptions = {}): Hono {
  return routes([observationPart(fleet, options)], { closing: closer(undefined), cors: corsOf({}) })
}

export function observationPart(fleet: ObservedFleet, options: ObservationOptions): Part {
  const { metrics } = options
  return {
    paths: {
      '/healthz': { GET: { probe: 'checkHealth', handle: () => Promise.resolve(json(200, { status: 'ok' })) } },
      '/readyz': { GET: { probe: 'checkReadiness', handle: async () => readiness(await fleet.health()) } },
      ...(metrics && { '/metrics': { GET: operation('readMetrics', () => textOf(metrics)) } }),
    },
    toAnswer: (error) => answerOf(error, managementStatuses),
    guard: guard(options),
  }
}

/** What is wrong in detail, the log and the fleet's owner know: here anybody may read. */
function readiness({ ready, leads, store, backend }: Awaited<ReturnType<Fleet['health']>>): Answer {
  const answer = json(ready ? 200 : 503, { ready, leads, store, backend })
  return ready ? answer : { ...answer, headers: retryAfter(1_000) }
}

async function textOf(metrics: MetricsSource): Promise<Answer> {
  return { status: 200, body: await metrics.text(), headers: { 'Content-Type': metrics.contentType } }
}
