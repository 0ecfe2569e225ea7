/** Servers that take too long to start: others are started beside them, and no caller waits in vain. */
import { describe, expect, it } from 'vitest'
import type { Fleet, FleetOptions, InstanceSpec } from 'gamekeeper'
import type { ServerScript } from 'gamekeeper/memory'
import { aBuild, ask, nth, only, serversBy, type Stage, stage, statusOf, untilReady, watched } from './stage.js'

const minute = 60_000
const hangs: ServerScript = { startsAfterMs: Infinity, pendingReason: 'port 30000 is already allocated' }

/** Servers start as given, in order of their creation; all further ones become ready at once. */
function inOrder(...starts: readonly ServerScript[]) {
  const left = [...starts]
  return () => left.shift() ?? {}
}

async function opened(
  script: (spec: InstanceSpec) => ServerScript,
  numbers: { standingBy: number; max: number; health?: object },
  limits?: FleetOptions['limits'],
): Promise<{ s: Stage; fleet: Fleet }> {
  const s = stage({ memory: { script }, ...(limits && { limits }) })
  const fleet = await s.open()
  const { spec, ...build } = aBuild(numbers)
  await fleet.builds.create({ ...build, spec: { ...spec, ...(numbers.health && { health: numbers.health }) } })
  return { s, fleet }
}

const endings = (s: Stage) => s.eventsOf('ServerEnding').map(({ reason }) => reason)
const creations = (s: Stage) => s.eventsOf('ServerCreated').map(({ at, server }) => ({ at, name: server.name }))
const total = async (fleet: Fleet) => {
  const { currentPending, currentInitializing, currentStandingBy, currentActive } = await statusOf(fleet)
  return currentPending + currentInitializing + currentStandingBy + currentActive
}

describe('a server whose start hangs', () => {
  it('is late after 60 s: another is started beside it and serves the waiting caller, and the late one is removed', async () => {
    const { s, fleet } = await opened(inOrder(hangs), { standingBy: 1, max: 5 })
    await s.clock.advance(40_000)
    const call = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(15_000)
    // The caller's own server comes; another one is wanted standing by.
    expect(call.outcome()).toMatchObject({ value: {} })
    await s.clock.advance(10_000)
    expect(endings(s)).toEqual(['Late'])
    const [ended] = s.eventsOf('ServerEnding')
    expect(ended?.message).toMatch(/not standing by after 6\d s: port 30000 is already allocated$/)
    expect(ended?.crash).toBe(false)
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 0, currentStandingBy: 1, crashesCount: 0 })
    expect(s.backend.servers()).toHaveLength(2)
  })

  it('is reported by the event ServerLate and the condition LateServers, until another server stands by', async () => {
    const { s, fleet } = await opened(inOrder(hangs, { startsAfterMs: 20_000 }), { standingBy: 1, max: 5 })
    await s.clock.advance(59_000)
    expect(s.eventsOf('ServerLate')).toEqual([])
    await s.clock.advance(3_000)
    const [late] = s.eventsOf('ServerLate')
    expect(late).toMatchObject({ reason: 'not standing by after 60 s: port 30000 is already allocated' })
    expect((await statusOf(fleet)).conditions).toMatchObject([
      {
        type: 'LateServers',
        reason: 'Late',
        message: 'servers are not standing by after 60 s: port 30000 is already allocated',
      },
    ])
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 2 })
    await s.clock.advance(25_000)
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 0, currentStandingBy: 1 })
    expect((await statusOf(fleet)).conditions).toBeUndefined()
  })

  it('is removed first where max leaves no room, so that the waiting caller gets the next one', async () => {
    const { s, fleet } = await opened(inOrder(hangs), { standingBy: 1, max: 1 })
    await s.clock.advance(30_000)
    const call = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(40_000)
    expect(call.outcome()).toMatchObject({ value: {} })
    expect(endings(s)).toEqual(['Late'])
    expect(creations(s)).toHaveLength(2)
  })

  it('holds up no other server of its build', async () => {
    const { s, fleet } = await opened(inOrder({}, hangs, {}, hangs), { standingBy: 4, max: 4 })
    await untilReady(s, fleet, 2)
    await untilReady(s, fleet, 4)
    expect(s.clock.elapsed()).toBeLessThan(70_000)
    expect(endings(s)).toEqual(['Late', 'Late'])
  })

  it('holds up no caller when the backend never answers its create', async () => {
    const { s, fleet } = await opened(inOrder(hangs), { standingBy: 0, max: 5 })
    let first: string | undefined
    s.faults.backend = ({ method, ref }) => {
      if (method === 'create') first ??= ref?.name
      return method === 'create' && ref?.name === first ? { kind: 'hang' } : undefined
    }
    await fleet.builds.patch('arena', { standingBy: 1 })
    await untilReady(s, fleet, 1)
    expect(s.clock.elapsed()).toBeLessThan(70_000)
  })

  it('does not count the time in which its image is pulled or its start is refused', async () => {
    const { s, fleet } = await opened(inOrder(), { standingBy: 0, max: 5 })
    s.faults.backend = ({ method }) => (method === 'create' ? { kind: 'refuse' } : undefined)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await s.clock.advance(10 * minute)
    expect([s.eventsOf('ServerLate'), creations(s).length]).toEqual([[], 2])
  })

  it('is not counted as a crash, and causes no back-off', async () => {
    const { s, fleet } = await opened(inOrder(hangs, hangs, hangs), { standingBy: 3, max: 3 })
    await untilReady(s, fleet, 3)
    expect(s.clock.elapsed()).toBeLessThan(70_000)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, health: 'Healthy' })
  })
})

