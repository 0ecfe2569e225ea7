/** The budget of a fleet, through the facade: which build gets the servers, and what the others are told. */
import type { BuildSpec, Fleet, FleetOptions } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, nth, session, type Stage, stage, statusOf } from './stage.js'

const minute = 60_000

type Builds = Readonly<Record<string, Partial<BuildSpec>>>

async function opened(budget: FleetOptions['budget'], builds: Builds, options: Parameters<typeof stage>[0] = {}) {
  const scene = stage(options)
  const fleet = await scene.open({ ...(budget && { budget }) })
  for (const [name, spec] of Object.entries(builds)) {
    const { metadata, spec: base } = aBuild({ name, standingBy: 0, max: 100, portsToExpose: [] })
    await fleet.builds.create({ metadata, spec: { ...base, ...spec } })
  }
  await scene.clock.advance(20_000)
  return { scene, fleet }
}

/** Numbers of servers that are not terminating: all, and those that are Active. */
async function counts(fleet: Fleet): Promise<Record<string, readonly [number, number]>> {
  const found: Record<string, readonly [number, number]> = {}
  for (const { metadata, status } of await fleet.builds.list()) {
    const idle = status.currentPending + status.currentInitializing + status.currentStandingBy
    found[metadata.name] = [idle + status.currentActive, status.currentActive]
  }
  return found
}

async function play(scene: Stage, fleet: Fleet, buildID: string, from: number, count: number): Promise<void> {
  const calls = Array.from({ length: count }, (_, i) => fleet.allocate(ask(from + i, { buildID }), { waitMs: minute }))
  await scene.clock.advance(30_000)
  await Promise.all(calls)
}

async function budgetCondition(fleet: Fleet, build: string) {
  return (await statusOf(fleet, build)).conditions?.find(({ type }) => type === 'BudgetReached')
}

const endings = (scene: Stage) => scene.eventsOf('ServerEnding').map(({ reason, message }) => [reason, message])

describe('a budget of servers', () => {
  it('is shared equally by builds of the same priority, and says who has it', async () => {
    const { scene, fleet } = await opened({ servers: 10 }, { arena: { standingBy: 8 }, duel: { standingBy: 8 } })
    expect(await counts(fleet)).toEqual({ arena: [5, 0], duel: [5, 0] })
    // The first build had them all until the second one was created.
    expect(endings(scene).map(([reason]) => reason)).toEqual(['ScaledDown', 'ScaledDown', 'ScaledDown'])
    expect(await budgetCondition(fleet, 'duel')).toMatchObject({
      reason: 'Servers',
      message:
        "the fleet's budget (10 servers) has no room for more servers of this build; it is shared by arena (5), duel (5)",
    })
    expect((await fleet.problems()).map(({ kind, severity, title }) => [kind, severity, title])).toEqual([
      ['BudgetReached', 'degraded', 'arena gets less of the budget than it claims: 5 of 8 ready'],
      ['BudgetReached', 'degraded', 'duel gets less of the budget than it claims: 5 of 8 ready'],
    ])
  })

  it('changes nothing while there is enough', async () => {
    const builds: Builds = { arena: { standingBy: 4 }, duel: { standingBy: 4, budget: { priority: 5 } } }
    const { scene, fleet } = await opened({ servers: 10 }, builds)
    expect(await counts(fleet)).toEqual({ arena: [4, 0], duel: [4, 0] })
    await play(scene, fleet, 'arena', 1, 2)
    expect(await counts(fleet)).toEqual({ arena: [6, 2], duel: [4, 0] })
    expect(await fleet.problems()).toEqual([])
    expect(endings(scene)).toEqual([])
  })

  it('refuses a caller as at max, and says that it is the budget', async () => {
    const { scene, fleet } = await opened({ servers: 2 }, { arena: { standingBy: 2 } })
    await play(scene, fleet, 'arena', 1, 2)
    expect(await failureOf(fleet.allocate(ask(3)))).toMatchObject({
      code: 'max-reached',
      message:
        "every server of build arena is in use, and the fleet's budget has no room for another; retry when a match has ended",
    })
    const waiting = fleet.allocate(ask(3), { waitMs: minute })
    await fleet.sessions.end(session(1))
    await scene.clock.advance(20_000)
    expect((await waiting).SessionID).toBe(session(3))
    expect(await counts(fleet)).toEqual({ arena: [2, 2] })
  })

  it('is never exceeded while servers start, end and are given to others', async () => {
    const latency = { createLatencyMs: 700, startLatencyMs: 400, readyAfterMs: 900 }
    const builds: Builds = {
      arena: { standingBy: 3, budget: { priority: 1 } },
      duel: { standingBy: 6 },
      lobby: { standingBy: 6, budget: { guaranteed: 2 } },
    }
    const { scene, fleet } = await opened({ servers: 9 }, builds, { memory: latency })
    let most = 0
    for (let round = 0; round < 12; round++) {
      const buildID = nth(['arena', 'arena', 'duel', 'lobby'], round % 4)
      void fleet.allocate(ask(round + 1, { buildID }), { waitMs: minute }).catch(() => undefined)
      if (round % 3 === 2) await fleet.sessions.end(session(round - 1)).catch(() => undefined)
      for (let step = 0; step < 20; step++) {
        await scene.clock.advance(200)
        const all = Object.values(await counts(fleet))
        most = Math.max(
          most,
          all.reduce((sum, [servers]) => sum + servers, 0),
        )
      }
    }
    expect(most).toBe(9)
  })
})

