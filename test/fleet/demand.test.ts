/** The demand for builds, as it is recorded, through the facade. */
import type { Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, session, type Stage, stage } from './stage.js'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

async function opened(options: Parameters<typeof stage>[0] = {}, build = aBuild({ standingBy: 2, max: 3 })) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(build)
  await scene.clock.advance(10_000)
  return { scene, fleet }
}

function sum(numbers: readonly number[] | undefined): number {
  return (numbers ?? []).reduce((total, one) => total + one, 0)
}

async function today(fleet: Fleet) {
  return (await fleet.builds.demand('arena')).days.at(-1)
}

async function refusedCall(fleet: Fleet, scene: Stage, id: number, waitMs = 0): Promise<void> {
  await expect(scene.clock.run(fleet.allocate(ask(id), { waitMs }))).rejects.toThrow()
}

describe('what is recorded', () => {
  it('is who came, who was refused, how many servers were in use, and how long everything took', async () => {
    const { scene, fleet } = await opened()
    for (const id of [1, 2, 3]) await scene.clock.run(fleet.allocate(ask(id), { waitMs: 20_000 }))
    await refusedCall(fleet, scene, 4)
    await scene.clock.advance(10 * minute)
    await fleet.sessions.end(session(1))
    await scene.clock.advance(minute)
    const recorded = await today(fleet)
    expect(recorded?.day).toBe('2025-01-01')
    expect([sum(recorded?.asked), sum(recorded?.refused)]).toEqual([4, 1])
    expect(recorded?.inUse.slice(0, 10)).toEqual(Array(10).fill(3))
    expect(recorded?.inUse.at(-1)).toBe(2)
    expect(sum(Object.values(recorded?.waits ?? {}))).toBe(3)
    expect(sum(Object.values(recorded?.starts ?? {}))).toBeGreaterThanOrEqual(3)
    expect(Object.keys(recorded?.sessions ?? {})).toEqual(['0'])
  })

  it('counts a session once, however often it is asked for, and as refused if it ever was', async () => {
    const { scene, fleet } = await opened({}, aBuild({ standingBy: 1, max: 1 }))
    await fleet.allocate(ask(1))
    await fleet.allocate(ask(1))
    await refusedCall(fleet, scene, 2)
    await refusedCall(fleet, scene, 2, 5_000)
    await fleet.sessions.end(session(1))
    await scene.clock.run(fleet.allocate(ask(2), { waitMs: minute }))
    const recorded = await today(fleet)
    expect([sum(recorded?.asked), sum(recorded?.refused)]).toEqual([2, 1])
    expect(sum(Object.values(recorded?.waits ?? {}))).toBe(2)
  })

  it('counts a session for each build that it is asked of', async () => {
    const { scene, fleet } = await opened({}, aBuild({ standingBy: 0, max: 0 }))
    await fleet.builds.create(aBuild({ name: 'duel', standingBy: 1, max: 1 }))
    await scene.clock.advance(10_000)
    await refusedCall(fleet, scene, 1)
    await fleet.allocate({ ...ask(1), buildID: 'duel' })
    expect(sum((await today(fleet))?.asked)).toBe(1)
    const [duel] = (await fleet.builds.demand('duel')).days
    expect([sum(duel?.asked), sum(duel?.refused)]).toEqual([1, 0])
  })

  it('counts those who give up while they wait, and those for whom there is no room to wait', async () => {
    const { scene, fleet } = await opened({ limits: { maxWaiting: 1 } }, aBuild({ standingBy: 0, max: 0 }))
    const leaving = new AbortController()
    const waiting = fleet.allocate(ask(1), { waitMs: 50_000, signal: leaving.signal })
    await scene.clock.settle()
    await expect(fleet.allocate(ask(2), { waitMs: 50_000 })).rejects.toThrow()
    leaving.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'aborted' })
    const recorded = await today(fleet)
    expect([sum(recorded?.asked), sum(recorded?.refused)]).toEqual([2, 2])
  })

  it('does not count those whom no new server would fit', async () => {
    const { scene, fleet } = await opened()
    const select = [{ builds: ['arena'], matchLabels: { map: 'none' } }]
    await expect(scene.clock.run(fleet.allocate({ sessionID: session(9), select }))).rejects.toMatchObject({
      code: 'none-standing-by',
    })
    expect((await fleet.builds.demand('arena')).days).toEqual([])
  })

  it('counts a caller in the minute in which it came', async () => {
    const { scene, fleet } = await opened({}, aBuild({ standingBy: 0, max: 0 }))
    await scene.clock.advance(2 * minute)
    await refusedCall(fleet, scene, 1, minute)
    expect((await today(fleet))?.asked).toEqual([0, 0, 1])
  })

  it('has nothing of a build that nobody uses', async () => {
    const { scene } = await opened()
    await scene.clock.advance(day)
    expect(await scene.records.demand?.list()).toEqual([])
  })
})

