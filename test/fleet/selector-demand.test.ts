/** For which build a caller with selectors counts as demand, and when it gets a server after all. */
import { describe, expect, it } from 'vitest'
import type { Fleet, GameServerBuildInput } from 'gamekeeper'
import { aBuild, failureOf, serversBy, session, type Stage, stage, statusOf, untilReady } from './stage.js'

type Spec = Pick<GameServerBuildInput['spec'], 'counters' | 'lists'>

async function withBuild(s: Stage, fleet: Fleet, name: string, standingBy: number, max: number, more: Spec = {}) {
  const build = aBuild({ name, standingBy, max })
  await fleet.builds.create({ ...build, spec: { ...build.spec, ...more } })
  await untilReady(s, fleet, standingBy, name)
}

const rooms = { counters: { rooms: { count: 0, capacity: 4 } } }
const ask = <T extends object>(n: number, more: T) => ({ sessionID: session(n), ...more })
const total = async (fleet: Fleet, name: string) => {
  const { currentActive, currentPending, currentInitializing, currentStandingBy } = await statusOf(fleet, name)
  return currentActive + currentPending + currentInitializing + currentStandingBy
}

describe('a caller whom no new server would fit', () => {
  it('is no demand, and is told why', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1, 10, rooms)
    const calls = [1, 2, 3].map((n) =>
      failureOf(
        fleet.allocate(ask(n, { select: [{ builds: ['arena'], matchLabels: { map: 'dust' } }] }), { waitMs: 20_000 }),
      ),
    )
    await s.clock.advance(10_000)
    expect(await total(fleet, 'arena')).toBe(1)
    await s.clock.advance(12_000)
    expect(await Promise.all(calls)).toMatchObject([
      {
        code: 'none-standing-by',
        message:
          'no server of build arena that fits is standing by (waited 20 s); none is started for this caller, ' +
          'because a new server of build arena would not fit: matchLabels.map is not met',
      },
      { code: 'none-standing-by' },
      { code: 'none-standing-by' },
    ])
    expect(await total(fleet, 'arena')).toBe(1)
  })

  it('is told that the change is more than a new server has room for', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1, 10, rooms)
    expect(
      await failureOf(fleet.allocate(ask(1, { buildID: 'arena', counters: { rooms: { increment: 5 } } }))),
    ).toMatchObject({
      code: 'none-standing-by',
      message: expect.stringContaining('counters.rooms.increment must leave the count between 0 and the capacity'),
    })
  })

  it.each([
    ['a change', { buildID: 'arena', counters: { roms: { increment: 1 } } }, 'counter roms'],
    ['a condition', { select: [{ builds: ['arena'], lists: { seats: { minAvailable: 1 } } }] }, 'list seats'],
  ])('is refused at once if %s names what no build declares', async (_, request, missing) => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 1, 10, rooms)
    const failure = failureOf(fleet.allocate(ask(1, request), { waitMs: 60_000 }))
    await s.clock.settle()
    expect(await Promise.race([failure, s.clock.settle().then(() => 'waits')])).toMatchObject({
      code: 'invalid',
      message: `no server can fit: build arena declares no ${missing}`,
    })
  })

  it('waits for a server that is starting with a counter that the build declares no more', async () => {
    const s = stage({ memory: { readyAfterMs: 20_000 } })
    const fleet = await s.open()
    const build = aBuild({ standingBy: 2, max: 2 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, ...rooms } })
    await s.clock.advance(3_000)
    await fleet.builds.update('arena', { counters: {} })
    const request = ask(1, { buildID: 'arena', counters: { rooms: { increment: 1 } } })
    const waiting = fleet.allocate(request, { waitMs: 60_000 })
    await s.clock.advance(61_000)
    expect((await waiting).server.name).toMatch(/^arena-/)
  })

  it('becomes demand when an edit makes new servers fit', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 2, { counters: { rooms: { count: 0, capacity: 1 } } })
    const waiting = fleet.allocate(ask(1, { buildID: 'arena', counters: { rooms: { increment: 2 } } }), {
      waitMs: 60_000,
    })
    await s.clock.advance(5_000)
    expect(await total(fleet, 'arena')).toBe(0)
    await fleet.builds.update('arena', { counters: { rooms: { count: 0, capacity: 2 } } })
    await s.clock.advance(20_000)
    expect((await waiting).server.name).toMatch(/^arena-/)
  })
})

