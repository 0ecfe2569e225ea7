/** `order` of an allocation: which of the servers that fit is taken. */
import { describe, expect, it } from 'vitest'
import type { AllocationOrder, Fleet, GameServer } from 'gamekeeper'
import { aBuild, failureOf, serversBy, session, type Stage, stage, untilReady } from './stage.js'

const counters = { rooms: { count: 0, capacity: 4 } }

async function withServers(s: Stage, fleet: Fleet, count: number, name = 'arena'): Promise<readonly GameServer[]> {
  const build = aBuild({ name, standingBy: 0, max: count })
  await fleet.builds.create({ ...build, spec: { ...build.spec, counters } })
  for (let standingBy = 1; standingBy <= count; standingBy++) {
    await fleet.builds.patch(name, { standingBy })
    await untilReady(s, fleet, standingBy, name)
    await s.clock.advance(1_000)
  }
  const servers = await serversBy(fleet, 'StandingBy')
  const sinceOf = ({ status }: GameServer) => status.reachedStandingByOn ?? ''
  return [...servers].sort((a, b) => (sinceOf(a) < sinceOf(b) ? -1 : 1))
}

const by = (n: number, order: AllocationOrder) => ({ sessionID: session(n), buildID: 'arena', order })

describe('the order of an allocation', () => {
  it('takes the newest server, and by default the one that has been ready for longest', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 4)).map(({ metadata }) => metadata.name)
    expect((await fleet.allocate(by(1, { by: 'newest' }))).server.name).toBe(names[3])
    expect((await fleet.allocate(by(2, { by: 'newest' }))).server.name).toBe(names[2])
    expect((await fleet.allocate(by(3, { by: 'first-ready' }))).server.name).toBe(names[0])
  })

  it('fills one machine after the other, or all evenly, also across builds and restarts', async () => {
    const s = stage({ memory: { nodes: ['north', 'east', 'south'] } })
    const first = await s.open()
    await withServers(s, first, 6)
    await withServers(s, first, 3, 'duel')
    const machineOf = async (fleet: Fleet, n: number, order: AllocationOrder, buildID = 'arena') =>
      (await fleet.servers.get((await fleet.allocate({ sessionID: session(n), buildID, order })).server)).status
        .nodeName
    const packed = [
      await machineOf(first, 1, { by: 'packed' }),
      await machineOf(first, 2, { by: 'packed' }),
      await machineOf(first, 3, { by: 'packed' }, 'duel'),
    ]
    expect(new Set(packed).size).toBe(1)
    s.crash()
    const second = await s.open()
    await s.clock.advance(5_000)
    const spread = [
      await machineOf(second, 4, { by: 'distributed' }),
      await machineOf(second, 5, { by: 'distributed' }),
    ]
    expect(new Set([...packed, ...spread]).size).toBe(3)
  })

  it('takes the server whose counter has the least, or the most, left', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 4)).map(({ metadata }) => metadata.name)
    for (const [i, count] of [1, 3, 2, 0].entries()) {
      await fleet.servers.update(names[i] ?? '', { counters: { rooms: { count } } })
    }
    const least = { ...by(1, { by: 'least-available', counter: 'rooms' }), counters: { rooms: { increment: 2 } } }
    expect((await fleet.allocate(least)).server.name, 'the fullest in which two more fit').toBe(names[2])
    expect((await fleet.allocate(by(2, { by: 'most-available', counter: 'rooms' }))).server.name).toBe(names[3])
    expect((await fleet.allocate(by(3, { by: 'least-available', counter: 'rooms' }))).server.name).toBe(names[1])
  })

  it('goes by how long a server has been standing by, whatever its data were meanwhile', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 5)).map(({ metadata }) => metadata.name)
    // From this request on, servers are kept by their data.
    await failureOf(
      fleet.allocate({ sessionID: session(9), select: [{ builds: ['arena'], matchLabels: { no: 'x' } }] }),
    )
    for (const map of ['dust', null]) {
      for (const name of [names[1], names[0]]) await fleet.servers.update(name ?? '', { labels: { map } })
    }
    expect((await fleet.allocate(by(1, { by: 'newest' }))).server.name).toBe(names[4])
    await fleet.servers.update(names[0] ?? '', { labels: { map: 'dust' } })
    expect((await fleet.allocate(by(2, { by: 'newest' }))).server.name).toBe(names[3])
    const select = [{ builds: ['arena'] }]
    expect((await fleet.allocate({ sessionID: session(3), select })).server.name).toBe(names[0])
    expect((await fleet.allocate({ sessionID: session(4), select })).server.name).toBe(names[1])
  })

  it('counts also with confirm', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 3)).map(({ metadata }) => metadata.name)
    // Its next heartbeat is due last.
    s.backend.server({ namespace: 'default', name: names[0] ?? '' }).heartbeat()
    const confirmed = fleet.allocate(by(1, { by: 'first-ready' }), { confirm: true })
    await s.clock.advance(5_000)
    expect((await confirmed).server.name).toBe(names[0])
  })

  it('is refused if no server has or will have its counter', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 2)).map(({ metadata }) => metadata.name)
    expect(await failureOf(fleet.allocate(by(1, { by: 'least-available', counter: 'romos' })))).toMatchObject({
      code: 'invalid',
      message: 'order.counter: build arena declares no counter romos',
    })
    await fleet.builds.update('arena', { counters: {} })
    const known = await fleet.allocate(by(2, { by: 'least-available', counter: 'rooms' }))
    expect(names).toContain(known.server.name)
  })

  it('comes after the order of the selectors', async () => {
    const s = stage()
    const fleet = await s.open()
    const names = (await withServers(s, fleet, 3)).map(({ metadata }) => metadata.name)
    await fleet.servers.update(names[0] ?? '', { labels: { map: 'dust' } })
    const select = [{ builds: ['arena'], matchLabels: { map: 'dust' } }, { builds: ['arena'] }]
    const order = { by: 'newest' } as const
    expect((await fleet.allocate({ sessionID: session(1), select, order })).server.name).toBe(names[0])
    expect((await fleet.allocate({ sessionID: session(2), select, order })).server.name).toBe(names[2])
  })

  it.each([
    [
      { by: 'random' },
      'order.by must be one of first-ready, newest, packed, distributed, least-available, most-available',
    ],
    [{ by: 'least-available' }, 'order.counter must be set for the order least-available'],
    [{ by: 'packed', counter: 'rooms' }, 'order.counter is not allowed for the order packed'],
  ])('is refused: %j', async (order, message) => {
    const s = stage()
    const fleet = await s.open()
    expect(await failureOf(fleet.allocate(by(1, order as AllocationOrder)))).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining(message),
    })
  })
})