describe('the priority of a build', () => {
  it('takes idle servers of others, and no match', async () => {
    const builds: Builds = { arena: { budget: { priority: 10 } }, duel: { standingBy: 6 } }
    const { scene, fleet } = await opened({ servers: 6 }, builds)
    await play(scene, fleet, 'duel', 1, 2)
    expect(await counts(fleet)).toEqual({ arena: [0, 0], duel: [6, 2] })
    await play(scene, fleet, 'arena', 11, 4)
    expect(await counts(fleet)).toEqual({ arena: [4, 4], duel: [2, 2] })
    expect(nth(endings(scene), 0)).toEqual([
      'ScaledDown',
      expect.stringContaining("the fleet's budget has no room for it beside the servers of other builds"),
    ])
    expect(scene.eventsOf('SessionEnded')).toEqual([])
    expect(await failureOf(fleet.allocate(ask(15)))).toMatchObject({ code: 'max-reached' })
    await fleet.sessions.end(session(1))
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(20_000)
    expect(await counts(fleet)).toEqual({ arena: [5, 4], duel: [1, 1] })
  })

  it('counts again as soon as it is changed', async () => {
    const { scene, fleet } = await opened({ servers: 6 }, { arena: { standingBy: 6 }, duel: { standingBy: 6 } })
    expect(await counts(fleet)).toEqual({ arena: [3, 0], duel: [3, 0] })
    await fleet.builds.update('duel', { budget: { priority: 1 } })
    await scene.clock.advance(20_000)
    expect(await counts(fleet)).toEqual({ arena: [0, 0], duel: [6, 0] })
    expect(scene.eventsOf('ServerEnding').every(({ reason }) => reason === 'ScaledDown')).toBe(true)
  })
})

describe('the guaranteed part of a build', () => {
  it('is held back from others, and given at once', async () => {
    const builds: Builds = { arena: { budget: { guaranteed: 3 } }, duel: { standingBy: 9, budget: { priority: 9 } } }
    const { scene, fleet } = await opened({ servers: 8 }, builds)
    expect(await counts(fleet)).toEqual({ arena: [0, 0], duel: [5, 0] })
    await play(scene, fleet, 'arena', 1, 3)
    expect(await counts(fleet)).toEqual({ arena: [3, 3], duel: [5, 0] })
    expect(endings(scene)).toEqual([])
  })

  it('that does not fit the budget is told', async () => {
    const builds: Builds = { arena: { budget: { guaranteed: 3 } }, duel: { budget: { guaranteed: 3 } } }
    const { fleet } = await opened({ servers: 4 }, builds)
    expect(await budgetCondition(fleet, 'arena')).toBeUndefined()
    expect(await budgetCondition(fleet, 'duel')).toMatchObject({
      reason: 'Guaranteed',
      message:
        "the builds' guaranteed parts exceed the fleet's budget (4 servers): 1 of the 3 servers guaranteed to this build fit",
    })
  })

  it('is free again once its build is deleted', async () => {
    const builds: Builds = { arena: { budget: { guaranteed: 3 } }, duel: { standingBy: 9 } }
    const { scene, fleet } = await opened({ servers: 8 }, builds)
    await fleet.builds.delete('arena')
    await scene.clock.advance(20_000)
    expect(await counts(fleet)).toEqual({ duel: [8, 0] })
  })
})

