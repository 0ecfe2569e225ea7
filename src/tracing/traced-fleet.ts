/** A fleet whose allocations, and whose servers' starts and endings, are traced. */
import { FleetError, messageOf } from '../contracts/errors.js'
import { checkFleet, checkOptions, withMethods } from '../contracts/option-checks.js'
import type { AllocateManyOptions, AllocateOptions, Fleet } from '../contracts/fleet.js'
import { internalsOf, withInternals } from '../fleet/internals.js'
import { isObject } from '../rules/validation/problem.js'
import { type Attributes, type HeaderReader, loadOpenTelemetry, type TracerProviderLike } from './open-telemetry.js'
import { ServerSpans } from './server-spans.js'
import { isError } from '../rules/model/values.js'

export interface TracedFleetOptions {
  /** Default: the provider that is registered globally, which may happen later. */
  readonly tracerProvider?: TracerProviderLike
}

/**
 * Returns a fleet that records OpenTelemetry spans and otherwise does what `fleet` does. Pass it to `serve` or to the routes, so
 * that an allocation over HTTP continues the trace that the request's headers name; without it nothing is traced and nothing is
 * spent. Spans: `gamekeeper.allocate` and `gamekeeper.allocate_many`, whose parent is the active span or else the request's; `gamekeeper.server.start`, from a
 * server's creation until it is ready; and `gamekeeper.server.end`, from the beginning of its end until it is gone. `close` ends
 * the spans that are open. Throws `internal` if @opentelemetry/api is not installed.
 */
export function tracedFleet(fleet: Fleet, options: TracedFleetOptions = {}): Fleet {
  checkFleet('tracedFleet', fleet, ['allocate', 'on', 'builds', 'servers'])
  checkOptions('tracedFleet', options, { tracerProvider: withMethods('a TracerProvider', ['getTracer']) })
  const api = loadOpenTelemetry()
  const tracer = (options.tracerProvider ?? api.trace).getTracer('gamekeeper')
  const stop = new ServerSpans(tracer, api).follow(fleet)
  const internals = internalsOf(fleet)
  const inSpan = async <T>(name: string, attributes: Attributes, call: () => Promise<T>): Promise<T> => {
    const span = tracer.startSpan(name, { attributes })
    try {
      return await api.context.with(api.trace.setSpan(api.context.active(), span), call)
    } catch (error) {
      if (FleetError.is(error)) span.setAttributes({ 'gamekeeper.error_code': error.code })
      span.recordException(isError(error) ? error : messageOf(error))
      span.setStatus({ code: api.SpanStatusCode.ERROR, message: messageOf(error) })
      throw error
    } finally {
      span.end()
    }
  }
  const headers = { get: (read: HeaderReader, name: string) => read(name.toLowerCase()), keys: () => [] }

  return Object.freeze<Fleet>({
    ...fleet,
    ...(internals &&
      withInternals({
        ...internals,
        inRequest(read, handle) {
          const active = api.context.active()
          const isTraced = api.trace.getSpan(active) !== undefined
          return api.context.with(isTraced ? active : api.propagation.extract(active, read, headers), handle)
        },
      })),

    allocate: (request, allocateOptions) =>
      inSpan('gamekeeper.allocate', attributesOf(request, allocateOptions), () =>
        fleet.allocate(request, allocateOptions),
      ),

    allocateMany: (requests, batchOptions) =>
      inSpan('gamekeeper.allocate_many', batchAttributesOf(requests, batchOptions), () =>
        fleet.allocateMany(requests, batchOptions),
      ),

    async close() {
      try {
        await fleet.close()
      } finally {
        stop()
      }
    },
  })
}

/** The request is not validated yet. Players and the cookie are left out: they may be personal. */
function attributesOf(request: unknown, { waitMs = 0, confirm = false }: AllocateOptions = {}): Attributes {
  const { buildID, sessionID } = isObject(request) ? request : {}
  return {
    ...(typeof buildID === 'string' && { 'gamekeeper.build_id': buildID }),
    ...(typeof sessionID === 'string' && { 'gamekeeper.session_id': sessionID }),
    ...(typeof waitMs === 'number' && { 'gamekeeper.wait_ms': waitMs }),
    ...(typeof confirm === 'boolean' && { 'gamekeeper.confirm': confirm }),
  }
}

/** The requests are not validated yet. */
function batchAttributesOf(requests: unknown, { waitMs = 0, atomic = false }: AllocateManyOptions = {}): Attributes {
  return {
    ...(Array.isArray(requests) && { 'gamekeeper.sessions': requests.length }),
    ...(typeof waitMs === 'number' && { 'gamekeeper.wait_ms': waitMs }),
    ...(typeof atomic === 'boolean' && { 'gamekeeper.atomic': atomic }),
  }
}
