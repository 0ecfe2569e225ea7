/** The recipes of docs/guides/choosing-a-server.md, and what holds for every allocation with selectors. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type AllocationRequest, type Fleet, FleetError } from 'gamekeeper'
import { aBuild, failureOf, playing, session, serversBy, type Stage, stage, statusOf, untilReady } from './stage.js'

const counters = { rooms: { count: 0, capacity: 4 } }
const lists = { seats: { values: [], capacity: 2 } }

async function withBuild(s: Stage, fleet: Fleet, name: string, standingBy: number, max = standingBy): Promise<void> {
  const build = aBuild({ name, standingBy, max })
  await fleet.builds.create({ ...build, spec: { ...build.spec, counters, lists } })
  await untilReady(s, fleet, standingBy, name)
}

const names = async (fleet: Fleet) => (await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name)

const nth = (items: readonly string[], n: number) => {
  const item = items[n]
  if (item === undefined) throw new Error(`there is no item ${n}`)
  return item
}

/** A request for the n-th session. */
const ask = <T extends object>(n: number, more: T) => ({ sessionID: session(n), ...more })

it('gives a server whose data change to the caller that waits, before a listener of the change can take it', async () => {
  const s = stage()
  const fleet = await s.open()
  await withBuild(s, fleet, 'arena', 1)
  const [name = ''] = await names(fleet)
  const select = [{ builds: ['arena'], matchLabels: { map: 'dust' } }]
  const waiting = fleet.allocate(ask(1, { select }), { waitMs: 5_000 })
  await s.clock.settle()
  let taken: Promise<unknown> | undefined
  fleet.on('ServerDataChanged', () => {
    taken ??= failureOf(fleet.allocate(ask(2, { buildID: 'arena' })))
  })
  await fleet.servers.update({ name }, { labels: { map: 'dust' } })
  await s.clock.advance(10_000)
  expect(await waiting).toMatchObject({ SessionID: session(1), server: { name } })
  expect(await taken).toMatchObject({ code: 'max-reached' })
})

