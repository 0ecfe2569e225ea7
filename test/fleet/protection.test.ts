/** Protection of instances that may have players, and reports of instances that do not start. */
import { type Backend, createFleet, type Fleet, type FleetEvent, FleetError, type Store } from 'gamekeeper'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import { virtualClock, type VirtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { BackendListener, Instance } from '../../src/contracts/backend.js'
import { memoryStore } from '../../src/stores/memory.js'
import { aBuild, ask, only, statusOf } from './stage.js'

interface Scene {
  readonly clock: VirtualClock
  readonly fleet: Fleet
  readonly store: Store
  readonly events: readonly FleetEvent[]
  readonly memory: MemoryBackend
}

async function scene(more: (inner: Backend) => Partial<Backend>, clock = virtualClock(), store = memoryStore()) {
  const inner = memoryBackend({ clock })
  const { create, destroy, list, watch, close } = inner
  const calls = { create, destroy, list, watch, close }
  const bound = Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, call.bind(inner)]))
  const { name, capabilities, defaultStore } = inner
  const backend = { ...calls, ...bound, name, capabilities, defaultStore, ...more(inner) }
  const fleet = await createFleet({ backend, store, clock })
  onTestFinished(() => fleet.close())
  const events: FleetEvent[] = []
  fleet.on('*', (event) => events.push(event))
  return { clock, fleet, store, events, memory: inner } satisfies Scene
}

describe('protect', () => {
  it('is called once a server may have players, and for no other server', async () => {
    const told: string[] = []
    const { clock, fleet } = await scene(() => ({ protect: async ({ name }) => void told.push(name) }))
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await clock.advance(10_000)
    expect(told).toEqual([])
    await fleet.allocate(ask(1))
    await clock.advance(10_000)
    const active = (await fleet.servers.list()).filter(({ status }) => status.state === 'Active')
    expect(told).toEqual([only(active).metadata.name])
  })

  it('is taken back when a game has ended its session, unless the build never allows evictions', async () => {
    const told: string[] = []
    const tell = {
      protect: async ({ name }: { name: string }) => void told.push(`protect ${name}`),
      unprotect: async ({ name }: { name: string }) => void told.push(`unprotect ${name}`),
    }
    const { clock, fleet, memory } = await scene(() => tell)
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(10_000)
    const play = async (n: number) => {
      await fleet.allocate(ask(n))
      await clock.advance(5_000)
      only(memory.servers()).readyForNext()
      await clock.advance(5_000)
    }
    await play(1)
    const { name } = only(memory.servers()).ref
    expect(told.splice(0)).toEqual([`protect ${name}`, `unprotect ${name}`])
    await fleet.builds.update('arena', { eviction: 'never' })
    await play(2)
    expect(told.splice(0)).toEqual([`protect ${name}`])
  })

  it('is asked for at creation by a build with eviction: never, from when the build says so', async () => {
    const created: (boolean | undefined)[] = []
    const { clock, fleet } = await scene((inner) => ({
      create(spec, options) {
        created.push(spec.isProtected)
        return inner.create(spec, options)
      },
    }))
    const build = aBuild({ standingBy: 1, max: 3 })
    await fleet.builds.create(build)
    await clock.advance(10_000)
    await fleet.builds.update('arena', { eviction: 'never' })
    await fleet.allocate(ask(1))
    await clock.advance(10_000)
    await fleet.builds.update('arena', { eviction: 'whenIdle' })
    await fleet.allocate(ask(2))
    await clock.advance(10_000)
    expect(created).toEqual([undefined, true, undefined])
    const misspelt = { ...build, spec: { ...build.spec, eviction: 'Never' } }
    const create = fleet.builds.create.bind(fleet.builds)
    await expect(Reflect.apply(create, undefined, [misspelt])).rejects.toThrow('spec.eviction must be')
  })

  it('is retried until it succeeds, and delays nothing else', async () => {
    let failures = 3
    let told = 0
    const { clock, fleet } = await scene(() => ({
      protect: async () => {
        told++
        if (failures-- > 0) throw new FleetError('unavailable', 'it is away')
      },
    }))
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(10_000)
    await fleet.allocate(ask(1))
    await clock.advance(60_000)
    expect(told).toBe(4)
  })

  it('is called again for running matches after a host restart', async () => {
    const store = memoryStore()
    const clock = virtualClock()
    const first = await scene(() => ({}), clock, store)
    await first.fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(10_000)
    await first.fleet.allocate(ask(1))
    const instances = only((await store.servers.list()).map(({ record }) => record))
    const running: Instance = { ref: instances, uid: instances.uid, phase: 'running', ports: [] }
    await first.fleet.close()
    const told: string[] = []
    await scene(
      () => ({ list: async () => [running], protect: async ({ name }) => void told.push(name) }),
      clock,
      store,
    )
    await clock.advance(1_000)
    expect(told).toEqual([instances.name])
  })
})

describe('a game that is ready before its backend reports it running', () => {
  it('can be allocated at once if its address is known', async () => {
    let made: Instance | undefined
    const { clock, fleet, store } = await scene(() => ({
      create: async ({ ref, uid }) => {
        const ports = [{ container: 7777, public: 10_000 }]
        return (made = { ref, uid, phase: 'pending', reason: 'it is being started', address: '10.0.0.1', ports })
      },
      list: async () => (made ? [made] : []),
    }))
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(1_000)
    const { name, token } = only((await store.servers.list()).map(({ record }) => record))
    fleet.heartbeat(`${name}.${token}`, { state: 'StandingBy', health: 'Healthy', players: [] })
    await clock.advance(1_000)
    expect(await fleet.allocate(ask(1))).toMatchObject({ IPV4Address: '10.0.0.1', Ports: '7777:10000' })
  })
})

describe('an instance that does not start', () => {
  it('is reported in the server’s status, an event, and a build condition until it starts', async () => {
    let tell = (_: (listener: BackendListener) => void) => {}
    let made: Instance | undefined
    const { clock, fleet, events } = await scene(() => ({
      create: async ({ ref, uid }) => (made = { ref, uid, phase: 'pending', reason: 'it waits for a node', ports: [] }),
      list: async () => (made ? [made] : []),
      watch: (listener) => {
        tell = (call) => call(listener)
        return () => {}
      },
    }))
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await clock.advance(1_000)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
    const stuck = {
      ...(made ?? expect.fail()),
      blocked: true,
      reason: 'it cannot be scheduled: no node has room',
    } as const
    made = stuck
    for (let i = 0; i < 3; i++) tell((listener) => listener.changed(stuck))
    await clock.advance(1_000)
    expect(only(await fleet.servers.list()).status).toMatchObject({ state: 'Pending', message: stuck.reason })
    const blocked = { type: 'CreateBlocked', reason: 'unavailable', message: stuck.reason }
    expect((await statusOf(fleet)).conditions).toMatchObject([blocked])
    expect(events.filter(({ type }) => type === 'ServerStartFailed')).toHaveLength(1)
    made = { ref: stuck.ref, uid: stuck.uid, phase: 'running', address: '10.0.0.1', ports: [] }
    const running = made
    tell((listener) => listener.changed(running))
    await clock.advance(1_000)
    expect(await statusOf(fleet)).not.toHaveProperty('conditions')
  })
})
