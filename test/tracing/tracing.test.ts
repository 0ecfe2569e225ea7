/** Spans that the real OpenTelemetry SDK records. */
import { context, propagation, trace } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node'
import { createFleet, type Fleet } from 'gamekeeper'
import { serve } from 'gamekeeper/http'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import { type VirtualClock, virtualClock } from 'gamekeeper/testing'
import { tracedFleet } from 'gamekeeper/tracing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

const sessionID = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11'
const request = { buildID: 'arena-1', sessionID, initialPlayers: ['amie'], sessionCookie: 'private' }

let exporter: InMemorySpanExporter
let provider: NodeTracerProvider
let clock: VirtualClock
let backend: MemoryBackend
let fleet: Fleet

beforeEach(async () => {
  exporter = new InMemorySpanExporter()
  provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  provider.register()
  clock = virtualClock()
  backend = memoryBackend({ clock, readyAfterMs: 3_000 })
  fleet = tracedFleet(await createFleet({ backend, clock }))
  await fleet.builds.create({
    metadata: { name: 'arena' },
    spec: {
      buildID: 'arena-1',
      standingBy: 1,
      max: 1,
      portsToExpose: [7777],
      template: { spec: { containers: [{}] } },
    },
  })
  await clock.until(async () => (await fleet.builds.get('arena')).status.currentStandingBy === 1)
})

afterEach(async () => {
  await fleet.close()
  await provider.shutdown()
  trace.disable()
  context.disable()
  propagation.disable()
})

const named = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === `gamekeeper.${name}`)
const durationMs = ({ duration: [seconds, nanos] }: ReadableSpan) => seconds * 1_000 + nanos / 1e6

describe('a traced fleet', () => {
  it('records an allocation below the active span, without players and cookie', async () => {
    const parent = provider.getTracer('app').startSpan('match')
    await context.with(trace.setSpan(context.active(), parent), () => fleet.allocate(request))
    const [span, ...others] = named('allocate')
    expect(others).toEqual([])
    expect(span?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
    expect(span?.attributes).toEqual({
      'gamekeeper.build_id': 'arena-1',
      'gamekeeper.session_id': sessionID,
      'gamekeeper.wait_ms': 0,
      'gamekeeper.confirm': false,
    })
    expect(span?.status.code).toBe(0)
  })

  it('records why an allocation failed, and rejects with the same error', async () => {
    await expect(fleet.allocate({ ...request, buildID: 'none' })).rejects.toMatchObject({ code: 'not-found' })
    const [span] = named('allocate')
    expect(span?.status).toMatchObject({ code: 2, message: expect.stringContaining('none') })
    expect(span?.attributes['gamekeeper.error_code']).toBe('not-found')
    expect(span?.events.map(({ name }) => name)).toEqual(['exception'])
  })

  it('records the start and the end of a server with the times of the fleet', async () => {
    const [start] = named('server.start')
    const server = backend.servers()[0]
    expect(start?.attributes).toEqual({
      'gamekeeper.namespace': 'default',
      'gamekeeper.build': 'arena',
      'gamekeeper.server': server?.ref.name,
    })
    expect(start && durationMs(start)).toBeGreaterThanOrEqual(3_000)
    expect(start?.parentSpanContext).toBeUndefined()

    server?.exit(1)
    await clock.until(async () => named('server.end').length === 1)
    const [end] = named('server.end')
    expect(end?.attributes).toMatchObject({ 'gamekeeper.server': server?.ref.name, 'gamekeeper.crash': true })
    expect(end?.status.code).toBe(2)
  })

  it('ends the spans of servers that have not become ready when it closes', async () => {
    backend.servers()[0]?.exit(0)
    await clock.until(async () => (await fleet.builds.get('arena')).status.currentInitializing === 1)
    await fleet.close()
    expect(named('server.start').map(({ attributes }) => attributes['gamekeeper.left_open'])).toEqual([undefined, true])
  })

  it('continues the trace of an HTTP request', async () => {
    const served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
    const call = (more: object) =>
      fetch(`${served.allocationUrl}/api/v1/allocate`, { method: 'POST', body: JSON.stringify(request), ...more })
    expect((await call({ headers })).status).toBe(200)
    expect((await call({})).status).toBe(200)
    await served.close()
    const [first, second] = named('allocate')
    expect(first?.spanContext().traceId).toBe(traceId)
    expect(first?.parentSpanContext?.spanId).toBe('00f067aa0ba902b7')
    expect(second?.parentSpanContext).toBeUndefined()
  })

  it('uses the provider that it is given', async () => {
    const own = new InMemorySpanExporter()
    const tracerProvider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(own)] })
    const other = tracedFleet(await createFleet({ backend: memoryBackend() }), { tracerProvider })
    await expect(other.allocate(request)).rejects.toThrow('arena-1')
    await vi.waitFor(
      () => expect(own.getFinishedSpans().map(({ name }) => name)).toEqual(['gamekeeper.allocate']),
      60_000,
    )
    expect(named('allocate')).toEqual([])
    await other.close()
  })
})