describe('the record', () => {
  it('is written every few minutes and at close, and continued by the next host', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    await scene.clock.advance(5 * minute)
    expect((await scene.records.demand?.list())?.map(({ record }) => record.name)).toEqual(['arena.2025-01-01'])
    await fleet.allocate(ask(2))
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(30 * minute)
    await next.sessions.end(session(1))
    await scene.clock.advance(minute)
    const recorded = await today(next)
    expect(sum(recorded?.asked)).toBe(2)
    expect(recorded?.inUse.slice(1, 30)).toEqual([1, 1, 1, 1, ...Array<number>(25).fill(2)])
  })

  it('has what a killed host had written, and goes on', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    await scene.clock.advance(6 * minute)
    scene.crash()
    const next = await scene.open()
    await scene.clock.advance(6 * minute)
    expect(sum((await today(next))?.asked)).toBe(1)
    expect(await scene.records.demand?.list()).toHaveLength(1)
  })

  it('survives writes that fail or whose answer is lost', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    let writes = 0
    scene.faults.store = ({ method }) =>
      /^demand\.(create|update)/.test(method)
        ? { kind: ++writes % 2 === 1 ? 'refuse' : 'lose-reply', error: new Error('the disk is on fire') }
        : undefined
    for (let i = 0; i < 6; i++) {
      await scene.clock.advance(5 * minute)
      await scene.clock.run(fleet.allocate(ask(10 + i)).catch(() => undefined))
    }
    scene.faults.store = () => undefined
    await scene.clock.advance(10 * minute)
    expect(writes).toBeGreaterThan(3)
    const [stored] = (await scene.records.demand?.list()) ?? []
    expect(stored?.record.asked).toEqual((await today(fleet))?.asked)
  })

  it('of a day that has ended is written once the store works again', async () => {
    const { scene, fleet } = await opened()
    await scene.clock.advance(day - 2 * minute)
    await fleet.allocate(ask(1))
    scene.faults.store = ({ method }) => (method.startsWith('demand.') ? { kind: 'refuse' } : undefined)
    await scene.clock.advance(10 * minute)
    scene.faults.store = () => undefined
    await scene.clock.advance(10 * minute)
    const stored = (await scene.records.demand?.list())?.map(({ record }) => [record.day, sum(record.asked)])
    expect(stored).toContainEqual(['2025-01-01', 1])
  })

  it('of a day is whole if the host changed shortly before midnight', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    await scene.clock.advance(day - 2 * minute)
    await fleet.close()
    const next = await scene.open()
    await next.allocate(ask(2))
    await scene.clock.advance(6 * minute)
    const [first, second] = (await next.builds.demand('arena')).days
    expect([first?.day, sum(first?.asked), second?.day]).toEqual(['2025-01-01', 2, '2025-01-02'])
  })

  it('is of the right day after the clock was set ahead and back', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    scene.clock.jumpWall(30 * day)
    await scene.clock.advance(20_000)
    scene.clock.jumpWall(-30 * day)
    await fleet.allocate(ask(2))
    expect((await today(fleet))?.day).toBe('2025-01-01')
    expect(sum((await today(fleet))?.asked)).toBe(2)
  })

  it('is gone with a build that is deleted while it is written', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    scene.faults.store = ({ method }) => (method === 'demand.create' ? { kind: 'delay-reply', ms: 20_000 } : undefined)
    await scene.clock.advance(5 * minute - 5_000)
    await scene.clock.run(fleet.builds.delete('arena'))
    await scene.clock.advance(minute)
    expect(await scene.records.demand?.list()).toEqual([])
  })

  it('that cannot be written is told once', async () => {
    const warned: string[] = []
    const logger = {
      trace() {},
      debug() {},
      info() {},
      error() {},
      warn: (_: object, text?: string) => void warned.push(text ?? ''),
    }
    const scene = stage()
    const fleet = await scene.open({ logger: logger as never })
    await fleet.builds.create(aBuild())
    await scene.clock.advance(10_000)
    await fleet.allocate(ask(1))
    scene.faults.store = ({ method }) => (method.startsWith('demand.') ? { kind: 'refuse' } : undefined)
    await scene.clock.advance(20 * minute)
    expect(warned.filter((text) => text.startsWith('the demand for builds is not recorded'))).toHaveLength(1)
  })

  it('is kept for limits.demandDays days, and deleted with its build', async () => {
    const { scene, fleet } = await opened({ limits: { demandDays: 2 } })
    await fleet.allocate(ask(1))
    await scene.clock.advance(4 * day)
    const days = (await scene.records.demand?.list())?.map(({ record }) => record.day)
    expect(days).toEqual(['2025-01-04', '2025-01-05'])
    expect((await fleet.builds.demand('arena')).days.map((one) => one.day)).toEqual(days)
    await fleet.builds.delete('arena')
    await scene.clock.advance(10 * minute)
    expect(await scene.records.demand?.list()).toEqual([])
  })

  it('is not kept with limits.demandDays 0', async () => {
    const { scene, fleet } = await opened({ limits: { demandDays: 0 } })
    await fleet.allocate(ask(1))
    await scene.clock.advance(10 * minute)
    expect(await scene.records.demand?.list()).toEqual([])
    await expect(fleet.builds.demand('arena')).rejects.toMatchObject({
      code: 'unsupported',
      message: 'the demand for builds is not recorded: limits.demandDays is 0',
    })
  })
})
