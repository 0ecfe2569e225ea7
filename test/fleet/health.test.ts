/** Silence and reported health of servers, and a host that was suspended or restarted. */
import type { GameServer } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, playing, stage, type StageOptions, statusOf, untilReady } from './stage.js'

const manual: StageOptions = { memory: { script: 'manual' } }

async function opened(options: StageOptions = manual, wish: Parameters<typeof aBuild>[0] = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1, ...wish }))
  await scene.clock.settle()
  const server = only(scene.backend.servers())
  const shown = async (): Promise<GameServer['status'] | undefined> =>
    (await fleet.servers.list()).find(({ metadata }) => metadata.name === server.ref.name)?.status
  const why = () => scene.eventsOf('ServerEnding').map(({ reason }) => reason)
  return { scene, fleet, server, shown, why }
}

async function matched(options: StageOptions = manual) {
  const all = await opened(options)
  all.server.ready()
  await all.fleet.allocate(ask(1))
  await all.scene.clock.advance(1_000)
  return all
}

describe('the first heartbeat', () => {
  it('must come within 60 s of the process running', async () => {
    const { scene, fleet, server, shown, why } = await opened()
    await scene.clock.advance(59_500)
    expect(await shown()).toMatchObject({ state: 'Initializing', health: 'Unknown' })
    await scene.clock.advance(2_000)
    expect([why(), server.phase]).toEqual([['NeverSpoke'], 'gone'])
    expect((await statusOf(fleet)).crashesCount).toBe(1)
  })

  it('has no timeout while an image is pulled', async () => {
    const { scene, fleet, server, shown, why } = await opened({
      memory: { script: 'manual', startLatencyMs: 1_800_000 },
    })
    await scene.clock.advance(1_800_000)
    expect([why(), (await shown())?.state]).toEqual([[], 'Initializing'])
    await scene.clock.advance(59_000)
    server.ready()
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, crashesCount: 0 })
  })

  it('may come before the backend has said that the process runs', async () => {
    const { scene, server, why } = await opened()
    scene.faults.events = () => ({ kind: 'delay', ms: 5_000 })
    server.ready()
    await scene.clock.advance(120_000)
    expect(why()).toEqual([])
  })

  it('has no longer timeout because of a late event that says that the process does not run yet', async () => {
    const scene = stage({ memory: { script: 'manual', startLatencyMs: 1_000 } })
    let events = 0
    scene.faults.events = () => (++events === 1 ? { kind: 'delay', ms: 20_000 } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    // At 60 s the list says again that it runs.
    await scene.clock.advance(60_500)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    await scene.clock.advance(2_000)
    expect(only(scene.eventsOf('ServerEnding')).reason).toBe('NeverSpoke')
  })

  it('has a timeout that the build can change', async () => {
    const { scene, why } = await opened({ ...manual, limits: { firstHeartbeatMs: 5_000 } })
    await scene.clock.advance(7_000)
    expect(why()).toEqual(['NeverSpoke'])
  })
})

describe('a server that falls silent', () => {
  it.each(['Initializing', 'StandingBy'] as const)('while %s is removed after 10 s: one crash', async (state) => {
    const { scene, fleet, server, why } = await opened()
    server.heartbeat({ state })
    server.silence()
    await scene.clock.advance(9_500)
    expect(why()).toEqual([])
    await scene.clock.advance(2_000)
    expect([why(), server.phase]).toEqual([['Silent'], 'gone'])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
  })

  it('for a shorter time stays Healthy', async () => {
    const { scene, fleet, server, why } = await opened()
    for (let i = 0; i < 20; i++) {
      server.ready()
      server.silence()
      await scene.clock.advance(9_000)
    }
    expect(why()).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, crashesCount: 0 })
  })

  it('while Active stays Active, with health Unhealthy, as long as its process runs', async () => {
    const { scene, fleet, server, shown, why } = await matched()
    server.silence()
    await scene.clock.advance(12_000)
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    await scene.clock.advance(3_600_000)
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    expect(why()).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0, currentActive: 1 })
    server.exit(0)
    await scene.clock.advance(1_000)
    expect(why()).toEqual(['Exited'])
  })

  it('while Active recovers with its next heartbeat, and can fall silent again', async () => {
    const { scene, server, shown } = await matched()
    for (let i = 0; i < 3; i++) {
      server.silence()
      await scene.clock.advance(12_000)
      expect(await shown()).toMatchObject({ state: 'Active', health: 'Unhealthy' })
      server.heartbeat()
      expect(await shown()).toMatchObject({ state: 'Active', health: 'Healthy' })
    }
    const told = scene.eventsOf('ServerHealthChanged').map(({ health }) => health)
    expect(told.slice(1)).toEqual(['Unhealthy', 'Healthy', 'Unhealthy', 'Healthy', 'Unhealthy', 'Healthy'])
  })

  it('does not hide another that falls silent later', async () => {
    const scene = stage(manual)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.settle()
    const all = scene.backend.servers()
    for (const server of all) server.ready()
    for (const [index, server] of all.entries()) {
      await scene.clock.advance(1_000 * index)
      server.silence()
    }
    await scene.clock.advance(11_500)
    expect(all.map(({ phase }) => phase)).toEqual(['gone', 'gone', 'gone'])
    expect((await statusOf(fleet)).crashesCount).toBe(3)
  })
})

