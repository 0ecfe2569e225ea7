/** Scaling policies of builds, through the facade: what they keep ready, and what they say of it. */
import type { BuildSpec, Fleet } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, session, type Stage, stage } from './stage.js'

const minute = 60_000

async function opened(spec: Partial<BuildSpec>, options: Parameters<typeof stage>[0] = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 0, max: 100, ...spec }))
  await scene.clock.advance(10_000)
  return { scene, fleet }
}

async function ready(fleet: Fleet): Promise<number> {
  return (await fleet.builds.get('arena')).status.currentStandingBy
}

async function play(scene: Stage, fleet: Fleet, first: number, count: number): Promise<void> {
  for (let id = first; id < first + count; id++) await fleet.allocate(ask(id), { waitMs: 60_000 })
  await scene.clock.advance(10_000)
}

describe('a buffer', () => {
  it('follows the servers in use at once, and falls after its delay, a few a minute', async () => {
    const { scene, fleet } = await opened({
      scaling: { buffer: { min: 2, percent: 50 }, scaleDown: { delaySeconds: 120, perMinute: 2 } },
    })
    expect(await ready(fleet)).toBe(2)
    await play(scene, fleet, 1, 10)
    expect(await ready(fleet)).toBe(5)
    expect((await fleet.builds.get('arena')).status).toMatchObject({
      currentStandingByReadyDesired: '5/5',
      scaling: {
        standingBy: 5,
        decider: 'buffer',
        message: 'standingBy asks for 0; buffer asks for 5 (50 % of 10 in use)',
      },
    })
    for (let id = 1; id <= 10; id++) await fleet.sessions.end(session(id))
    await scene.clock.advance(110_000)
    expect(await ready(fleet)).toBe(5)
    await scene.clock.advance(20_000)
    expect(await ready(fleet)).toBe(4)
    await scene.clock.advance(minute)
    expect(await ready(fleet)).toBe(2)
    await scene.clock.advance(10 * minute)
    expect(await ready(fleet)).toBe(2)
    expect(scene.eventsOf('StandingByDecided').map(({ before, standingBy }) => [before, standingBy])).toEqual([
      [2, 5],
      [5, 4],
      [4, 2],
    ])
  })

  it('counts to max with the servers in use', async () => {
    const { scene, fleet } = await opened({ max: 6, scaling: { buffer: { min: 1, percent: 100 } } })
    await play(scene, fleet, 1, 4)
    expect(await ready(fleet)).toBe(2)
  })

  it('is patient after a restart, too', async () => {
    const { scene, fleet } = await opened({ scaling: { buffer: { percent: 100 }, scaleDown: { delaySeconds: 120 } } })
    await play(scene, fleet, 1, 4)
    expect(await ready(fleet)).toBe(4)
    for (let id = 1; id <= 4; id++) await fleet.sessions.end(session(id))
    await scene.clock.advance(20_000)
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(100_000)
    expect(await ready(next)).toBe(4)
    await scene.clock.advance(5 * minute)
    expect(await ready(next)).toBe(0)
  })
})

describe('a schedule', () => {
  it('opens and closes at its times, without anything else that happens', async () => {
    const scene = stage()
    const fleet = await scene.open()
    const open = new Date(scene.clock.now() + 10 * minute)
    const close = new Date(scene.clock.now() + 30 * minute)
    const cron = (date: Date) => `${date.getUTCMinutes()} ${date.getUTCHours()} * * *`
    const windows = [{ name: 'match day', start: cron(open), end: cron(close), min: 7 }]
    const scaling = { schedule: { timeZone: 'UTC', windows }, scaleDown: { delaySeconds: 0, perMinute: 100_000 } }
    await fleet.builds.create(aBuild({ standingBy: 1, max: 10, scaling }))
    await scene.clock.advance(8 * minute)
    expect(await ready(fleet)).toBe(1)
    await scene.clock.advance(3 * minute)
    expect(await ready(fleet)).toBe(7)
    expect((await fleet.builds.get('arena')).status.scaling?.message).toBe(
      'standingBy asks for 1; schedule (match day) asks for 7',
    )
    await scene.clock.advance(20 * minute)
    expect(await ready(fleet)).toBe(1)
  })
})

