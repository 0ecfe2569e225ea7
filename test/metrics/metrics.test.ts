/** Metrics of a real fleet, in a real registry. */
import { Registry } from 'prom-client'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { fleetMetrics, type FleetMetrics, metricDefinitions } from '../../src/metrics/index.js'
import { createFleet, FleetError, memoryStore } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { virtualClock } from '../../src/testing/index.js'
import { breakableBackend, breakableStore } from '../http/breakable.js'
import { build, buildID, sessionID } from '../http/fleet.js'

let clock: ReturnType<typeof virtualClock>
let backend: ReturnType<typeof memoryBackend>
let fleet: Fleet
let metrics: FleetMetrics
let broken: Set<'store' | 'backend'>

beforeEach(async () => {
  clock = virtualClock()
  broken = new Set()
  backend = memoryBackend({ clock })
  const ask = (of: 'store' | 'backend') => () =>
    broken.has(of) ? Promise.reject(new FleetError('unavailable', 'away')) : Promise.resolve()
  fleet = await createFleet({
    backend: breakableBackend(backend, ask('backend')),
    store: breakableStore(memoryStore(), ask('store')),
    clock,
  })
  metrics = fleetMetrics(fleet, { clock })
})
afterEach(() => fleet.close())

/** The value of a series as `name{a="b"}`, absent series as undefined. */
async function value(series: string): Promise<number | undefined> {
  // After the cache has expired.
  await clock.advance(3_000)
  const line = (await metrics.text()).split('\n').find((one) => one.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length + 1))
}

const arena = 'namespace="default",build="arena"'
const servers = (state: string) => value(`gamekeeper_servers{${arena},state="${state}"}`)
const allocate = (session = sessionID, options?: Parameters<Fleet['allocate']>[1]) =>
  fleet.allocate({ buildID, sessionID: session }, options)
const other = (n: number) => sessionID.replace(/.$/, String(n))

describe('gauges', () => {
  it('show the servers of each build by state, and the desired numbers', async () => {
    await fleet.builds.create(build({ standingBy: 2, max: 3 }))
    expect(await servers('StandingBy')).toBe(2)
    await allocate()
    expect(await servers('StandingBy')).toBe(2)
    expect(await servers('Active')).toBe(1)
    expect(await servers('Pending')).toBe(0)
    expect(await value(`gamekeeper_build_standing_by{${arena}}`)).toBe(2)
    expect(await value(`gamekeeper_build_max{${arena}}`)).toBe(3)
    expect(await value(`gamekeeper_build_healthy{${arena}}`)).toBe(1)
    await fleet.builds.delete('arena')
    expect(await servers('StandingBy')).toBeUndefined()
    expect(await value(`gamekeeper_build_max{${arena}}`)).toBeUndefined()
  })

  it('show whether a build is ready, and which conditions keep it from that, although it is Healthy', async () => {
    await fleet.builds.create(build({ standingBy: 3, max: 4 }))
    expect(await value(`gamekeeper_build_ready{${arena}}`)).toBe(1)
    expect(await value(`gamekeeper_build_condition{${arena},type="CreateBlocked"}`)).toBeUndefined()
    const { spec } = await fleet.builds.get('arena')
    broken.add('backend')
    await fleet.builds.update('arena', {
      ...spec,
      template: { spec: { containers: [{ name: 'game', image: 'next' }] } },
    })
    expect(await value(`gamekeeper_build_ready{${arena}}`)).toBe(0)
    expect(await value(`gamekeeper_build_condition{${arena},type="CreateBlocked"}`)).toBe(1)
    expect(await value(`gamekeeper_build_healthy{${arena}}`)).toBe(1)
    expect(await servers('StandingBy')).toBe(3)
    expect(await value(`gamekeeper_template_servers{${arena},template="earlier"}`)).toBe(3)
    broken.clear()
    await clock.advance(120_000)
    expect(await value(`gamekeeper_build_ready{${arena}}`)).toBe(1)
    expect(await value(`gamekeeper_template_servers{${arena},template="current"}`)).toBe(3)
    expect(await value(`gamekeeper_template_servers{${arena},template="earlier"}`)).toBe(0)
  })

  it('show players and waiting callers', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await clock.advance(3_000)
    await allocate()
    for (const server of backend.servers()) server.players(['amie', 'bob'])
    expect(await value(`gamekeeper_players{${arena}}`)).toBe(2)
    const gone = new AbortController()
    const waiting = [8, 9].map((n) => allocate(other(n), { waitMs: 60_000, signal: gone.signal }))
    const ended = Promise.allSettled(waiting)
    expect(await value(`gamekeeper_waiting_callers{${arena}}`)).toBe(2)
    gone.abort()
    await ended
    expect(await value(`gamekeeper_waiting_callers{${arena}}`)).toBe(0)
  })

  it('show whether this host leads, and whether the store and the backend respond', async () => {
    const three = async () => [
      await value('gamekeeper_leader'),
      await value('gamekeeper_store_up'),
      await value('gamekeeper_backend_up'),
    ]
    expect(await three()).toEqual([1, 1, 1])
    expect(await value('gamekeeper_can_lead')).toBe(1)
    broken.add('store')
    expect(await three()).toEqual([1, 0, 1])
    broken.add('backend')
    expect(await three()).toEqual([1, 0, 0])
    broken.clear()
    expect(await three()).toEqual([1, 1, 1])
  })
})

