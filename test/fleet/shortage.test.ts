/** A refused allocation says why no server is standing by. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, failureOf, stage, untilReady } from './stage.js'

describe('an allocation that gets no server', () => {
  it('says that the games have not become ready', async () => {
    const scene = stage({ memory: { script: () => ({ autoReady: false }) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 5 }))
    await scene.clock.until(async () => (await fleet.builds.get('arena')).status.currentInitializing === 2)
    const reason = '2 servers are Initializing: their games have not called readyForPlayers()'
    expect(await failureOf(fleet.allocate(ask(1)))).toMatchObject({
      code: 'none-standing-by',
      message: `no server of build arena is standing by: ${reason}`,
      details: {
        build: { namespace: 'default', name: 'arena' },
        servers: { pending: 0, initializing: 2, standingBy: 0, active: 0, terminating: 0 },
        ...{ standingBy: 2, max: 5, waitedMs: 0, conditions: [], reason },
      },
    })
  })

  it('says how the games ended', async () => {
    const scene = stage({ memory: { script: () => ({ autoReady: false, exitsAfterMs: 100, exitsWith: 1 }) } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    await scene.clock.until(async () => (await fleet.builds.get('arena')).status.crashesCount > 0)
    const call = failureOf(fleet.allocate(ask(1), { waitMs: 500 }))
    await scene.clock.advance(500)
    const { message, details } = await call
    expect(message).toMatch(
      /^no server of build arena is standing by \(waited 0\.5 s\): arena-\w+: .*exited with code 1/,
    )
    expect(details).toMatchObject({ waitedMs: 500, conditions: [{ type: 'Crashing', reason: 'NonZeroExit' }] })
  })

  it('says why the backend cannot start them', async () => {
    const scene = stage({ memory: { portRange: { first: 31_000, last: 31_000 } } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 2, max: 2 }))
    await untilReady(scene, fleet, 1)
    await fleet.allocate(ask(1))
    await scene.clock.advance(1_000)
    const { code, details } = await failureOf(fleet.allocate(ask(2)))
    expect([code, details?.['reason']]).toEqual(['none-standing-by', expect.stringContaining('port')])
  })

  it('has whole milliseconds in its events', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 0, max: 1 }))
    const allocation = fleet.allocate(ask(1), { waitMs: 5_000 })
    await scene.clock.advance(0.5)
    await scene.clock.advance(4_000.25)
    await allocation
    const times = scene.events.map(({ at }) => at)
    expect(times.filter((at) => !Number.isInteger(at))).toEqual([])
    expect(Number.isInteger(scene.eventsOf('Allocated')[0]?.waitedMs)).toBe(true)
  })
})
