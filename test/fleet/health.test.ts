/** Servers whose heartbeats stop, reported health, and hosts that were suspended or restarted. */
import type { GameServer } from 'gamekeeper'
import { describe, expect, it } from 'vitest'
import { aBuild, ask, only, playing, stage, type StageOptions, statusOf, untilReady } from './stage.js'

const manual: StageOptions = { memory: { script: 'manual' } }

async function opened(options: StageOptions = manual, overrides: Parameters<typeof aBuild>[0] = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 1, max: 1, ...overrides }))
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
  it('must arrive within 60 s after the process starts', async () => {
    const { scene, fleet, server, shown, why } = await opened()
    await scene.clock.advance(59_500)
    expect(await shown()).toMatchObject({ state: 'Initializing', health: 'Unknown' })
    await scene.clock.advance(2_000)
    expect([why(), server.phase]).toEqual([['NeverSpoke'], 'gone'])
    expect((await statusOf(fleet)).crashesCount).toBe(1)
  })

  it('has no timeout before the process runs', async () => {
    const { scene, fleet, server, shown, why } = await opened({
      memory: { script: 'manual', startLatencyMs: 1_800_000 },
      limits: { lateStartMs: 3_600_000 },
    })
    await scene.clock.advance(1_800_000)
    expect([why(), (await shown())?.state]).toEqual([[], 'Initializing'])
    await scene.clock.advance(59_000)
    server.ready()
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, crashesCount: 0 })
  })

  it('may arrive before the backend reports the process as running', async () => {
    const { scene, server, why } = await opened()
    scene.faults.events = () => ({ kind: 'delay', ms: 5_000 })
    server.ready()
    await scene.clock.advance(120_000)
    expect(why()).toEqual([])
  })

  it('gets no extra time from a late event that reports the process as not running', async () => {
    const scene = stage({ memory: { script: 'manual', startLatencyMs: 1_000 } })
    let events = 0
    scene.faults.events = () => (++events === 1 ? { kind: 'delay', ms: 20_000 } : undefined)
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 1, max: 1 }))
    // At 60 s the list reports the process as running again.
    await scene.clock.advance(60_500)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
    await scene.clock.advance(2_000)
    expect(only(scene.eventsOf('ServerEnding')).reason).toBe('NeverSpoke')
  })

  it('has a configurable timeout', async () => {
    const { scene, why } = await opened({ ...manual, limits: { firstHeartbeatMs: 5_000 } })
    await scene.clock.advance(7_000)
    expect(why()).toEqual(['NeverSpoke'])
  })
})

describe('a server whose heartbeats stop', () => {
  it.each(['Initializing', 'StandingBy'] as const)(
    'is terminated after 10 s while %s, and counts one crash',
    async (state) => {
      const { scene, fleet, server, why } = await opened()
      server.heartbeat({ state })
      server.silence()
      await scene.clock.advance(9_500)
      expect(why()).toEqual([])
      await scene.clock.advance(2_000)
      expect([why(), server.phase]).toEqual([['Silent'], 'gone'])
      expect(await statusOf(fleet)).toMatchObject({ crashesCount: 1 })
    },
  )

  it('stays Healthy if they resume before the timeout', async () => {
    const { scene, fleet, server, why } = await opened()
    for (let i = 0; i < 20; i++) {
      server.ready()
      server.silence()
      await scene.clock.advance(9_000)
    }
    expect(why()).toEqual([])
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, crashesCount: 0 })
  })

  it('stays Active with health Unhealthy while its match runs', async () => {
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

  it('recovers during a match with its next heartbeat, and becomes Unhealthy when heartbeats stop again', async () => {
    const { scene, server, shown } = await matched()
    for (let i = 0; i < 3; i++) {
      server.silence()
      await scene.clock.advance(12_000)
      expect(await shown()).toMatchObject({ state: 'Active', health: 'Unhealthy' })
      server.heartbeat()
      expect(await shown()).toMatchObject({ state: 'Active', health: 'Healthy' })
    }
    const reported = scene.eventsOf('ServerHealthChanged').map(({ health }) => health)
    expect(reported.slice(1)).toEqual(['Unhealthy', 'Healthy', 'Unhealthy', 'Healthy', 'Unhealthy', 'Healthy'])
  })

  it('does not mask another server whose heartbeats stop later', async () => {
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
  it('is ignored before its first Healthy, since some SDKs report Unhealthy without a health callback', async () => {
    const { scene, fleet, server, shown, why } = await opened()
    server.heartbeat({ state: 'StandingBy', health: 'Unhealthy' })
    await scene.clock.advance(600_000)
    expect(why()).toEqual([])
    expect(await shown()).toMatchObject({ state: 'StandingBy', health: 'Healthy' })
    await fleet.allocate(ask(1))
    await scene.clock.advance(60_000)
    expect(await shown()).toMatchObject({ state: 'Active', health: 'Healthy' })
  })

  it('makes its server Unhealthy at once; the third consecutive report terminates the server and counts one crash', async () => {
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
    await scene.clock.advance(1_000)
    expect([server.answer?.operation, server.phase]).toEqual(['Terminate', 'gone'])
  })

  it('keeps its server if the reports are not consecutive', async () => {
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

  it('stays Active with health Unhealthy during a match, and can recover', async () => {
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

  it('terminates servers that send no heartbeats for the full timeout after a suspension', async () => {
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

  it('does not count silence while it is behind: heartbeats wait for several turns of its event loop', async () => {
    const { scene, server, why } = await opened()
    server.ready()
    server.silence()
    // Too short for a suspension.
    for (let i = 0; i < 60; i++) await scene.clock.suspend(1_500)
    await scene.clock.advance(5_000)
    expect(why()).toEqual([])
    await scene.clock.advance(10_000)
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

  it.each(['suspension', 'restart'])('uses the build’s longer timeout after a %s', async (how) => {
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

  it('processes queued heartbeats before checking timeouts', async () => {
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

  it('keeps Active servers that send no heartbeats after a restart', async () => {
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

  it('ignores changes to the wall clock', async () => {
    const { scene, server, why } = await opened()
    server.ready()
    scene.clock.jumpWall(86_400_000)
    await scene.clock.advance(60_000)
    scene.clock.jumpWall(-172_800_000)
    await scene.clock.advance(60_000)
    expect(why()).toEqual([])
  })
})