describe('a build that nobody uses', () => {
  const scaling = { idleSeconds: 600 }

  it('keeps nothing, and starts one for the first caller, who waits', async () => {
    const { scene, fleet } = await opened({ standingBy: 2, scaling })
    await scene.clock.advance(5 * minute)
    expect(await ready(fleet)).toBe(2)
    await scene.clock.advance(6 * minute)
    expect(await ready(fleet)).toBe(0)
    const waiting = fleet.allocate(ask(1), { waitMs: 30_000 })
    await scene.clock.advance(10_000)
    expect((await waiting).SessionID).toBe(session(1))
    expect(await ready(fleet)).toBe(2)
    await scene.clock.advance(20 * minute)
    expect(await ready(fleet)).toBe(2)
    await fleet.sessions.end(session(1))
    await scene.clock.advance(11 * minute)
    expect(await ready(fleet)).toBe(0)
  })

  it('stays so after a restart', async () => {
    const { scene, fleet } = await opened({ standingBy: 2, scaling })
    await scene.clock.advance(15 * minute)
    expect(await ready(fleet)).toBe(0)
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(minute)
    expect(await ready(next)).toBe(0)
    expect((await next.builds.get('arena')).status.scaling?.decider).toBe('idle')
  })

  it('wakes for a caller who does not wait, and is refused', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, scaling })
    await scene.clock.advance(11 * minute)
    await expect(fleet.allocate(ask(1))).rejects.toMatchObject({ code: 'none-standing-by' })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(1)
    expect((await fleet.allocate(ask(1))).SessionID).toBe(session(1))
  })
})

describe('a number that is set by hand', () => {
  const scaling = { buffer: { min: 5 }, scaleDown: { delaySeconds: 0, perMinute: 100_000 }, overrideSeconds: 1_800 }

  it('holds for its time instead of the policies, over a restart, and says until when', async () => {
    const { scene, fleet } = await opened({ scaling })
    expect(await ready(fleet)).toBe(5)
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(10_000)
    const { status } = await fleet.builds.get('arena')
    expect(status.currentStandingBy).toBe(1)
    expect(status.scaling).toMatchObject({ standingBy: 1, decider: 'override' })
    expect(status.conditions?.map(({ type, reason }) => [type, reason])).toEqual([['ScalingOverridden', 'SetByHand']])
    expect(status.conditions?.[0]?.message).toMatch(
      /^standingBy was set from 0 to 1, which holds instead of the scaling policies until \d{4}-/,
    )
    expect((await fleet.problems()).map(({ kind, severity }) => [kind, severity])).toEqual([
      ['ScalingOverridden', 'drained'],
    ])
    await scene.clock.advance(15 * minute)
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(10 * minute)
    expect(await ready(next)).toBe(1)
    await scene.clock.advance(6 * minute)
    expect(await ready(next)).toBe(5)
    expect((await next.builds.get('arena')).status.conditions).toBeUndefined()
  })

  it('holds anew if another is set, and not if the policies change', async () => {
    const { scene, fleet } = await opened({ scaling })
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(20 * minute)
    await fleet.builds.patch('arena', { standingBy: 2 })
    await scene.clock.advance(20 * minute)
    expect(await ready(fleet)).toBe(2)
    await fleet.builds.update('arena', { scaling: { ...scaling, buffer: { min: 6 } } })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(6)
    expect((await fleet.builds.get('arena')).status.conditions).toBeUndefined()
  })

  it('is over when the number is put back, and is none if more of the spec is changed with it', async () => {
    const { scene, fleet } = await opened({ scaling })
    await fleet.builds.update('arena', { standingBy: 9 })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(9)
    await fleet.builds.update('arena', { standingBy: 0 })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(5)
    await fleet.builds.update('arena', { standingBy: 1, seatsPerSession: 4 })
    await scene.clock.advance(10_000)
    expect([await ready(fleet), (await fleet.builds.get('arena')).status.conditions]).toEqual([5, undefined])
  })

  it('holds even if standingBy was that already', async () => {
    const { scene, fleet } = await opened({ scaling })
    await fleet.builds.patch('arena', { standingBy: 0 })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(0)
    await fleet.builds.patch('arena', { max: 50 })
    await scene.clock.advance(31 * minute)
    expect(await ready(fleet)).toBe(5)
  })

  it('is one of the policies if the build allows no override', async () => {
    const { scene, fleet } = await opened({ scaling: { ...scaling, overrideSeconds: 0 } })
    await fleet.builds.patch('arena', { standingBy: 7 })
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(7)
    expect((await fleet.builds.get('arena')).status.conditions).toBeUndefined()
  })

  it('is standingBy again without policies', async () => {
    const { scene, fleet } = await opened({ scaling })
    await fleet.builds.patch('arena', { standingBy: 1 })
    await scene.clock.advance(10_000)
    await fleet.builds.update('arena', { scaling: undefined })
    await scene.clock.advance(10_000)
    const { spec, status } = await fleet.builds.get('arena')
    expect([spec.scaling, status.scaling, status.conditions, status.currentStandingBy]).toEqual([
      undefined,
      undefined,
      undefined,
      1,
    ])
  })
})