describe('a caller whom servers of several builds fit', () => {
  const counters = { rooms: { count: 0, capacity: 2 } }
  const select = [{ builds: ['arena'] }, { builds: ['duel'] }]

  it('gets one of the build that the budget has room for', async () => {
    const builds: Builds = {
      arena: { counters },
      duel: { counters, budget: { guaranteed: 1 } },
      lobby: { standingBy: 9 },
    }
    const { scene, fleet } = await opened({ servers: 5 }, builds)
    await fleet.builds.update('lobby', { budget: { priority: 1 } })
    await scene.clock.advance(20_000)
    expect(await counts(fleet)).toEqual({ arena: [0, 0], duel: [0, 0], lobby: [4, 0] })
    const waiting = fleet.allocate({ sessionID: session(1), select }, { waitMs: minute })
    await scene.clock.advance(20_000)
    expect((await waiting).server.name).toMatch(/^duel-/)
  })

  it('gets one as soon as the budget has room', async () => {
    const builds: Builds = {
      lobby: { standingBy: 3, budget: { priority: 1 } },
      arena: { counters, max: 0 },
      duel: { counters },
    }
    const { scene, fleet } = await opened({ servers: 3 }, builds)
    const waiting = fleet.allocate({ sessionID: session(1), select }, { waitMs: minute })
    await scene.clock.advance(10_000)
    await fleet.builds.patch('lobby', { standingBy: 2 })
    await scene.clock.advance(20_000)
    expect((await waiting).server.name).toMatch(/^duel-/)
  })
})