describe('a caller with several builds', () => {
  it('is demand for the first whose new servers fit', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 5)
    await withBuild(s, fleet, 'lobby', 0, 5, rooms)
    const request = ask(1, {
      select: [{ builds: ['arena', 'lobby'] }],
      counters: { rooms: { increment: 1 } },
    })
    const waiting = fleet.allocate(request, { waitMs: 60_000 })
    await s.clock.advance(30_000)
    expect((await waiting).server.name).toMatch(/^lobby-/)
    expect(await total(fleet, 'arena')).toBe(0)
  })

  it('is demand for the second if the first has enough callers already', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 1)
    await withBuild(s, fleet, 'duel', 0, 1)
    const select = [{ builds: ['arena'] }, { builds: ['duel'] }]
    const waiting = [1, 2].map((n) => fleet.allocate(ask(n, { select }), { waitMs: 60_000 }))
    await s.clock.advance(30_000)
    const names = (await Promise.all(waiting)).map(({ server }) => server.name)
    expect(names.map((name) => name.replace(/-.*/, '')).sort()).toEqual(['arena', 'duel'])
  })

  it('gets a server of a build that is resumed', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 0)
    await withBuild(s, fleet, 'duel', 0, 1)
    const drained = fleet.builds.drain('duel')
    await s.clock.settle()
    const waiting = fleet.allocate(ask(1, { select: [{ builds: ['arena'] }, { builds: ['duel'] }] }), {
      waitMs: 60_000,
    })
    await s.clock.advance(1_000)
    await drained
    await fleet.builds.resume('duel')
    await s.clock.advance(30_000)
    expect((await waiting).server.name).toMatch(/^duel-/)
  })

  it('gets a server of a build that comes', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 0, 0)
    const waiting = fleet.allocate(ask(1, { select: [{ builds: ['arena', 'duel'] }] }), { waitMs: 60_000 })
    await s.clock.advance(1_000)
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 0, max: 1 }))
    await s.clock.advance(30_000)
    expect((await waiting).server.name).toMatch(/^duel-/)
  })
})

it('a call is told that an earlier one of its session is waiting with another request', async () => {
  const s = stage()
  const fleet = await s.open()
  await withBuild(s, fleet, 'arena', 0, 0)
  await withBuild(s, fleet, 'duel', 1, 1)
  const first = failureOf(fleet.allocate(ask(1, { buildID: 'arena' }), { waitMs: 30_000 }))
  await s.clock.advance(1_000)
  const second = failureOf(fleet.allocate(ask(1, { select: [{ builds: ['duel'] }] }), { waitMs: 5_000 }))
  await s.clock.advance(40_000)
  expect(await second).toMatchObject({
    code: 'none-standing-by',
    message: `an earlier call for session ${session(1)} is still waiting with another request (waited 5 s); retry soon`,
  })
  expect(await first).toMatchObject({ code: 'max-reached' })
})

describe('annotations', () => {
  it('do not decide which server is taken, unless there is no room for those of the request', async () => {
    const s = stage()
    const fleet = await s.open()
    await withBuild(s, fleet, 'arena', 2, 2)
    const [first, second] = (await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name)
    await fleet.servers.update(first ?? '', { annotations: { note: 'x'.repeat(16_000) } })
    const request = { select: [{ builds: ['arena'] }], annotations: { more: 'y'.repeat(1_000) } }
    expect((await fleet.allocate(ask(1, request))).server.name).toBe(second)
    expect(await failureOf(fleet.allocate(ask(2, request)))).toMatchObject({ code: 'none-standing-by' })
    expect((await fleet.allocate(ask(3, { select: [{ builds: ['arena'] }] }))).server.name).toBe(first)
  })
})

it('reports an allocation whose write failed if a change of the server stores it', async () => {
  const s = stage()
  const fleet = await s.open()
  await withBuild(s, fleet, 'arena', 1, 1, rooms)
  const [name = ''] = (await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name)
  let failures = 2
  s.faults.store = ({ method }) =>
    method === 'servers.get' || method === 'servers.update'
      ? failures-- > 0
        ? { kind: 'refuse' }
        : undefined
      : undefined
  const allocated = failureOf(fleet.allocate(ask(1, { buildID: 'arena', counters: { rooms: { increment: 1 } } })))
  const updated = fleet.servers.update(name, { labels: { map: 'dust' } })
  await s.clock.advance(10_000)
  await Promise.all([allocated, updated])
  expect(await fleet.servers.get(name)).toMatchObject({ status: { state: 'Active', sessionID: session(1) } })
  expect(s.eventsOf('Allocated')).toMatchObject([{ sessionID: session(1), server: { name } }])
})
