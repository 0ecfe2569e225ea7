/** `spec.claimSeconds`: a session to which no player comes ends; one in which a player has been does not. */
import { describe, expect, it } from 'vitest'
import type { Elector, Fleet } from 'gamekeeper'
import { aBuild, ask, failureOf, playing, type Stage, stage, statusOf, untilReady } from './stage.js'

async function withClaims(s: Stage, claimSeconds = 60): Promise<Fleet> {
  const fleet = await s.open()
  const build = aBuild({ standingBy: 1, max: 2 })
  await fleet.builds.create({ ...build, spec: { ...build.spec, claimSeconds } })
  await untilReady(s, fleet, 1)
  return fleet
}

const endings = (s: Stage) => s.eventsOf('ServerEnding').map(({ reason, crash }) => ({ reason, crash }))
const unclaimed = [{ reason: 'Unclaimed', crash: false }]

describe('a session to which no player comes', () => {
  it('ends after claimSeconds with an event, without a crash, and can be allocated again', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate({ ...ask(1), initialPlayers: ['amie'] })
    const { ref } = await playing(s, fleet, 1)
    await s.clock.advance(58_000)
    expect(endings(s)).toEqual([])
    await s.clock.advance(10_000)
    expect(endings(s)).toEqual(unclaimed)
    expect(s.eventsOf('ServerEnding')).toMatchObject([
      { server: ref, message: `${ref.name} is terminating: no player came within 60 s` },
    ])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 0, crashesCount: 0 })
    const again = await fleet.allocate(ask(1), { waitMs: 30_000 })
    expect(again.server).not.toEqual(ref)
  })

  it('gets its own server while that is ending, and another one once it is gone', async () => {
    const s = stage({ memory: { script: () => ({ ignoresTerminate: true }) } })
    const fleet = await withClaims(s)
    const { server } = await fleet.allocate(ask(1))
    await s.clock.advance(65_000)
    expect(endings(s)).toEqual(unclaimed)
    expect((await fleet.allocate(ask(1))).server).toEqual(server)
    await s.clock.advance(120_000)
    expect((await fleet.allocate(ask(1), { waitMs: 30_000 })).server).not.toEqual(server)
  })

  it('does not end if the build sets no claimSeconds', async () => {
    const s = stage()
    const fleet = await s.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 2 }))
    await untilReady(s, fleet, 1)
    await fleet.allocate(ask(1))
    await s.clock.advance(3_600_000)
    expect(endings(s)).toEqual([])
  })

  it('ends after claimSeconds that an update has set, and goes on once an update has removed it', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    await s.clock.advance(50_000)
    await fleet.builds.update('arena', { claimSeconds: undefined })
    await s.clock.advance(600_000)
    expect(endings(s)).toEqual([])
    await fleet.builds.update('arena', { claimSeconds: 10 })
    await s.clock.advance(20_000)
    expect(endings(s)).toEqual(unclaimed)
  })

  it('ends at its time after the wall clock was set back or forward', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    await s.clock.advance(10_000)
    s.clock.jumpWall(3_600_000)
    await s.clock.advance(40_000)
    expect(endings(s)).toEqual([])
    s.clock.jumpWall(-7_200_000)
    await s.clock.advance(20_000)
    expect(endings(s)).toEqual(unclaimed)
  })

  it('has the whole time again after the host was away, whatever its clock says', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    await s.clock.advance(50_000)
    s.crash()
    s.clock.jumpWall(-3_600_000)
    await s.clock.advance(600_000)
    await s.open()
    await s.clock.advance(50_000)
    expect(endings(s)).toEqual([])
    await s.clock.advance(20_000)
    expect(endings(s)).toEqual(unclaimed)
  })

  it('has the whole time again after the host was suspended, even if heartbeats from before are handled first', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    await s.clock.advance(50_000)
    s.clock.after(1, () => {
      game.heartbeat()
      game.heartbeat()
    })
    await s.clock.suspend(600_000)
    await s.clock.advance(50_000)
    expect(endings(s)).toEqual([])
    await s.clock.advance(20_000)
    expect(endings(s)).toEqual(unclaimed)
  })

  it('goes on while its game sends no heartbeats, and ends when it sends them again', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    await s.clock.advance(5_000)
    game.silence()
    await s.clock.advance(600_000)
    expect(endings(s)).toEqual([])
    game.heartbeat()
    await s.clock.settle()
    expect(endings(s)).toEqual([])
    game.heartbeat()
    await s.clock.settle()
    expect(endings(s)).toEqual(unclaimed)
  })

  it('goes on if the first heartbeats after the time report a player', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    await s.clock.advance(5_000)
    game.silence()
    await s.clock.advance(600_000)
    game.heartbeat()
    game.players(['amie'])
    game.players([])
    game.heartbeat()
    game.heartbeat()
    expect(endings(s)).toEqual([])
  })
})

describe('a session in which a player has been', () => {
  it('does not end when the player has left', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    await s.clock.advance(30_000)
    game.players(['amie'])
    game.players([])
    await s.clock.advance(3_600_000)
    expect(endings(s)).toEqual([])
  })

  it('does not end after a restart of the host either', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    game.players(['amie'])
    await s.clock.advance(1_000)
    game.players([])
    await s.clock.advance(10_000)
    s.crash()
    await s.open()
    await s.clock.advance(3_600_000)
    expect(endings(s)).toEqual([])
  })

  it('does not end if the player was there while another host had been elected and was still reading the store', async () => {
    const s = stage()
    const fleet = await withClaims(s)
    await fleet.allocate(ask(1))
    const game = await playing(s, fleet, 1)
    s.crash()
    let elect = () => {}
    const elector: Elector = {
      run(listener) {
        elect = () => listener.elected()
        listener.lost()
        return () => Promise.resolve()
      },
    }
    const next = await s.open({ elector, agent: { external: '127.0.0.1:1' } })
    s.faults.store = ({ method }) => (method.endsWith('list') ? { kind: 'delay-reply', ms: 4_000 } : undefined)
    elect()
    await s.clock.advance(1_000)
    next.heartbeat(game.spec.sdk.sessionHostId, { state: 'Active', players: ['amie'] })
    await s.clock.advance(20_000)
    expect(await next.sessions.list()).toHaveLength(1)
    await s.clock.advance(3_600_000)
    expect(endings(s)).toEqual([])
  })
})

it.each([0, 1.5, -1, '60', true])('rejects claimSeconds: %j and names the field', async (claimSeconds) => {
  const s = stage()
  const fleet = await s.open()
  const build = aBuild()
  const bad: Parameters<Fleet['builds']['create']>[0] = JSON.parse(
    JSON.stringify({ ...build, spec: { ...build.spec, claimSeconds } }),
  )
  const failure = await failureOf(fleet.builds.create(bad))
  expect(failure).toMatchObject({ code: 'invalid', message: expect.stringContaining('spec.claimSeconds must be') })
})
