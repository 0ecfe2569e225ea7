/** Liveness, readiness and metrics of this host. */
import type { Fleet, FleetHealth } from '../../contracts/fleet.js'
import { checkFleet, checkOptions, withMethods } from '../../contracts/option-checks.js'
import { internalsOf } from '../../fleet/internals.js'
import { errorCodeHeader } from '../../rules/model/wire.js'
import { guard, type GuardOptions, guardOptionTypes } from '../access/guard.js'
import { errorResponse, type HttpResponse, json, managementStatuses, retryAfter } from '../core/responses.js'
import { createRoutes, type PrefixOption, prefixType, type RouteGroup, type Routes } from '../route-binding.js'

/** `fleetMetrics(fleet)` from `gamekeeper/metrics`, or any other source of Prometheus metrics. */
export interface MetricsSource {
  readonly contentType: string
  text(): Promise<string>
}

export interface ObservationOptions extends GuardOptions, PrefixOption {
  /** Served at `/metrics`. Default: `/metrics` returns 404. */
  readonly metrics?: MetricsSource
}

export const metricsType = withMethods('a source of metrics, such as fleetMetrics(fleet)', ['text'])

export type ObservedFleet = Pick<Fleet, 'health'>

/**
 * `/healthz` returns 200 while this process responds and could lead, and `/readyz` returns 200 while this host can serve calls. Neither
 * needs authorization. `/metrics` is authorized as the operation `readMetrics`.
 */
export function observationRoutes(fleet: ObservedFleet, options: ObservationOptions = {}): Routes {
  checkFleet('observationRoutes', fleet, ['health'])
  checkOptions('observationRoutes', options, { ...guardOptionTypes, metrics: metricsType, prefix: prefixType })
  return createRoutes(() => [observationGroup(fleet, options)], { prefix: options.prefix })
}

export function observationGroup(fleet: ObservedFleet, options: ObservationOptions): RouteGroup {
  const { metrics } = options
  const internals = internalsOf(fleet)
  return {
    handlers: {
      // Without probes of the store and the backend: it answers at once, also while these are away.
      checkHealth: async () => ability(internals?.cannotLeadReason?.()),
      checkReadiness: async () => readiness(await fleet.health()),
      readMetrics: metrics && (() => textOf(metrics)),
    },
    errorResponse: (error) => errorResponse(error, managementStatuses),
    guard: guard(options),
  }
}

/** Shows why this host cannot lead. Its operator has to know, and it is about this host's own credentials and lease. */
function ability(cause: string | undefined): HttpResponse {
  if (cause === undefined) return json(200, { status: 'ok' })
  const response = json(503, { status: 'cannot-lead', cause })
  return { ...response, headers: { [errorCodeHeader]: 'unavailable', ...retryAfter(1_000) } }
}

/** Omits `problems`: this endpoint is public, and their messages may expose internal details. */
function readiness({ ready, leads, store, backend }: FleetHealth): HttpResponse {
  const response = json(ready ? 200 : 503, { ready, leads, store, backend })
  return ready ? response : { ...response, headers: { [errorCodeHeader]: 'unavailable', ...retryAfter(1_000) } }
}

async function textOf(metrics: MetricsSource): Promise<HttpResponse> {
  return { status: 200, body: await metrics.text(), headers: { 'Content-Type': metrics.contentType } }
}