describe('a game that reports Unhealthy', () => {
  it('from the start, as some SDKs do without a health callback, is ignored', async () => {
    const { scene, fleet, server, shown, why } = await opened()
    server.heartbeat({ state: 'StandingBy', health: 'Unhealthy' })
    await scene.clock.advance(600_000)
    expect(why()).toEqual([])
    expect(await shown()).toMatchObject({ state: 'StandingBy', health: 'Healthy' })
    await fleet.allocate(ask(1))
    await scene.clock.advance(60_000)
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Healthy' })
  })

  it('after it was Healthy is Unhealthy at once, and removed at the third report in a row: one crash', async () => {
    const { scene, fleet, server, shown, why } = await opened()
    server.ready()
    server.unhealthy()
    expect(await shown()).toMatchObject({ state: 'StandingBy', health: 'Unhealthy' })
    server.unhealthy()
    expect(why()).toEqual([])
    server.unhealthy()
    await scene.clock.settle()
    expect(why()).toEqual(['ReportedUnhealthy'])
    await scene.clock.advance(100)
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
    expect(server.phase).toBe('gone')
  })

  it('now and then is not removed', async () => {
    const { scene, server, why } = await opened()
    server.ready()
    for (let i = 0; i < 10; i++) {
      server.unhealthy()
      server.unhealthy()
      server.heartbeat({ health: 'Healthy' })
    }
    await scene.clock.settle()
    expect(why()).toEqual([])
  })

  it('during a match stays Active with health Unhealthy, and heals', async () => {
    const { scene, fleet, server, shown, why } = await matched()
    for (let i = 0; i < 10; i++) server.unhealthy()
    await scene.clock.advance(60_000)
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Unhealthy' })
    expect(why()).toEqual([])
    server.heartbeat({ health: 'Healthy' })
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Healthy' })
    expect(await statusOf(fleet)).toMatchObject({ crashesCount: 0 })
  })
})

describe('a host that was suspended or restarted', () => {
  it('restarts every heartbeat timeout after a suspension', async () => {
    const scene = stage()
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 5, max: 6 }))
    await untilReady(scene, fleet, 5)
    await fleet.allocate(ask(1))
    await scene.clock.advance(2_000)
    await scene.clock.suspend(3_600_000)
    await scene.clock.advance(60_000)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    expect(scene.eventsOf('ServerHealthChanged').filter(({ health }) => health === 'Unhealthy')).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 5, crashesCount: 0 })
  })

  it('removes servers that stay silent for the full timeout after a suspension', async () => {
    const { scene, server, why } = await opened()
    server.ready()
    server.silence()
    await scene.clock.advance(5_000)
    await scene.clock.suspend(600_000)
    await scene.clock.advance(58_000)
    expect(why()).toEqual([])
    await scene.clock.advance(4_000)
    expect(why()).toEqual(['Silent'])
  })

  it('restarts the first-heartbeat timeout after a suspension', async () => {
    const { scene, why } = await opened()
    await scene.clock.advance(50_000)
    await scene.clock.suspend(30_000)
    await scene.clock.advance(58_000)
    expect(why()).toEqual([])
    await scene.clock.advance(4_000)
    expect(why()).toEqual(['NeverSpoke'])
  })

  it('restarts every heartbeat timeout after a restart', async () => {
    const { scene, fleet, server, why } = await opened()
    server.ready()
    server.silence()
    await scene.clock.advance(5_000)
    await fleet.close()
    await scene.clock.advance(3_600_000)
    await scene.open()
    await scene.clock.advance(58_000)
    expect(why()).toEqual([])
    await scene.clock.advance(4_000)
    expect(why()).toEqual(['Silent'])
  })

  it.each(['suspension', 'restart'])('uses the longer timeout of the build after a %s', async (how) => {
    const scene = stage()
    const fleet = await scene.open()
    const build = aBuild({ standingBy: 1 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, health: { silenceSeconds: 300 } } })
    await untilReady(scene, fleet, 1)
    await scene.clock.advance(10_000)
    only(scene.backend.servers()).silence()
    if (how === 'suspension') await scene.clock.suspend(4_000)
    else {
      await fleet.close()
      await scene.open()
    }
    await scene.clock.advance(295_000)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    await scene.clock.advance(7_000)
    expect(scene.eventsOf('ServerEnding').map(({ reason }) => reason)).toEqual(['Silent'])
  })

  it('handles the heartbeats that queued up while it was busy before it checks timeouts', async () => {
    const scene = stage({ memory: { script: 'manual', heartbeatIntervalMs: 0 } })
    const fleet = await scene.open()
    const build = aBuild({ standingBy: 4, max: 10 })
    await fleet.builds.create({ ...build, spec: { ...build.spec, health: { silenceSeconds: 3 } } })
    await scene.clock.settle()
    const servers = scene.backend.servers()
    const speak = () => servers.forEach((server) => server.phase === 'running' && server.ready())
    for (let second = 0; second < 10; second++) {
      speak()
      await scene.clock.advance(1_000)
    }
    speak()
    await scene.clock.advance(905)
    await scene.clock.suspend(2_950)
    speak()
    await scene.clock.advance(1_000)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    await scene.clock.advance(10_000)
    expect(new Set(scene.eventsOf('ServerEnding').map(({ reason }) => reason))).toEqual(new Set(['Silent']))
  })

  it('keeps Active servers that stay silent after a restart', async () => {
    const { scene, fleet, server, why } = await matched()
    server.silence()
    await fleet.close()
    await scene.clock.advance(3_600_000)
    const next = await scene.open()
    await scene.clock.advance(120_000)
    expect(why()).toEqual([])
    expect((await playing(scene, next, 1)).ref).toEqual(server.ref)
    expect(only(await next.servers.list()).status).toMatchObject({ state: 'Active', health: 'Unhealthy' })
  })

  it('ignores changes of the wall clock', async () => {
    const { scene, server, why } = await opened()
    server.ready()
    scene.clock.jumpWall(86_400_000)
    await scene.clock.advance(60_000)
    scene.clock.jumpWall(-172_800_000)
    await scene.clock.advance(60_000)
    expect(why()).toEqual([])
  })
})
