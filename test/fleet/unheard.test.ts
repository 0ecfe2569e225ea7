/** Servers that this host has not heard since it began to lead, or since it was suspended: they are allocated last. */
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  serversBy,
  session,
  stage,
  type StageOptions,
  statusOf,
  watched,
} from './stage.js'

/** A host that has just taken over `count` servers standing by, none of which sends heartbeats at present. */
async function takenOver(count: number, max = count, limits: StageOptions['limits'] = {}) {
  const scene = stage({ memory: { script: 'manual' }, limits })
  const first = await scene.open()
  await first.builds.create(aBuild({ standingBy: count, max }))
  await scene.clock.settle()
  const servers = scene.backend.servers()
  for (const server of servers) server.ready()
  await scene.clock.advance(1_000)
  for (const server of servers) server.silence()
  scene.crash()
  const fleet = await scene.open()
  await scene.clock.settle()
  return { scene, fleet, servers, server: nth(servers, 0) }
}

describe('a call that does not wait', () => {
  it('gets the server that was heard, although another one has been standing by longer, and the unheard one only after it', async () => {
    const { scene, fleet, servers } = await takenOver(2)
    nth(servers, 1).heartbeat()
    await fleet.allocate(ask(1))
    await fleet.allocate(ask(2))
    expect((await playing(scene, fleet, 1)).ref).toEqual(nth(servers, 1).ref)
    expect((await playing(scene, fleet, 2)).ref).toEqual(nth(servers, 0).ref)
  })

  it('gets the unheard server that has been standing by longest, at once', async () => {
    const { scene, fleet, server } = await takenOver(3)
    await fleet.allocate(ask(1))
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
    expect(only(scene.eventsOf('Allocated')).waitedMs).toBe(0)
  })

  it('for a session for which another call waits, gets the unheard server for both', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const waiting = watched(fleet.allocate(ask(1), { waitMs: 60_000 }))
    await scene.clock.advance(1_000)
    expect(waiting.outcome()).toBe('pending')
    const retry = watched(fleet.allocate(ask(1)))
    await scene.clock.advance(0)
    expect(retry.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect(waiting.outcome()).toEqual(retry.outcome())
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
  })
})

describe('a waiting call', () => {
  it('gets an unheard server in the tick in which it is heard', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await scene.clock.advance(5_000)
    expect(call.outcome()).toBe('pending')
    server.heartbeat()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: {} })
    expect(only(scene.eventsOf('Allocated')).waitedMs).toBe(5_000)
  })

  it('gets an unheard server at the end of its wait, instead of an error', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = watched(fleet.allocate(ask(1), { waitMs: 10_000 }))
    await scene.clock.advance(9_999)
    expect(call.outcome()).toBe('pending')
    await scene.clock.advance(1)
    expect(call.outcome()).toMatchObject({ value: {} })
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
    expect(server.heartbeat().operation).toBe('Active')
  })

  it('gets a server that is started for it, if that is ready first', async () => {
    const { scene, fleet, server } = await takenOver(1, 2)
    const call = watched(fleet.allocate(ask(1), { waitMs: 30_000 }))
    await scene.clock.advance(2_000)
    const started = scene.backend.servers().filter(({ ref }) => ref.name !== server.ref.name)
    only(started).ready()
    await scene.clock.settle()
    expect(call.outcome()).toMatchObject({ value: {} })
    expect((await playing(scene, fleet, 1)).ref).toEqual(only(started).ref)
  })

  it('is served in order of arrival as servers are heard; a shorter wait ends with an unheard server', async () => {
    const { scene, fleet, servers } = await takenOver(3)
    const calls = [30_000, 5_000, 30_000].map((waitMs, i) => watched(fleet.allocate(ask(i + 1), { waitMs })))
    await scene.clock.advance(5_000)
    expect(calls.map((call) => call.outcome())).toMatchObject(['pending', { value: {} }, 'pending'])
    expect((await playing(scene, fleet, 2)).ref).toEqual(nth(servers, 0).ref)
    nth(servers, 2).heartbeat()
    nth(servers, 1).heartbeat()
    await scene.clock.settle()
    expect((await playing(scene, fleet, 1)).ref).toEqual(nth(servers, 2).ref)
    expect((await playing(scene, fleet, 3)).ref).toEqual(nth(servers, 1).ref)
  })

  it('fails at the end of its wait if the unheard server is gone', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = failureOf(fleet.allocate(ask(1), { waitMs: 5_000 }))
    await scene.clock.advance(1_000)
    server.exit(0)
    await scene.clock.advance(5_000)
    expect((await call).code).toBe('none-standing-by')
  })

  it('gets an unheard server at once if too many callers wait already', async () => {
    const { scene, fleet } = await takenOver(2, 2, { maxWaiting: 1 })
    const calls = [1, 2].map((n) => watched(fleet.allocate(ask(n), { waitMs: 10_000 })))
    await scene.clock.settle()
    expect(calls.map((call) => call.outcome())).toMatchObject(['pending', { value: {} }])
  })
})

describe('a call with confirm', () => {
  it('gets an unheard server if it does not wait, and is confirmed when the game is heard', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = watched(fleet.allocate(ask(1), { confirm: true }))
    await scene.clock.advance(3_000)
    expect(call.outcome()).toBe('pending')
    server.heartbeat()
    await scene.clock.advance(1_000)
    expect(call.outcome()).toMatchObject({ value: {} })
  })

  it('gets none at the end of its wait, when there is no time left for the game to receive the session', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = failureOf(fleet.allocate(ask(1), { confirm: true, waitMs: 5_000 }))
    await scene.clock.advance(5_000)
    expect((await call).code).toBe('none-standing-by')
    expect((await fleet.servers.get(server.ref)).status.state).toBe('StandingBy')
  })

  it('gets none, but a call without confirm that waits for the same session does', async () => {
    const { scene, fleet, server } = await takenOver(1)
    const call = failureOf(fleet.allocate(ask(1), { confirm: true, waitMs: 5_000 }))
    const joined = watched(fleet.allocate(ask(1), { waitMs: 5_000 }))
    await scene.clock.advance(5_000)
    expect((await call).code).toBe('none-standing-by')
    expect(joined.outcome()).toMatchObject({ value: { SessionID: session(1) } })
    expect((await playing(scene, fleet, 1)).ref).toEqual(server.ref)
  })
})

describe('an unheard server', () => {
  it('counts as standing by: none is started or terminated in its place', async () => {
    const { scene, fleet } = await takenOver(2, 5)
    const created = scene.eventsOf('ServerCreated').length
    await scene.clock.advance(20_000)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2, currentStandingByReadyDesired: '2/2' })
    expect(scene.eventsOf('ServerCreated')).toHaveLength(created)
  })

  it('is scaled down before a server that was heard', async () => {
    const { scene, fleet, servers } = await takenOver(2)
    await scene.clock.advance(4_000)
    nth(servers, 0).heartbeat()
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(1_000)
    expect(only(await serversBy(fleet, 'StandingBy')).metadata.name).toBe(nth(servers, 0).ref.name)
  })

  it('is also one that was last heard before the host was suspended', async () => {
    const scene = stage({ memory: { script: 'manual', heartbeatIntervalMs: 0 } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await scene.clock.settle()
    const [first, second] = [0, 1].map((index) => nth(scene.backend.servers(), index))
    first?.ready()
    second?.ready()
    await scene.clock.advance(1_500)
    await scene.clock.suspend(5_000)
    await scene.clock.advance(1_000)
    second?.heartbeat()
    await fleet.allocate(ask(1))
    expect((await playing(scene, fleet, 1)).ref).toEqual(second?.ref)
  })
})