describe('a budget of CPU and memory', () => {
  const template = (cpu: string, memory: string) => ({
    spec: { containers: [{ name: 'game', resources: { requests: { cpu, memory } } }] },
  })

  it('counts what the templates request', async () => {
    const builds: Builds = {
      arena: { standingBy: 9, template: template('2', '1Gi') },
      duel: { standingBy: 9, template: template('500m', '4Gi') },
    }
    const { fleet } = await opened({ cpu: 8, memory: '16Gi' }, builds)
    // Three each take 7.5 CPU and 15Gi, so that neither fits once more.
    expect(await counts(fleet)).toEqual({ arena: [3, 0], duel: [3, 0] })
    expect((await budgetCondition(fleet, 'arena'))?.reason).toBe('Cpu')
    expect((await budgetCondition(fleet, 'duel'))?.reason).toBe('Memory')
    expect((await budgetCondition(fleet, 'duel'))?.message).toMatch(/^the fleet's budget \(8 CPU, 16Gi of memory\)/)
  })
})

describe('the condition', () => {
  it('is cleared within a minute after there is room, and changes at most once a minute', async () => {
    const { scene, fleet } = await opened({ servers: 3 }, { arena: { standingBy: 5 } })
    expect(await budgetCondition(fleet, 'arena')).toBeDefined()
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(2 * minute)
    expect(await budgetCondition(fleet, 'arena')).toBeUndefined()
    const before = scene.eventsOf('ConditionChanged').length
    for (let id = 1; id <= 10; id++) {
      await play(scene, fleet, 'arena', id, 1)
      await fleet.sessions.end(session(id))
    }
    const changes = scene.eventsOf('ConditionChanged').length - before
    expect(changes).toBeLessThanOrEqual(6)
  })

  it('is cleared if the fleet is started without a budget', async () => {
    const { scene, fleet } = await opened({ servers: 3 }, { arena: { standingBy: 5 } })
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(20_000)
    expect(await budgetCondition(next, 'arena')).toBeUndefined()
    expect(await counts(next)).toEqual({ arena: [5, 0] })
  })
})

describe('a restart', () => {
  it('ends no server that the budget allows, and none that is needed', async () => {
    const builds: Builds = { arena: { standingBy: 6 }, duel: { standingBy: 6, budget: { priority: 1, guaranteed: 1 } } }
    const { scene, fleet } = await opened({ servers: 8 }, builds)
    await play(scene, fleet, 'arena', 1, 1)
    const before = await counts(fleet)
    const ended = endings(scene).length
    scene.crash()
    const next = await scene.open({ budget: { servers: 8 } })
    await scene.clock.advance(minute)
    expect(await counts(next)).toEqual(before)
    expect(endings(scene)).toHaveLength(ended)
  })

  it('with a smaller budget ends idle servers, and no match', async () => {
    const { scene, fleet } = await opened({ servers: 8 }, { arena: { standingBy: 4 }, duel: { standingBy: 4 } })
    await play(scene, fleet, 'arena', 1, 3)
    await fleet.close()
    const next = await scene.open({ budget: { servers: 2 } })
    await scene.clock.advance(minute)
    expect(await counts(next)).toEqual({ arena: [3, 3], duel: [0, 0] })
    expect(scene.eventsOf('SessionEnded')).toEqual([])
  })
})

describe('a rolling update', () => {
  it('within a budget that is used up replaces all servers, and exceeds it never', async () => {
    const { scene, fleet } = await opened({ servers: 8 }, { arena: { standingBy: 9 }, duel: { standingBy: 9 } })
    for (const name of ['arena', 'duel']) await fleet.builds.update(name, { buildMetadata: { map: 'dust' } })
    let most = 0
    for (let i = 0; i < 60; i++) {
      await scene.clock.advance(1_000)
      const all = Object.values(await counts(fleet))
      most = Math.max(
        most,
        all.reduce((sum, [servers]) => sum + servers, 0),
      )
    }
    expect(most).toBe(8)
    expect(await counts(fleet)).toEqual({ arena: [4, 0], duel: [4, 0] })
    expect((await statusOf(fleet, 'arena')).rollout).toBeUndefined()
    expect((await statusOf(fleet, 'duel')).rollout).toBeUndefined()
  })
})

describe('a budget that is wrong', () => {
  it.each([
    [{}, 'createFleet: budget must have servers, cpu or memory, but has none of them'],
    [{ servers: 0 }, 'createFleet: budget: servers must be an integer ≥ 1, but is 0'],
    [{ cpu: 'four' }, /^createFleet: budget: cpu must be a Kubernetes quantity above 0, such as 16, '500m' or '64Gi'/],
    [{ memory: -1 }, /^createFleet: budget: memory must be a Kubernetes quantity/],
    [{ severs: 4 }, /^createFleet: budget: unknown option severs/],
  ])('%j is refused by name', async (budget: object, message) => {
    await expect(stage().open({ budget })).rejects.toMatchObject({
      code: 'invalid',
      message: typeof message === 'string' ? message : expect.stringMatching(message),
    })
  })

  it.each([
    [{}, /^spec.budget must/],
    [{ guaranteed: -1 }, /^spec.budget.guaranteed must be an integer ≥ 0, but is -1/],
    [{ prio: 1 }, /^spec.budget.prio is not allowed/],
    [{ priority: 1.5 }, /^spec.budget.priority must be an integer/],
  ])('of a build: %j is refused by name', async (budget: object, message) => {
    const fleet = await stage().open()
    await expect(fleet.builds.create(aBuild({ budget }))).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    })
  })
})

