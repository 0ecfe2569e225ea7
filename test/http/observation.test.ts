/** `/healthz`, `/readyz` and `/metrics` over real sockets. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import {
  bearerTokens,
  managementRoutes,
  observationRoutes,
  type openApiDocument,
  serve,
  type Served,
} from '../../src/http/index.js'
import { createFleet, type ElectionListener, type Elector, memoryStore, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { EventLog } from '../../src/fleet/event-emitter.js'
import { withInternals } from '../../src/fleet/internals.js'
import { fleetMetrics } from '../../src/metrics/index.js'
import { breakableBackend, breakableStore } from './breakable.js'
import { call, listening, until } from './client.js'
import { build, standingBy } from './fleet.js'

let fleet: Fleet
let served: Served
/** What is unavailable, and how. */
let broken: Map<'store' | 'backend', 'fails' | 'hangs'>
let election: ElectionListener

beforeEach(async () => {
  broken = new Map()
  const ask = (of: 'store' | 'backend') => (): Promise<void> => {
    const how = broken.get(of)
    if (how === 'hangs') return new Promise(() => {})
    return how === 'fails' ? Promise.reject(new Error('secret')) : Promise.resolve()
  }
  const backend = breakableBackend(memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }), ask('backend'))
  const store = breakableStore(memoryStore(), ask('store'))
  const elector: Elector = {
    run(listener) {
      election = listener
      listener.elected()
      return () => Promise.resolve()
    },
  }
  fleet = await createFleet({ backend, store, elector })
  served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, metrics: fleetMetrics(fleet) })
})
afterEach(async () => {
  broken.clear()
  await served.close()
  await fleet.close()
})

const ask = (path: string) => call('GET', served.managementUrl + path)
const ready = async () => {
  const { status, text } = await ask('/readyz')
  return { status, ...(JSON.parse(text) as object) }
}
const well = { status: 200, ready: true, leads: true, store: true, backend: true }

describe('/healthz and /readyz', () => {
  it('return 200 while the store and the backend respond', async () => {
    expect(await ask('/healthz')).toMatchObject({ status: 200, text: '{"status":"ok"}' })
    expect(await ready()).toEqual(well)
  })

  it('are public in the OpenAPI document, with their own 503 response', async () => {
    const { paths } = JSON.parse((await ask('/openapi.json')).text) as ReturnType<typeof openApiDocument>
    for (const path of ['/healthz', '/readyz']) {
      expect(paths[path]).toMatchObject({ get: { security: [], responses: { 200: {}, 503: {} } } })
      expect(Object.keys(Object(paths[path]?.['get']).responses)).toEqual(['200', '500', '503'])
    }
    expect(paths).toHaveProperty(['/metrics'])
  })

  it.each([
    ['store', 'fails'],
    ['store', 'hangs'],
    ['backend', 'fails'],
    ['backend', 'hangs'],
  ] as const)('answer 503 from /readyz only while the %s %s', async (part, how) => {
    broken.set(part, how)
    await until(async () => (await ready()).status === 503)
    expect(await ready()).toEqual({ ...well, status: 503, ready: false, [part]: false })
    const refused = await ask('/readyz')
    expect(refused.headers['retry-after']).toBe('1')
    expect(refused.text).not.toContain('secret')
    expect((await fleet.health()).problems).toEqual([expect.stringMatching(/is unavailable: /)])
    expect((await ask('/healthz')).status).toBe(200)
    broken.clear()
    await until(async () => (await ready()).status === 200)
  })

  it('make /readyz return 503 while another host leads', async () => {
    election.lost('other-host')
    expect(await ready()).toEqual({ ...well, status: 503, ready: false, leads: false })
    expect((await fleet.health()).problems).toEqual(['this host does not lead the fleet; other-host does'])
    election.elected()
    await until(async () => (await ready()).status === 200)
  })

  it('answer 503 from /healthz with the cause while this host cannot lead', async () => {
    const cause = 'the credentials are not valid'
    const health = () => Promise.reject(new Error('a liveness probe must not wait for the store and the backend'))
    const internals = withInternals({
      emit: () => 0,
      log: new EventLog(1),
      maxWaitMs: 0,
      cannotLeadReason: () => cause,
    })
    const { fetch } = observationRoutes({ health, ...internals })
    const answer = await fetch(new Request('http://localhost/healthz'))
    expect(answer.status).toBe(503)
    expect(await answer.json()).toEqual({ status: 'cannot-lead', cause })
  })

  it('make /readyz return 503 while the fleet is being drained and after it closes', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await fleet.drain()
    expect(await ready()).toEqual({ ...well, status: 503, ready: false })
    await fleet.close()
    expect(await ready()).toMatchObject({ status: 503, ready: false, leads: false })
  })

  it('do not tell the isolation of games, which /api/v1/health does', async () => {
    const isolation = { mode: 'user', memory: 'per server', pids: 'at most 40 per server' }
    const backend = { ...breakableBackend(memoryBackend({ clock: systemClock }), () => Promise.resolve()), isolation }
    const isolated = await createFleet({ backend })
    const host = await serve({ fleet: isolated, allocation: { port: 0 }, management: { port: 0 } })
    onTestFinished(async () => {
      await host.close()
      await isolated.close()
    })
    const health = await call('GET', `${host.managementUrl}/api/v1/health`)
    expect(JSON.parse(health.text)).toEqual({
      ready: true,
      leads: true,
      canLead: true,
      store: true,
      backend: true,
      problems: [],
      isolation,
    })
    expect((await call('GET', `${host.managementUrl}/readyz`)).text).not.toContain('isolation')
  })

  it('query the store and the backend only once for concurrent calls', async () => {
    let lists = 0
    const backend = breakableBackend(memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }), () => {
      lists++
      return Promise.resolve()
    })
    const counting = await createFleet({ backend })
    const before = lists
    await Promise.all(Array.from({ length: 50 }, () => counting.health()))
    expect(lists - before).toBe(1)
    await counting.close()
  })
})

describe('/metrics', () => {
  it('serves Prometheus text with its content type', async () => {
    const reply = await ask('/metrics')
    expect(reply).toMatchObject({
      status: 200,
      headers: { 'content-type': expect.stringMatching(/^text\/plain; version=/) },
    })
    expect(reply.text).toContain('\ngamekeeper_leader 1\n')
  })

  it('requires the role read, unlike the probes', async () => {
    const token = 'x'.repeat(16)
    const authorize = bearerTokens([{ token, roles: ['read'] }])
    const routes = observationRoutes(fleet, {
      authorize,
      metrics: { contentType: 'text/plain', text: () => Promise.resolve('a 1\n') },
    })
    const host = await listening(routes.nodeHandler)
    const paths = ['/metrics', '/healthz', '/readyz']
    const statuses = async (headers: Record<string, string>) => {
      const replies = await Promise.all(paths.map((path) => call('GET', host.url + path, { headers })))
      return replies.map(({ status }) => status)
    }
    expect(await statuses({})).toEqual([401, 200, 200])
    expect(await statuses({ Authorization: `Bearer ${token}` })).toEqual([200, 200, 200])
    await host.close()
  })

  it('returns 404 without a metrics source, and in mounted routes', async () => {
    const none = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 } })
    expect((await call('GET', `${none.managementUrl}/metrics`)).status).toBe(404)
    await none.close()
    const host = await listening(managementRoutes(fleet).nodeHandler)
    for (const path of ['/metrics', '/healthz', '/readyz'])
      expect((await call('GET', host.url + path)).status).toBe(404)
    await host.close()
  })
})