describe('a late server', () => {
  it('is used if it comes, and its replacement is removed', async () => {
    const { s, fleet } = await opened(inOrder({ startsAfterMs: 90_000 }, hangs), { standingBy: 1, max: 5 })
    const [slow] = (await fleet.servers.list()).map(({ metadata }) => metadata.name)
    await s.clock.advance(80_000)
    expect(await statusOf(fleet)).toMatchObject({ currentPending: 2 })
    await s.clock.advance(11_000)
    expect((await serversBy(fleet, 'StandingBy')).map(({ metadata }) => metadata.name)).toEqual([slow])
    expect(endings(s)).toEqual(['ScaledDown'])
    expect(await total(fleet)).toBe(1)
  })

  it('is given to the caller who waits if it comes before its replacement', async () => {
    const { s, fleet } = await opened(inOrder({ startsAfterMs: 70_000 }, hangs), { standingBy: 0, max: 5 })
    const call = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(59_000)
    const retry = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(15_000)
    expect([call.outcome(), retry.outcome()]).toMatchObject([{}, { value: {} }])
  })

  it('may be Initializing: a game that reports Initializing for too long', async () => {
    const { s, fleet } = await opened(inOrder({ autoReady: false }), { standingBy: 1, max: 5 })
    await s.clock.advance(1_000)
    only(s.backend.servers()).heartbeat({ state: 'Initializing' })
    await untilReady(s, fleet, 1)
    await s.clock.advance(1_000)
    expect(nth(s.eventsOf('ServerLate'), 0).reason).toContain('the game is running but has not called readyForPlayers')
    expect(endings(s)).toEqual(['Late'])
  })

  it('counts as a crash if its game never sends a heartbeat, even where max leaves no room', async () => {
    const { s, fleet } = await opened(inOrder({ autoReady: false }), { standingBy: 1, max: 1 })
    await s.clock.advance(65_000)
    expect(endings(s)).toEqual(['NeverSpoke'])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it('is not terminated while it is Active, and no surplus is left, whatever happens at once', async () => {
    const { s, fleet } = await opened(inOrder({ startsAfterMs: 61_000 }, { startsAfterMs: 900 }), {
      standingBy: 0,
      max: 2,
    })
    await s.clock.advance(1_000)
    const call = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(59_000)
    const next = watched(fleet.allocate(ask(1), { waitMs: minute }))
    await s.clock.advance(10_000)
    expect([call.outcome(), next.outcome()]).toMatchObject([{}, { value: {} }])
    await s.clock.advance(minute)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentPending: 0, currentStandingBy: 0 })
    expect(s.backend.servers()).toHaveLength(1)
  })

  it.each([
    ['from the fleet', { lateStartMs: 5_000 }, undefined],
    ['from the build', { lateStartMs: 900_000 }, { lateStartSeconds: 5 }],
  ])('is late after the limit %s', async (_, limits, health) => {
    const numbers = { standingBy: 1, max: 5, ...(health && { health }) }
    const { s, fleet } = await opened(inOrder(hangs), numbers, limits)
    await untilReady(s, fleet, 1)
    expect(s.clock.elapsed()).toBeGreaterThanOrEqual(5_000)
    expect(s.clock.elapsed()).toBeLessThan(7_000)
  })
})

describe('a build whose starts always hang', () => {
  it('never has more than max servers, nor more late ones than it wants, and creates ever fewer', async () => {
    const { s, fleet } = await opened(() => hangs, { standingBy: 3, max: 8 })
    for (let at = 0; at < 60; at++) {
      await s.clock.advance(minute)
      const late = new Set(s.eventsOf('ServerLate').map(({ server }) => server.name))
      const left = (await fleet.servers.list()).filter(({ status }) => status.state !== 'Terminating')
      expect(left.filter(({ metadata }) => late.has(metadata.name)).length).toBeLessThanOrEqual(3)
      expect(left.length).toBeLessThanOrEqual(6)
    }
    // Three at the start and after 1, 2, 4, 8, 16 and 32 min.
    expect(creations(s).length).toBeLessThanOrEqual(21 + 6)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, conditions: [{ type: 'LateServers' }] })
  })

  it('creates ever fewer servers at max too', async () => {
    const { s } = await opened(() => hangs, { standingBy: 1, max: 1 })
    await s.clock.advance(60 * minute)
    expect(creations(s).length).toBeLessThanOrEqual(9)
    expect(creations(s).length).toBeGreaterThan(4)
  })

  it('does not keep other builds from starting', async () => {
    const script = ({ build }: InstanceSpec) => (build.name === 'arena' ? hangs : {})
    const { s, fleet } = await opened(script, { standingBy: 20, max: 40 }, { maxConcurrentCreates: 2 })
    await s.clock.advance(5 * minute)
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 3 }))
    await s.clock.advance(1_000)
    expect(await statusOf(fleet, 'duel')).toMatchObject({ currentStandingBy: 3 })
  })
})

