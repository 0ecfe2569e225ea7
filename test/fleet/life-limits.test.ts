/** `spec.health`: per-build time limits that replace the fleet's, and limits that only a build can set. */
import { describe, expect, it } from 'vitest'
import type { Fleet, HealthLimits } from 'gamekeeper'
import { aBuild, ask, failureOf, only, playing, type Stage, stage, statusOf, untilReady } from './stage.js'

async function withHealth(s: Stage, health: HealthLimits): Promise<Fleet> {
  const fleet = await s.open()
  const build = aBuild({ standingBy: 1, max: 2 })
  await fleet.builds.create({ ...build, spec: { ...build.spec, health } })
  return fleet
}

const endings = (s: Stage) => s.eventsOf('ServerEnding').map(({ reason }) => reason)

describe('time limits of a build', () => {
  it('firstHeartbeatSeconds overrides the default of 60 s', async () => {
    const s = stage({ memory: { script: 'manual' } })
    await withHealth(s, { firstHeartbeatSeconds: 5 })
    await s.clock.advance(4_000)
    expect(endings(s)).toEqual([])
    await s.clock.advance(3_000)
    expect(endings(s)).toEqual(['NeverSpoke'])
  })

  it('silenceSeconds overrides the default of 10 s', async () => {
    const s = stage()
    const fleet = await withHealth(s, { silenceSeconds: 30 })
    await untilReady(s, fleet, 1)
    only(s.backend.servers()).silence()
    await s.clock.advance(28_000)
    expect(endings(s)).toEqual([])
    await s.clock.advance(4_000)
    expect(endings(s)).toEqual(['Silent'])
  })

  it('initializingSeconds terminates a server that sends heartbeats but never becomes StandingBy, and counts one crash', async () => {
    const s = stage({ memory: { script: 'manual' } })
    const fleet = await withHealth(s, { initializingSeconds: 20 })
    await s.clock.advance(1_000)
    const game = only(s.backend.servers())
    for (let i = 0; i < 18; i++) {
      game.heartbeat({ state: 'Initializing' })
      await s.clock.advance(1_000)
    }
    expect(endings(s)).toEqual([])
    game.heartbeat({ state: 'Initializing' })
    await s.clock.advance(3_000)
    expect(endings(s)).toEqual(['NeverReady'])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it('sessionSeconds sets a condition and terminates no server', async () => {
    const s = stage()
    const fleet = await withHealth(s, { sessionSeconds: 600 })
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    const match = await playing(s, fleet, 1)
    await s.clock.advance(590_000)
    expect((await statusOf(fleet)).conditions).toBeUndefined()
    await s.clock.advance(20_000)
    const { conditions } = await statusOf(fleet)
    expect(conditions).toMatchObject([{ type: 'LongSession', message: expect.stringContaining(match.ref.name) }])
    await s.clock.advance(3_600_000)
    expect(match.phase).toBe('running')
    match.exit(0)
    await s.clock.advance(5_000)
    expect((await statusOf(fleet)).conditions).toBeUndefined()
  })

  it('sessionSeconds includes time that elapsed before a host restart', async () => {
    const s = stage()
    const fleet = await withHealth(s, { sessionSeconds: 600 })
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    await s.clock.advance(590_000)
    s.crash()
    const next = await s.open()
    await s.clock.advance(20_000)
    expect(await statusOf(next)).toMatchObject({ conditions: [{ type: 'LongSession' }] })
  })

  it('endLongSessions terminates servers with long sessions and counts no crash', async () => {
    const s = stage()
    const fleet = await withHealth(s, { sessionSeconds: 600, endLongSessions: true })
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    await s.clock.advance(660_000)
    expect(endings(s)).toEqual(['SessionTooLong'])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 0, crashesCount: 0 })
  })

  it('sessionSeconds is unaffected by changes to the wall clock', async () => {
    const s = stage()
    const fleet = await withHealth(s, { sessionSeconds: 600, endLongSessions: true })
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    await s.clock.advance(10_000)
    s.clock.jumpWall(3_600_000)
    await s.clock.advance(580_000)
    expect(endings(s)).toEqual([])
    s.clock.jumpWall(-7_200_000)
    await s.clock.advance(20_000)
    expect(endings(s)).toEqual(['SessionTooLong'])
  })

  it.each([
    ['spec.health', []],
    ['spec.health.silenceMs', { silenceMs: 5 }],
    ['spec.health.silenceSeconds', { silenceSeconds: 0 }],
    ['spec.health.sessionSeconds', { sessionSeconds: 1.5 }],
    ['spec.health.endLongSessions', { endLongSessions: true }],
    ['spec.health.endLongSessions', { sessionSeconds: 5, endLongSessions: 'yes' }],
  ])('rejects an invalid %s and names the field', async (field, health) => {
    const s = stage()
    const fleet = await s.open()
    const build = aBuild()
    const bad: Parameters<Fleet['builds']['create']>[0] = JSON.parse(
      JSON.stringify({ ...build, spec: { ...build.spec, health } }),
    )
    const failure = await failureOf(fleet.builds.create(bad))
    expect(failure).toMatchObject({ code: 'invalid', message: expect.stringContaining(`${field} `) })
  })
})