describe('histograms', () => {
  it('show the outcome and duration of allocations, including waiting', async () => {
    const count = (outcome: string) => value(`gamekeeper_allocation_duration_seconds_count{outcome="${outcome}"}`)
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await clock.advance(3_000)
    await allocate()
    await allocate()
    await expect(allocate(other(8))).rejects.toThrow(/in use/)
    await expect(allocate('')).rejects.toThrow(/sessionID/)
    const waited = expect(allocate(other(9), { waitMs: 2_000 })).rejects.toThrow(/in use/)
    await clock.advance(2_000)
    await waited
    expect(await count('ok')).toBe(2)
    expect(await count('max-reached')).toBe(2)
    expect(await count('invalid')).toBe(1)
    expect(await value('gamekeeper_allocation_duration_seconds_sum{outcome="max-reached"}')).toBeCloseTo(2, 1)
  })

  it('show backend calls, store calls, and reconciles', async () => {
    const call = (name: string, labels: string) => value(`gamekeeper_${name}_call_duration_seconds_count{${labels}}`)
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await clock.advance(3_000)
    expect(await call('backend', 'operation="create",outcome="ok"')).toBe(1)
    expect(await call('store', 'collection="builds",operation="create",outcome="ok"')).toBe(1)
    expect(await value('gamekeeper_reconcile_duration_seconds_count')).toBeGreaterThan(0)
    broken.add('backend')
    await fleet.builds.patch('arena', { standingBy: 2, max: 2 })
    expect(await call('backend', 'operation="create",outcome="failed"')).toBeGreaterThan(0)
    expect(await value(`gamekeeper_reconcile_failures_total{${arena}}`)).toBeGreaterThan(0)
  })
})

describe('counters', () => {
  it('distinguish crashes, restarts, and intentional terminations', async () => {
    await fleet.builds.create(build({ standingBy: 2, max: 2 }))
    await clock.advance(3_000)
    backend.servers()[0]?.exit(1)
    await clock.advance(5_000)
    await allocate()
    const active = (await fleet.servers.list()).find(({ status }) => status.state === 'Active')
    backend
      .servers()
      .find(({ instance }) => instance.ref.name === active?.metadata.name)
      ?.exit(0)
    await clock.advance(5_000)
    await fleet.builds.patch('arena', { standingBy: 0 })
    expect(await value(`gamekeeper_crashes_total{${arena},reason="NonZeroExit"}`)).toBe(1)
    expect(await value(`gamekeeper_servers_ended_total{${arena},reason="Exited"}`)).toBe(1)
    expect(await value(`gamekeeper_servers_ended_total{${arena},reason="ScaledDown"}`)).toBe(2)
    expect(await value(`gamekeeper_crashes_total{${arena},reason="Exited"}`)).toBeUndefined()
    expect(await value(`gamekeeper_restarts_total{${arena}}`)).toBe(2)
  })

  it('include earlier events if they are still in the log', async () => {
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await clock.advance(3_000)
    backend.servers()[0]?.exit(1)
    await clock.advance(5_000)
    metrics.close()
    metrics = fleetMetrics(fleet, { clock })
    expect(await value(`gamekeeper_crashes_total{${arena},reason="NonZeroExit"}`)).toBe(1)
    expect(await value(`gamekeeper_restarts_total{${arena}}`)).toBe(1)
    expect(await value('gamekeeper_leader_terms_total')).toBe(1)
  })

  it('count heartbeats', async () => {
    const before = (await value('gamekeeper_heartbeats_total')) ?? 0
    for (let i = 0; i < 3; i++) fleet.heartbeat('nobody', { state: 'StandingBy', health: 'Healthy', players: [] })
    expect(((await value('gamekeeper_heartbeats_total')) ?? 0) - before).toBe(3)
  })
})

describe('the registry', () => {
  it('may belong to the host app, and contains no fleet metrics after close', async () => {
    const registry = new Registry()
    registry.setDefaultLabels({ app: 'game' })
    const own = fleetMetrics(fleet, { registry, clock })
    expect(await own.text()).toContain('gamekeeper_leader{app="game"} 1')
    expect(own.contentType).toBe(registry.contentType)
    own.close()
    expect(registry.getMetricsAsArray()).toEqual([])
    fleetMetrics(fleet, { registry, clock }).close()
  })

  it('contains every documented metric, named by Prometheus conventions', async () => {
    const names = (await metrics.text()).matchAll(/^# TYPE (\S+) (\S+)$/gm)
    const types = Object.fromEntries(Object.entries(metricDefinitions).map(([name, { type }]) => [name, type]))
    expect(Object.fromEntries([...names].map(([, name, type]) => [name, type]))).toEqual(types)
    for (const [name, { type, labels }] of Object.entries(metricDefinitions)) {
      expect(name).toMatch(/^gamekeeper_[a-z]+(_[a-z]+)*$/)
      expect(name.endsWith('_total')).toBe(type === 'counter')
      if (type === 'histogram') expect(name).toMatch(/_seconds$/)
      for (const label of labels) expect(label).toMatch(/^[a-z]+$/)
    }
  })

  it('rejects a second fleet', () => {
    expect(() => fleetMetrics(fleet, { registry: metrics.registry, clock })).toThrow(
      expect.objectContaining({ code: 'invalid', message: expect.stringContaining('one fleet') }),
    )
  })

  it('receives no values after close', async () => {
    metrics.close()
    await fleet.builds.create(build())
    await clock.advance(3_000)
    expect((await metrics.text()).trim()).toBe('')
  })
})

describe('an observer that throws', () => {
  it('affects nothing else, and is not called after it is removed', async () => {
    const heard: string[] = []
    const stop = fleet.observe({
      allocated(outcome) {
        heard.push(outcome)
        throw new Error('of the host')
      },
    })
    await fleet.builds.create(build())
    await clock.advance(3_000)
    await allocate()
    stop()
    await allocate()
    expect(heard).toEqual(['ok'])
  })
})
