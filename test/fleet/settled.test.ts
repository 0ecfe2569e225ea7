/** A settled fleet makes no calls, and a change makes only the calls it needs. */
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, playing, stage, type Stage, statusOf, untilReady } from './stage.js'

const counted = ({ calls }: Stage, since: number) => {
  const counts: Record<string, number> = {}
  for (const { method } of calls.slice(since)) counts[method] = (counts[method] ?? 0) + 1
  return counts
}

async function settled(standingBy = 3) {
  const scene = stage()
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy, max: standingBy + 2 }))
  await untilReady(scene, fleet, standingBy)
  await fleet.allocate(ask(1))
  await scene.clock.advance(10_000)
  return { scene, fleet, since: scene.calls.length }
}

describe('a settled fleet', () => {
  it('makes no calls for an hour except one list per minute, with heartbeats every second', async () => {
    const { scene } = await settled()
    // The demand is written once.
    await scene.clock.advance(300_000)
    const since = scene.calls.length
    await scene.clock.advance(3_600_000)
    expect(counted(scene, since)).toEqual({ list: 60 })
    expect(scene.events.filter(({ at }) => at > Date.UTC(2025, 0, 1, 0, 0, 10))).toEqual([])
  })

  it('answers reads from memory', async () => {
    const { scene, fleet, since } = await settled()
    for (let i = 0; i < 10; i++) {
      await fleet.builds.list()
      await fleet.servers.list()
      await fleet.details.ofBuild('arena')
      await fleet.allocate(ask(1))
    }
    expect(counted(scene, since)).toEqual({})
  })

  it('makes no calls on restart except the lists', async () => {
    const { scene, fleet, since } = await settled()
    await fleet.close()
    await scene.open()
    await scene.clock.advance(59_000)
    expect(counted(scene, since)).toEqual({
      ...{ 'demand.get': 1, 'demand.create': 1 },
      'builds.list': 1,
      'servers.list': 1,
      'details.list': 1,
      list: 1,
    })
  })

  it('makes only one write for a patch that changes no servers', async () => {
    const { scene, fleet, since } = await settled()
    await fleet.builds.patch('arena', { standingBy: 3 })
    await scene.clock.advance(10_000)
    expect(counted(scene, since)).toEqual({ 'builds.update': 1 })
  })

  it('makes one call of each kind to replace a server', async () => {
    const { scene, since } = await settled()
    const [idle] = scene.backend.servers().filter(({ session }) => !session)
    idle?.exit(0)
    await scene.clock.advance(10_000)
    expect(counted(scene, since)).toEqual({
      create: 1,
      destroy: 1,
      'servers.create': 1,
      'servers.delete': 1,
      // The old server is written once as Terminating, then the new server in each of its states.
      'servers.update': expect.any(Number),
    })
    expect(counted(scene, since)['servers.update']).toBeLessThanOrEqual(3)
  })

  it('keeps no records, timers, or instances from finished matches', async () => {
    const { scene, fleet } = await settled()
    const left = async () => ({
      timers: scene.clock.pending,
      records: (await scene.records.servers.list()).length,
      details: (await scene.records.details.list()).length,
      instances: scene.backend.servers().length,
      shown: (await fleet.servers.list()).length,
    })
    const match = async (n: number) => {
      await fleet.allocate(ask(n), { waitMs: 10_000 })
      await scene.clock.advance(1_000)
      const server = await playing(scene, fleet, n)
      server.players([`player-${n}`])
      await scene.clock.advance(1_000)
      server.exit(0)
      await scene.clock.advance(2_000)
    }
    await match(2)
    const before = await left()
    for (let n = 3; n < 100; n++) await match(n)
    expect(await left()).toEqual(before)
  })

  it('makes no calls except the list if it has no builds', async () => {
    const scene = stage()
    await scene.open()
    const since = scene.calls.length
    await scene.clock.advance(600_000)
    expect(counted(scene, since)).toEqual({ list: 10 })
  })

  it('does not write repeatedly for a build that cannot reach its spec', async () => {
    const scene = stage({ memory: { portRange: { first: 10_000, last: 10_001 } } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 5, max: 5 }))
    await scene.clock.advance(120_000)
    const since = scene.calls.length
    await scene.clock.advance(600_000)
    expect(Object.keys(counted(scene, since)).toSorted()).toEqual(['create', 'list'])
    expect(only((await statusOf(fleet)).conditions ?? [])).toMatchObject({ reason: 'ports-exhausted' })
  })
})