describe('a recipe', () => {
  it('canary: takes a server of the canary, or else one of the stable build', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    await withBuild(s, fleet, 'arena-canary', 1)
    const select = [{ builds: ['arena-canary'] }, { builds: ['arena'] }]
    const first = await fleet.allocate(ask(1, { select }))
    const second = await fleet.allocate(ask(2, { select }))
    expect(first.server.name).toMatch(/^arena-canary-/)
    expect(second.server.name).not.toMatch(/canary/)
    expect(await failureOf(fleet.allocate(ask(3, { select })))).toMatchObject({
      code: 'max-reached',
      message: 'no server of builds arena-canary, arena that fits is standing by',
    })
  })

  it('canary: goes on when the canary is drained, or its build deleted', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 3)
    await withBuild(s, fleet, 'arena-canary', 1)
    const select = [{ builds: ['arena-canary'] }, { builds: ['arena'] }]
    const drained = fleet.builds.drain('arena-canary')
    await s.clock.settle()
    expect((await fleet.allocate(ask(1, { select }))).server.name).not.toMatch(/canary/)
    await s.clock.advance(60_000)
    await drained
    await fleet.builds.delete('arena-canary')
    expect((await fleet.allocate(ask(2, { select }))).server.name).not.toMatch(/canary/)
  })

  it('canary by weight: the same session always asks for the same build first', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 4, 8)
    await withBuild(s, fleet, 'arena-canary', 4, 8)
    const weightOf = (sessionID: string) => createHash('sha256').update(sessionID).digest().readUInt16BE(0) / 65_536
    const [canary, stable] = [{ builds: ['arena-canary'] }, { builds: ['arena'] }]
    const select = (sessionID: string) => (weightOf(sessionID) < 0.5 ? [canary, stable] : [stable, canary])
    const sessions = [1, 2, 3, 4, 5].map((n) => session(n))
    const first = await Promise.all(
      sessions.map((sessionID) => fleet.allocate({ sessionID, select: select(sessionID) })),
    )
    const again = await Promise.all(
      sessions.map((sessionID) => fleet.allocate({ sessionID, select: select(sessionID) })),
    )
    expect(again.map(({ server }) => server.name)).toEqual(first.map(({ server }) => server.name))
    expect(first.filter(({ server }) => server.name.startsWith('arena-canary-'))).toHaveLength(
      sessions.filter((sessionID) => weightOf(sessionID) < 0.5).length,
    )
  })

  it('builds by label: takes a server of any build that has the labels', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena-1', 1)
    await withBuild(s, fleet, 'arena-2', 1)
    await withBuild(s, fleet, 'duel', 1)
    const arena = { game: 'arena' }
    await fleet.builds.update('arena-1', { labels: { ...arena, track: 'stable' } })
    await fleet.builds.update('arena-2', { labels: { ...arena, track: 'canary' } })
    const select = [{ buildLabels: { ...arena, track: 'canary' } }, { buildLabels: arena }]
    expect((await fleet.allocate(ask(1, { select }))).server.name).toMatch(/^arena-2-/)
    expect((await fleet.allocate(ask(2, { select }))).server.name).toMatch(/^arena-1-/)
    expect(await failureOf(fleet.allocate(ask(3, { select })))).toMatchObject({ code: 'max-reached' })
  })

  it('map affinity: prefers a server that has the map loaded, and else loads it', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 3)
    const loaded = nth(await names(fleet), 2)
    await fleet.servers.update(loaded, { labels: { map: 'dust' } })
    const request = {
      select: [{ builds: ['arena'], matchLabels: { map: 'dust' } }, { builds: ['arena'] }],
      labels: { map: 'dust' },
    }
    expect((await fleet.allocate(ask(1, request))).server.name).toBe(loaded)
    const { server } = await fleet.allocate(ask(2, request))
    expect(server.name).not.toBe(loaded)
    expect((await fleet.servers.get(server)).metadata.labels).toEqual({ map: 'dust' })
  })

  it('room on a machine: takes a server only while its counter has room, and counts', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 2)
    const [full, free] = await names(fleet)
    await fleet.servers.update(full ?? '', { counters: { rooms: { count: 2 } } })
    const request = { buildID: 'arena', counters: { rooms: { increment: 3 } }, lists: { seats: { add: ['amie'] } } }
    const { server } = await fleet.allocate(ask(1, request))
    expect(server.name).toBe(free)
    expect((await fleet.servers.get(server)).status).toMatchObject({
      sessionID: session(1),
      counters: { rooms: { count: 3, capacity: 4 } },
      lists: { seats: { values: ['amie'] } },
    })
    const stored = (await s.records.servers.get(server))?.record
    expect(stored).toMatchObject({ state: 'Active', data: { counters: { rooms: { count: 3 } } } })
    expect(await failureOf(fleet.allocate(ask(2, request)))).toMatchObject({ code: 'none-standing-by' })
  })

  it('keeping servers apart: leaves out those that a label reserves for something else', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 2)
    const [reserved, other] = await names(fleet)
    await fleet.servers.update(reserved ?? '', { labels: { tournament: 'cup' } })
    const casual = {
      select: [{ builds: ['arena'], matchExpressions: [{ key: 'tournament', operator: 'DoesNotExist' as const }] }],
    }
    expect((await fleet.allocate(ask(1, casual))).server.name).toBe(other)
    expect(await failureOf(fleet.allocate(ask(2, casual)))).toMatchObject({ code: 'none-standing-by' })
    const cup = { select: [{ builds: ['arena'], matchLabels: { tournament: 'cup' } }] }
    expect((await fleet.allocate(ask(3, cup))).server.name).toBe(reserved)
  })
})