describe('idle servers that have been standing by for too long', () => {
  it('are replaced a few at a time, and never one with a session', async () => {
    const { scene, fleet } = await opened({ standingBy: 20, scaling: { maxIdleAgeSeconds: 3_600 } })
    await play(scene, fleet, 1, 1)
    const before = new Set((await fleet.servers.list()).map(({ metadata }) => metadata.name))
    let fewest = 20
    let replacing = 0
    for (let i = 0; i < 120; i++) {
      await scene.clock.advance(minute)
      fewest = Math.min(fewest, await ready(fleet))
      replacing = Math.max(replacing, (await fleet.servers.list()).length - 21)
    }
    const left = (await fleet.servers.list()).filter(({ metadata }) => before.has(metadata.name))
    expect(left.map(({ status }) => status.sessionID)).toEqual([session(1)])
    expect(fewest).toBeGreaterThanOrEqual(20)
    expect(replacing).toBeLessThanOrEqual(5)
    const ended = scene.eventsOf('ServerEnding')
    expect(
      ended.every(({ message, reason }) => reason === 'Replaced' && message.includes('standing by for too long')),
    ).toBe(true)
    expect((await fleet.builds.get('arena')).status.rollout).toBeUndefined()
  })

  it('are replaced only while the window is open', async () => {
    const scene = stage()
    const fleet = await scene.open()
    const hour = new Date(scene.clock.now() + 4 * 60 * minute).getUTCHours()
    const replaceWindow = { timeZone: 'UTC', start: `0 ${hour} * * *`, end: `30 ${hour} * * *` }
    await fleet.builds.create(aBuild({ standingBy: 3, max: 10, scaling: { maxIdleAgeSeconds: 3_600, replaceWindow } }))
    await scene.clock.advance(3 * 60 * minute)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    await scene.clock.advance(2 * 60 * minute)
    expect(scene.eventsOf('ServerEnding')).toHaveLength(3)
  })
})

describe('scaling policies that are wrong', () => {
  it.each([
    [{}, /^spec.scaling must/],
    [{ bufer: { min: 1 } }, /^spec.scaling.bufer is not allow/],
    [{ buffer: { max: 3 } }, /^spec.scaling.buffer must have min, percent or both/],
    [
      { buffer: { min: 4, max: 3 } },
      /^spec.scaling.buffer.min must be at most spec.scaling.buffer.max, but min is 4 and max is 3/,
    ],
    [
      { schedule: { timeZone: 'Berlin', windows: [{ start: '0 1 * * *', end: '0 2 * * *', min: 1 }] } },
      /^spec.scaling.schedule.timeZone must be the name of a time zone/,
    ],
    [
      { schedule: { timeZone: 'UTC', windows: [{ start: '0 1 * * *', end: '0 25 * * *', min: 1 }] } },
      /^spec.scaling.schedule.windows\[0\].end must be a cron expression/,
    ],
    [
      { schedule: { timeZone: 'UTC', windows: [{ start: '0 1 * * *', end: '0 2 * * *' }] } },
      /^spec.scaling.schedule.windows\[0\] must have min, percent or both/,
    ],
    [{ replaceWindow: { timeZone: 'UTC', start: '0 1 * * *', end: '0 2 * * *' } }, /^spec.scaling.*maxIdleAgeSeconds/],
    [{ buffer: { min: -1 } }, /^spec.scaling.buffer.min must be an integer ≥ 0, but is -1/],
  ])('%j are refused by name', async (scaling: object, message) => {
    const fleet = await stage().open()
    await expect(fleet.builds.create(aBuild({ scaling }))).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    })
    expect(await fleet.builds.list()).toEqual([])
  })
})