describe('a build with a fault', () => {
  const requesting = (cpu: string) => ({
    spec: { containers: [{ name: 'game', resources: { requests: { cpu } } }] },
  })

  it('that requests too much by mistake takes nothing from others, and its matches count as before', async () => {
    const { scene, fleet } = await opened(
      { cpu: '16' },
      { arena: { standingBy: 2, template: requesting('1') }, duel: { standingBy: 6, template: requesting('1') } },
    )
    await play(scene, fleet, 'arena', 1, 3)
    expect(await counts(fleet)).toEqual({ arena: [5, 3], duel: [6, 0] })
    const before = endings(scene).length
    await fleet.builds.update('arena', { template: requesting('100') })
    await scene.clock.advance(5 * minute)
    expect((await counts(fleet))['duel']).toEqual([6, 0])
    expect((await counts(fleet))['arena']?.[1]).toBe(3)
    const ofDuel = scene
      .eventsOf('ServerEnding')
      .slice(before)
      .filter(({ build }) => build.name === 'duel')
    expect(ofDuel).toEqual([])
  })

  it('that did not fit gets its servers once its request is corrected', async () => {
    const { scene, fleet } = await opened(
      { cpu: '8' },
      { duel: { standingBy: 8, template: requesting('1') }, arena: { standingBy: 2, template: requesting('16') } },
    )
    expect(await counts(fleet)).toEqual({ arena: [0, 0], duel: [8, 0] })
    await fleet.builds.update('arena', { template: requesting('1') })
    await scene.clock.advance(minute)
    expect(await counts(fleet)).toEqual({ arena: [2, 0], duel: [6, 0] })
  })

  it('with a request beyond all numbers stops no other build, and a negative one is refused', async () => {
    const { scene, fleet } = await opened({ servers: 10 }, { duel: { standingBy: 2 } })
    const build = (name: string, cpu: string) => {
      const { metadata, spec } = aBuild({ name, standingBy: 1, portsToExpose: [] })
      return fleet.builds.create({ metadata, spec: { ...spec, template: requesting(cpu) } })
    }
    await build('arena', '1e400')
    await fleet.builds.patch('duel', { standingBy: 4 })
    await scene.clock.advance(30_000)
    expect((await counts(fleet))['duel']).toEqual([4, 0])
    await expect(build('other', '-4')).rejects.toMatchObject({ code: 'invalid' })
    await expect(build('other', 'lots')).rejects.toMatchObject({ code: 'invalid' })
  })

  it('whose servers crash takes no more from others than its next attempt', async () => {
    const script = ({ build }: { readonly build: { readonly name: string } }) =>
      build.name === 'broken' ? { exitsWith: 1 } : {}
    const { scene, fleet } = await opened({ servers: 10 }, { duel: { standingBy: 8 } }, { memory: { script } })
    const { metadata, spec } = aBuild({ name: 'broken', standingBy: 8, max: 20, portsToExpose: [] })
    await fleet.builds.create({ metadata, spec: { ...spec, budget: { priority: 10 } } })
    await scene.clock.advance(10 * minute)
    expect((await counts(fleet))['duel']?.[0]).toBeGreaterThanOrEqual(7)
  })
})

it('callers are refused for the budget only as long as it has no room', async () => {
  const { scene, fleet } = await opened({ servers: 3 }, { arena: { standingBy: 0 }, duel: { standingBy: 2 } })
  await play(scene, fleet, 'arena', 1, 1)
  await play(scene, fleet, 'duel', 2, 2)
  expect(await failureOf(fleet.allocate(ask(9, { buildID: 'arena' })))).toMatchObject({ code: 'max-reached' })
  await fleet.builds.patch('duel', { standingBy: 0 })
  await fleet.sessions.end(session(2))
  await scene.clock.advance(20_000)
  expect(await failureOf(fleet.allocate(ask(10, { buildID: 'arena' })))).toMatchObject({ code: 'none-standing-by' })
})

describe('after a restart', () => {
  it('a build gives nothing to one that turns out to want nothing', async () => {
    const { scene, fleet } = await opened(
      { servers: 10 },
      { old: { standingBy: 0, max: 8, budget: { priority: 5 } }, live: { standingBy: 10 } },
    )
    await fleet.builds.drain('old')
    await fleet.builds.patch('old', { standingBy: 8 })
    await scene.clock.advance(minute)
    expect((await counts(fleet))['live']).toEqual([10, 0])
    const before = endings(scene).length
    await fleet.close()
    const next = await scene.open({ budget: { servers: 10 } })
    await scene.clock.advance(2 * minute)
    expect((await counts(next))['live']).toEqual([10, 0])
    expect(endings(scene).slice(before)).toEqual([])
  })
})

it('callers who wait for any of several builds move to one whose share has become larger, all of them', async () => {
  const { scene, fleet } = await opened(
    { servers: 6 },
    { arena: { standingBy: 0 }, duel: { standingBy: 6, budget: { priority: 1 } } },
  )
  await play(scene, fleet, 'duel', 1, 6)
  const select = [{ builds: ['arena'] }]
  const calls = Array.from({ length: 4 }, (_, i) =>
    fleet.allocate({ sessionID: session(20 + i), select }, { waitMs: minute }),
  )
  await scene.clock.advance(5_000)
  for (let id = 1; id <= 6; id++) await fleet.sessions.end(session(id))
  await fleet.builds.patch('duel', { standingBy: 0 })
  await scene.clock.advance(30_000)
  expect(await Promise.all(calls)).toHaveLength(4)
})