describe('an allocation with selectors', () => {
  it('is made once for a session, and a retry changes nothing', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 2)
    const request = ask(1, { buildID: 'arena', counters: { rooms: { increment: 1 } } })
    const [first, second] = await Promise.all([fleet.allocate(request), fleet.allocate(request)])
    const third = await fleet.allocate(ask(1, { select: [{ builds: ['arena'], matchLabels: { map: 'none' } }] }))
    expect([second.server, third.server]).toEqual([first.server, first.server])
    expect((await fleet.servers.get(first.server)).status.counters).toEqual({ rooms: { count: 1, capacity: 4 } })
  })

  it('waits for a server that fits, which need not be of the first build', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    await withBuild(s, fleet, 'duel', 1)
    const select = [{ builds: ['arena', 'duel'], matchLabels: { map: 'dust' } }]
    const waiting = fleet.allocate(ask(1, { select }), { waitMs: 60_000 })
    const other = fleet.allocate(ask(2, { select }), { waitMs: 5_000 })
    const refused = failureOf(other)
    await s.clock.advance(10_000)
    expect(await refused).toMatchObject({
      code: 'none-standing-by',
      message: expect.stringMatching(
        /^no server of builds arena, duel that fits is standing by \(waited 5 s\); none is started/,
      ),
    })
    const duel = nth(
      (await names(fleet)).filter((name) => name.startsWith('duel')),
      0,
    )
    await fleet.servers.update(duel, { labels: { map: 'dust' } })
    expect((await waiting).server.name).toBe(duel)
  })

  it('waits behind earlier callers who name the build, and they do not wait behind it', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 2)
    const order: string[] = []
    const call = async (what: string, request: AllocationRequest) => {
      await fleet.allocate(request, { waitMs: 60_000 })
      order.push(what)
    }
    const never = failureOf(
      fleet.allocate(ask(9, { select: [{ builds: ['arena'], matchLabels: { map: 'x' } }] }), { waitMs: 60_000 }),
    )
    const calls = [
      call('plain', ask(1, { buildID: 'arena' })),
      call('selective', ask(2, { select: [{ builds: ['arena'] }] })),
    ]
    await s.clock.advance(30_000)
    await Promise.all(calls)
    expect(order).toEqual(['plain', 'selective'])
    await s.clock.advance(60_000)
    expect(await never).toMatchObject({ code: 'max-reached' })
  })

  it('goes on waiting when one of its builds is drained', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 2)
    await withBuild(s, fleet, 'duel', 0, 0)
    const waiting = fleet.allocate(ask(1, { select: [{ builds: ['duel'] }, { builds: ['arena'] }] }), {
      waitMs: 60_000,
    })
    await fleet.builds.drain('duel')
    await s.clock.advance(30_000)
    expect((await waiting).server.name).toMatch(/^arena-/)
  })

  it('never passes a capacity, however many calls and changes are made at once', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 8)
    const servers = await names(fleet)
    const changes = servers.map((name) => fleet.servers.update(name, { counters: { rooms: { increment: 2 } } }))
    const calls = servers.map((_, n) =>
      fleet.allocate(ask(n + 1, { buildID: 'arena', counters: { rooms: { increment: 3 } } })),
    )
    const late = servers.map((name) => fleet.servers.update(name, { counters: { rooms: { increment: 2 } } }))
    const results = await Promise.allSettled([...changes, ...calls, ...late])
    const counts = (await fleet.servers.list()).map(({ status }) => status.counters?.['rooms']?.count ?? 0)
    expect(Math.max(...counts)).toBeLessThanOrEqual(4)
    const ok = results.map(({ status }) => (status === 'fulfilled' ? 1 : 0))
    const sum = (part: readonly number[]): number => part.reduce((a, b) => a + b, 0)
    const added = 2 * sum(ok.slice(0, 8)) + 3 * sum(ok.slice(8, 16)) + 2 * sum(ok.slice(16))
    expect(sum(counts)).toBe(added)
  })

  it('survives a restart of the host with what it changed', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    const { server } = await fleet.allocate(ask(1, { buildID: 'arena', labels: { map: 'dust' } }))
    s.crash()
    const next = await s.open()
    expect((await next.servers.get(server)).metadata.labels).toEqual({ map: 'dust' })
    expect(await statusOf(next)).toMatchObject({ currentActive: 1 })
  })

  it('takes a server that the new host has not heard only if no other fits', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1)
    await withBuild(s, fleet, 'duel', 1)
    for (const game of s.backend.servers()) if (game.ref.name.startsWith('arena')) game.silence()
    s.crash()
    const next = await s.open()
    await s.clock.advance(5_000)
    const select = [{ builds: ['arena'] }, { builds: ['duel'] }]
    expect((await next.allocate(ask(1, { select }))).server.name).toMatch(/^duel-/)
    expect((await next.allocate(ask(2, { select }))).server.name).toMatch(/^arena-/)
  })

  it('is refused if it names no build that exists', async () => {
    const s = stage()
    const fleet = await s.open()
    expect(await failureOf(fleet.allocate(ask(1, { select: [{ builds: ['a', 'b'] }] })))).toMatchObject({
      code: 'not-found',
      message: 'no build has the buildID "a" or "b"',
    })
  })

  it('tournament: reserved servers are kept for those who name them', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 2, 4)
    const ready = (await fleet.servers.list({ build: 'arena' })).filter(({ status }) => status.state === 'StandingBy')
    const cup = await Promise.all(ready.map(({ metadata }) => fleet.servers.reserve(metadata, { forMs: 30 * 60_000 })))
    await untilReady(s, fleet, 4)
    const others = [
      await fleet.allocate(ask(1, { buildID: 'arena' })),
      await fleet.allocate(ask(2, { buildID: 'arena' })),
    ]
    expect(await failureOf(fleet.allocate(ask(3, { buildID: 'arena' })))).toMatchObject({ code: 'max-reached' })
    await s.clock.advance(29 * 60_000)
    const matches: string[] = []
    for (const [match, { metadata }] of cup.entries()) {
      const request = { sessionID: `cup-match-${match + 1}`, server: metadata, labels: { tournament: 'cup' } }
      matches.push((await fleet.allocate(request)).server.name)
    }
    expect(matches).toEqual(ready.map(({ metadata }) => metadata.name))
    expect(matches).not.toContain(others[0]?.server.name)
  })

  it('lobby servers with many rooms: rooms fill one server after the other, and a place that becomes free is used again', async () => {
    const s = stage({ memory: { script: () => ({ takesSeveral: true }) } })
    const fleet = await s.open()
    const build = aBuild({ name: 'rooms', standingBy: 0, max: 50 })
    const spec = { ...build.spec, sessionsPerServer: 20, standingBySessions: 10 }
    await fleet.builds.create({ ...build, spec })
    await untilReady(s, fleet, 1, 'rooms')
    const request = { buildID: 'rooms' }
    const rooms = await Promise.all(
      Array.from({ length: 20 }, (_, i) => fleet.allocate(ask(i + 1, request), { waitMs: 10_000 })),
    )
    const lobby = nth(
      rooms.map(({ server }) => server.name),
      0,
    )
    expect(new Set(rooms.map(({ server }) => server.name)).size).toBe(1)
    await untilReady(s, fleet, 1, 'rooms')
    expect((await fleet.allocate(ask(21, request))).server.name).not.toBe(lobby)
    await s.clock.advance(2_000)
    s.backend
      .servers()
      .find(({ ref }) => ref.name === lobby)
      ?.endSession(session(7))
    await s.clock.advance(1_000)
    expect((await fleet.allocate(ask(22, request))).server.name).toBe(lobby)
  })

  it('a running server with room, else a new one: of several builds, by a counter that is changed at once', async () => {
    const s = stage({ memory: { script: () => ({ takesSeveral: true }) } })
    const fleet = await s.open()
    for (const name of ['rooms', 'rooms-old']) {
      const build = aBuild({ name, standingBy: 1, max: 3 })
      const seats = { count: 0, capacity: 10 }
      await fleet.builds.create({ ...build, spec: { ...build.spec, sessionsPerServer: 5, counters: { seats } } })
      await untilReady(s, fleet, 1, name)
    }
    await fleet.allocate(ask(1, { buildID: 'rooms-old', counters: { seats: { increment: 1 } } }))
    const counters = { seats: { minAvailable: 4 } }
    const running = { builds: ['rooms', 'rooms-old'], state: 'active' as const, counters }
    const request = { select: [running, { builds: ['rooms'], counters }], counters: { seats: { increment: 4 } } }
    const takers = await Promise.all([2, 3, 4, 5].map((n) => fleet.allocate(ask(n, request))))
    expect(takers.map(({ server }) => server.name.replace(/-[^-]*$/, ''))).toEqual([
      ...['rooms-old', 'rooms-old', 'rooms', 'rooms'],
    ])
    const seats = (await fleet.servers.list()).map(({ status }) => status.counters?.['seats']?.count ?? 0)
    expect([Math.max(...seats), seats.reduce((sum, count) => sum + count, 0)]).toEqual([9, 17])
    expect(await failureOf(fleet.allocate(ask(6, { select: [running] })))).toMatchObject({
      code: 'none-standing-by',
      message: expect.stringContaining('that fits has room for another session') as string,
    })
    const waiting = fleet.allocate(ask(7, { select: [running] }), { waitMs: 30_000 })
    await s.clock.advance(5_000)
    const old = takers.find(({ server }) => server.name.startsWith('rooms-old'))?.server
    await fleet.servers.update(old ?? '', { counters: { seats: { decrement: 4 } } })
    await s.clock.advance(1_000)
    expect((await waiting).server.name).toBe(old?.name)
  })

  it('backfill: joins the fullest match that has room, or else begins a new one', async () => {
    const s = stage()
    const fleet = await s.open()
    const build = aBuild({ standingBy: 2 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, seatsPerSession: 3 } })
    await untilReady(s, fleet, 2)
    const target = { buildID: 'arena' }
    const matchFor = async (n: number, players: readonly string[]) => {
      const joined = fleet.sessions.join({ ...target, players })
      const match = await joined.catch(async (error: unknown) => {
        if (!FleetError.is(error, 'no-room')) throw error
        const { SessionID } = await fleet.allocate({ ...target, sessionID: session(n), initialPlayers: players })
        await s.clock.advance(2_000)
        return fleet.sessions.get(SessionID)
      })
      return match.sessionID
    }
    expect(await matchFor(1, ['amie', 'bo'])).toBe(session(1))
    expect(await matchFor(2, ['cleo', 'dan'])).toBe(session(2))
    expect(await matchFor(3, ['eve'])).toBe(session(1))
    expect(await matchFor(4, ['fay'])).toBe(session(2))
    expect((await fleet.sessions.list()).map(({ seats }) => seats?.free)).toEqual([0, 0])
  })

  it('reconnect: returns the match of a player who has lost the connection, and keeps a seat', async () => {
    const s = stage()
    const fleet = await s.open()
    const build = aBuild({ standingBy: 1 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, seatsPerSession: 2 } })
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1, { buildID: 'arena', initialPlayers: ['amie', 'bo'] }))
    const game = await playing(s, fleet, 1)
    await s.clock.advance(2_000)
    game.players(['amie', 'bo'])
    await s.clock.advance(120_000)
    game.players(['bo'])
    const match = await fleet.sessions.ofPlayer('amie')
    await fleet.sessions.reserveSeats(match.sessionID, ['amie'], { holdMs: 30_000 })
    expect(await failureOf(fleet.sessions.reserveSeats(session(1), ['cleo']))).toMatchObject({ code: 'no-room' })
    game.players(['bo', 'amie'])
    expect(await fleet.sessions.get(session(1))).toMatchObject({ seats: { total: 2, taken: 2, held: 0, free: 0 } })
  })
})