describe('a forecast', () => {
  const hour = 60 * minute
  const day = 24 * hour
  const rareHeartbeats = {
    memory: { heartbeatIntervalMs: 5 * minute },
    limits: { heartbeatIntervalMs: 5 * minute, silenceMs: 15 * minute },
  }

  it('keeps as many ready as came yesterday at that time, before they come', async () => {
    const scaling = { forecast: { aheadSeconds: 300 }, scaleDown: { delaySeconds: 0, perMinute: 1_000 } }
    const scene = stage(rareHeartbeats)
    const yesterday = {
      ...{ namespace: 'default', name: 'arena.2024-12-31', build: 'arena', day: '2024-12-31' },
      // From 02:00 to 02:30, four callers a minute.
      asked: [...Array<number>(120).fill(0), ...Array<number>(30).fill(4)],
      ...{ refused: [], inUse: [], waits: {}, starts: {}, sessions: {} },
    }
    await scene.records.demand?.create(yesterday)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 100, scaling }))
    await scene.clock.advance(10_000)
    expect(await ready(fleet)).toBe(1)
    await scene.clock.advance(hour + 57 * minute)
    expect(await ready(fleet)).toBeGreaterThanOrEqual(15)
    expect((await fleet.builds.get('arena')).status.scaling).toMatchObject({
      decider: 'forecast',
      message: expect.stringMatching(/forecast asks for \d+ \(\d+ callers are expected within 300 s, as yesterday\)/),
    })
    await scene.clock.advance(hour)
    expect(await ready(fleet)).toBe(1)
  })

  it('is not misled by a restart, and reads again what it could not', async () => {
    const scaling = { forecast: { aheadSeconds: 300 }, scaleDown: { delaySeconds: 0, perMinute: 1_000 } }
    const scene = stage(rareHeartbeats)
    const dayOf = (day: string, minutes: number) => ({
      ...{ namespace: 'default', name: `arena.${day}`, build: 'arena', day },
      asked: Array<number>(minutes).fill(4),
      ...{ refused: [], inUse: [], waits: {}, starts: {}, sessions: {} },
    })
    await scene.records.demand?.create(dayOf('2024-12-31', 1_440))
    await scene.records.demand?.create(dayOf('2025-01-01', 200))
    await scene.clock.advance(200 * minute)
    const failing = new Set(['arena.2024-12-31'])
    scene.faults.store = ({ method, ref }) =>
      method === 'demand.get' && ref && failing.delete(ref.name) ? { kind: 'refuse' } : undefined
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 100, scaling }))
    await scene.clock.advance(90_000)
    // As many came in the last hour as yesterday, so it does not say that there are fewer.
    expect((await fleet.builds.get('arena')).status.scaling?.message).toMatch(
      /forecast asks for 34 \(20 callers are expected within 300 s, as yesterday\)/,
    )
  })

  it('asks for nothing while nothing is known, and learns from its own days', async () => {
    const { scene, fleet } = await opened(
      { standingBy: 1, scaling: { forecast: { aheadSeconds: 600 } } },
      rareHeartbeats,
    )
    expect((await fleet.builds.get('arena')).status.scaling?.message).toContain(
      'forecast asks for 0 (nothing is known of yesterday and a week ago)',
    )
    for (let id = 1; id <= 30; id++) {
      await scene.clock.run(fleet.allocate(ask(id), { waitMs: 60_000 }))
      await scene.clock.advance(minute)
      await fleet.sessions.end(session(id))
    }
    await scene.clock.advance(day - 30 * minute)
    expect(await ready(fleet)).toBeGreaterThan(4)
  })
})
