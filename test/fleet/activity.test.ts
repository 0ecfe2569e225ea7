/** The last hour of a fleet and of its builds, minute by minute. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, type BuildOverrides, playing, stage, untilReady } from './stage.js'

const minuteMs = 60_000

async function opened(spec: BuildOverrides = {}) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 2, max: 4, ...spec }))
  await untilReady(scene, fleet, spec.standingBy ?? 2)
  return { scene, fleet }
}

describe('the activity of a fleet', () => {
  it('has the current minute with its servers, allocations and players', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    ;(await playing(scene, fleet, 1)).players(['amie', 'bo'])
    const { since, minutes, crashes } = await fleet.activity()
    expect(minutes.at(-1)).toMatchObject({ allocations: 1, players: 2, waiting: 0, crashes: 0, p50Ms: 0, p99Ms: 0 })
    expect(minutes.at(-1)?.servers).toEqual(fleet.stats().builds[0]?.servers)
    expect(since).toBeLessThanOrEqual(scene.clock.now())
    expect(crashes).toEqual([])
  })

  it('has how many are wanted ready, by a policy or standingBy, and who was refused', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    await fleet.allocate(ask(1))
    for (const id of [2, 3]) await expect(fleet.allocate(ask(id))).rejects.toThrow()
    const [last] = (await fleet.activity({ build: 'arena' })).minutes.slice(-1)
    expect(last).toMatchObject({ allocations: 1, refused: 2, wanted: 1 })
    await fleet.builds.update('arena', { max: 9, scaling: { buffer: { min: 4 } } })
    await scene.clock.advance(20_000)
    expect((await fleet.activity()).minutes.at(-1)).toMatchObject({ wanted: 4 })
  })

  it('begins when the host begins to lead, and ends after an hour', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    const begin = (await fleet.activity()).minutes.length
    expect(begin).toBeLessThanOrEqual(2)
    await scene.clock.advance(20 * minuteMs)
    expect((await fleet.activity()).minutes).toHaveLength(begin + 20)
    await scene.clock.advance(60 * minuteMs)
    const { minutes } = await fleet.activity()
    expect(minutes).toHaveLength(60)
    expect(minutes.every(({ allocations }) => allocations === 0)).toBe(true)
    expect(minutes.map(({ at }) => at)).toEqual(
      Array.from({ length: 60 }, (_, index) => (minutes[0]?.at ?? 0) + index * minuteMs),
    )
  })

  it('counts sessions and hours of servers, of the fleet and of a build', async () => {
    const { scene, fleet } = await opened()
    await fleet.builds.create(aBuild({ name: 'duel', buildID: 'duel-1', standingBy: 1, max: 1 }))
    const before = await fleet.activity()
    await fleet.allocate(ask(1))
    await scene.clock.advance(60 * minuteMs)
    const { totals } = await fleet.activity()
    expect(totals.sessions).toBe(1)
    // Three that stand by and the one with the session.
    expect(totals.serverHours - before.totals.serverHours).toBeCloseTo(4, 1)
    const ofBuild = (await fleet.activity({ build: 'duel' })).totals
    expect([ofBuild.sessions, Math.round(10 * ofBuild.serverHours)]).toEqual([0, 10])
  })

  it('says how long allocations took, and how many callers waited', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 1 })
    await fleet.allocate(ask(1))
    const waiting = fleet.allocate(ask(2), { waitMs: 30_000 })
    await scene.clock.advance(10_000)
    expect((await fleet.activity()).minutes.at(-1)).toMatchObject({ waiting: 1 })
    await fleet.sessions.end(ask(1).sessionID)
    await scene.clock.advance(10_000)
    await waiting
    const minute = (await fleet.activity()).minutes.findLast(({ allocations }) => allocations > 0)
    expect(minute?.p99Ms).toBeGreaterThanOrEqual(10_000)
    expect(minute?.waiting).toBe(1)
  })

  it('has the crashes of the last hour, of all builds or of one', async () => {
    const { scene, fleet } = await opened()
    await fleet.allocate(ask(1))
    const server = await playing(scene, fleet, 1)
    server.exit(1)
    await scene.clock.settle()
    await untilReady(scene, fleet, 2)
    const { crashes, minutes } = await fleet.activity({ build: 'arena' })
    expect(crashes).toMatchObject([{ build: { name: 'arena' }, server: server.ref, reason: 'NonZeroExit' }])
    expect(minutes.reduce((sum, minute) => sum + minute.crashes, 0)).toBe(1)
    expect((await fleet.activity()).crashes).toEqual(crashes)
    await scene.clock.advance(61 * minuteMs)
    const later = await fleet.activity({ build: 'arena' })
    expect(later.minutes.some((minute) => minute.crashes > 0)).toBe(false)
    expect(later.crashes).toEqual(crashes)
  })

  it('has the latest ten crashes of a build after a restart, newest first', async () => {
    const { scene, fleet } = await opened({ standingBy: 1, max: 20 })
    for (let i = 1; i <= 12; i++) {
      await fleet.allocate(ask(i))
      ;(await playing(scene, fleet, i)).exit(i)
      await scene.clock.advance(2 * minuteMs)
    }
    const before = (await fleet.activity()).crashes
    expect(before).toHaveLength(12)
    await fleet.close()
    const next = await scene.open()
    const { crashes, minutes } = await next.activity()
    expect(crashes).toEqual(before.slice(0, 10))
    expect(crashes[0]?.message).toBe('the process exited with code 12')
    // What happened in the minutes before is not known.
    expect(minutes.some((minute) => minute.crashes > 0)).toBe(false)
  })

  it('is refused for a build that does not exist, and forgets one that is deleted', async () => {
    const { scene, fleet } = await opened()
    await expect(fleet.activity({ build: 'dust' })).rejects.toMatchObject({ code: 'not-found' })
    await fleet.allocate(ask(1))
    const deleted = fleet.builds.delete('arena')
    await scene.clock.advance(2 * minuteMs)
    await deleted
    await fleet.builds.create(aBuild())
    const { minutes } = await fleet.activity({ build: 'arena' })
    expect(minutes.map(({ allocations }) => allocations)).toEqual([0])
    expect((await fleet.activity()).minutes.some(({ allocations }) => allocations === 1)).toBe(true)
  })
})