describe('a build whose servers need longer than the limit', () => {
  it.each([
    ['with room', 10],
    ['without room', 2],
  ])('%s gets them in the end, and later ones without a detour', async (_, max) => {
    const { s, fleet } = await opened(() => ({ startsAfterMs: 200_000 }), { standingBy: 2, max })
    await s.clock.advance(15 * minute)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 2 })
    const before = creations(s).length
    await fleet.builds.patch('arena', { standingBy: 3, max: max + 1 })
    await s.clock.advance(10 * minute)
    expect(creations(s).length).toBe(before + 1)
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 3 })
  })
})

describe('a late start of the new template in a rolling update', () => {
  const template = (image: string) => ({ spec: { containers: [{ name: 'game', image }] } })
  const isNew = ({ template: given }: InstanceSpec) => JSON.stringify(given).includes('"two"')
  const olds = (s: Stage) => s.backend.servers().filter(({ spec }) => !isNew(spec)).length

  it.each([
    ['with room', 20],
    ['without room', 8],
  ])('does not stall the update %s', async (_, max) => {
    let created = 0
    const script = (spec: InstanceSpec) => (isNew(spec) && created++ < 2 ? hangs : {})
    const { s, fleet } = await opened(script, { standingBy: 8, max })
    await untilReady(s, fleet, 8)
    await fleet.builds.update('arena', { template: template('two') })
    while ((await statusOf(fleet)).rollout) {
      expect((await statusOf(fleet)).currentStandingBy).toBeGreaterThanOrEqual(6)
      await s.clock.advance(1_000)
    }
    expect(s.clock.elapsed()).toBeLessThan(90_000)
    expect(endings(s).filter((reason) => reason === 'Late')).toHaveLength(2)
  })

  it.each([
    ['with room', 20, undefined],
    ['without room', 8, undefined],
    ['without a free port', 20, { first: 10_000, last: 10_007 }],
  ])('%s keeps all but one batch of the old servers if every new one hangs', async (_, max, portRange) => {
    const s = stage({ memory: { script: (spec) => (isNew(spec) ? hangs : {}), ...(portRange && { portRange }) } })
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 8, max }))
    await untilReady(s, fleet, 8)
    await fleet.builds.update('arena', { template: template('two') })
    for (let at = 0; at < 60; at++) {
      await s.clock.advance(minute)
      expect(olds(s)).toBeGreaterThanOrEqual(6)
      expect(await total(fleet)).toBeLessThanOrEqual(max)
    }
    expect(creations(s).length).toBeLessThanOrEqual(8 + 2 * 10)
    await fleet.builds.update('arena', { template: aBuild().spec.template })
    await s.clock.until(async () => olds(s) === 8 && (await statusOf(fleet)).currentStandingBy === 8)
  })
})

describe('the time of a start', () => {
  it('continues from the creation of the record when another host takes over', async () => {
    const { s } = await opened(inOrder(hangs), { standingBy: 1, max: 5 })
    await s.clock.advance(45_000)
    s.crash()
    const next = await s.open()
    await s.clock.advance(10_000)
    expect(s.eventsOf('ServerLate')).toEqual([])
    await untilReady(s, next, 1)
    expect(s.clock.elapsed()).toBeLessThan(65_000)
  })

  it('begins again for a running game when another host takes over, because it may have become ready meanwhile', async () => {
    const { s } = await opened(inOrder({ autoReady: false }), { standingBy: 1, max: 1 })
    await s.clock.advance(1_000)
    only(s.backend.servers()).heartbeat({ state: 'Initializing' })
    s.crash()
    await s.clock.advance(10 * minute)
    const next = await s.open()
    await s.clock.advance(20_000)
    only(s.backend.servers()).ready()
    await untilReady(s, next, 1)
    expect(endings(s)).toEqual([])
  })

  it('begins again after the host was suspended', async () => {
    const { s, fleet } = await opened(inOrder({ startsAfterMs: 70_000 }), { standingBy: 1, max: 1 })
    await s.clock.advance(50_000)
    await s.clock.suspend(30_000)
    await untilReady(s, fleet, 1)
    expect([endings(s), s.eventsOf('ServerLate')]).toEqual([[], []])
  })
})
