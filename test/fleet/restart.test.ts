/** Restart and failover: the next host takes over the fleet without interrupting a match. */
import type { CallFault } from 'gamekeeper/testing'
import { describe, expect, it } from 'vitest'
import {
  aBuild,
  ask,
  failureOf,
  nth,
  only,
  playing,
  serversBy,
  session,
  stage,
  type StageOptions,
  statusOf,
  untilReady,
} from './stage.js'

async function running(overrides: Parameters<typeof aBuild>[0] = {}, options: StageOptions = {}) {
  const scene = stage(options)
  const fleet = await scene.open()
  await fleet.builds.create(aBuild({ standingBy: 2, max: 4, ...overrides }))
  await untilReady(scene, fleet, overrides.standingBy ?? 2)
  await fleet.allocate(ask(1))
  await untilReady(scene, fleet, overrides.standingBy ?? 2)
  await scene.clock.advance(2_000)
  return { scene, fleet }
}

describe('a host after a restart', () => {
  it('has the same builds, servers, sessions, and instances as before', async () => {
    const { scene, fleet } = await running()
    const before = { builds: await fleet.builds.list(), servers: await fleet.servers.list() }
    const instances = await scene.backend.list()
    await fleet.close()
    const next = await scene.open()
    await scene.clock.advance(120_000)
    expect(await next.builds.list()).toEqual(before.builds)
    expect((await next.servers.list()).toSorted(byName)).toEqual([...before.servers].toSorted(byName))
    expect(await scene.backend.list()).toEqual(instances)
    expect(scene.eventsOf('ServerEnding')).toEqual([])
  })

  it('with an older store, shows a match without a session as Active, and neither allocates nor ends it', async () => {
    const { scene, fleet } = await running({ standingBy: 1, max: 2 })
    const match = only(await serversBy(fleet, 'Active')).metadata
    const game = scene.backend.server(match)
    scene.crash()
    const found = await scene.records.servers.get(game.ref)
    if (!found) throw new Error('no record')
    const { reachedActiveOn: _, startedSessions: __, ...started } = found.record
    const record = { ...started, sessions: [] }
    await scene.records.servers.update({ ...record, state: 'StandingBy' }, found.revision)
    const next = await scene.open()
    await scene.clock.advance(2_000)
    expect(await serversBy(next, 'Active')).toMatchObject([{ metadata: game.ref }])
    expect((await scene.records.servers.get(game.ref))?.record).toMatchObject({ state: 'Active' })
    await next.allocate(ask(2))
    expect(await failureOf(next.allocate(ask(3)))).toMatchObject({ code: 'max-reached' })
    await next.builds.patch('arena', { standingBy: 0, max: 0 })
    await scene.clock.advance(60_000)
    expect(game.phase).toBe('running')
    game.exit(0)
    await scene.clock.advance(5_000)
    expect(await serversBy(next, 'Active')).toHaveLength(1)
  })

  it('has at most max servers in the store even if terminations were not written before the restart', async () => {
    const { scene, fleet } = await running({ standingBy: 3, max: 4 })
    const idle = await serversBy(fleet, 'StandingBy')
    scene.faults.store = ({ method }) => (method === 'servers.update' ? { kind: 'refuse' } : undefined)
    for (const { metadata } of idle) scene.backend.server(metadata).silence()
    await scene.clock.advance(25_000)
    expect(await statusOf(fleet)).toMatchObject({ currentActive: 1, currentStandingBy: 0 })
    scene.crash()
    const found = (await scene.records.servers.list()).filter(({ record }) => record.state !== 'Terminating')
    expect(found.length).toBe(4)
  })

  it('finds its servers still running after a long downtime', async () => {
    const { scene, fleet } = await running()
    await fleet.close()
    await scene.clock.advance(3_600_000)
    expect(scene.backend.servers().map(({ phase }) => phase)).toEqual(['running', 'running', 'running'])
  })

  it('still allocates servers in the order in which they became ready', async () => {
    const scene = stage({ memory: { script: 'manual' } })
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.advance(100)
    const order = [1, 2, 0].map((index) => nth(scene.backend.servers(), index))
    for (const server of order) {
      server.ready()
      await scene.clock.advance(1_000)
    }
    await fleet.close()
    const next = await scene.open()
    for (const n of [1, 2, 3]) {
      await next.allocate(ask(n))
      expect((await playing(scene, next, n)).ref).toEqual(order[n - 1]?.ref)
    }
  })

  it('replaces servers that exited during the downtime', async () => {
    const { scene, fleet } = await running()
    await fleet.close()
    const [match] = scene.backend.servers().filter((server) => server.session)
    const idle = scene.backend.servers().filter((server) => !server.session)
    match?.exit(0)
    nth(idle, 0).exit(1)
    nth(idle, 1).vanish()
    const next = await scene.open()
    expect((await failureOf(next.allocate(ask(5)))).code).toBe('none-standing-by')
    await untilReady(scene, next, 2)
    expect(await statusOf(next)).toMatchObject({ crashesCount: 2, currentActive: 0 })
    expect((await next.servers.list()).length).toBe(2)
  })

  it('creates instances for records that have none', async () => {
    const scene = stage()
    scene.faults.backend = ({ method }) => {
      if (method !== 'create') return undefined
      scene.crash()
      return { kind: 'refuse' }
    }
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.settle()
    expect([(await scene.records.servers.list()).length, scene.backend.servers().length]).toEqual([3, 0])
    scene.faults.backend = () => undefined
    const next = await scene.open()
    await untilReady(scene, next, 3)
    expect([(await scene.records.servers.list()).length, scene.backend.servers().length]).toEqual([3, 3])
  })

  it('finds instances whose creation the previous host did not see complete', async () => {
    const scene = stage()
    scene.faults.backend = ({ method }) => {
      if (method !== 'create') return undefined
      scene.crash()
      return { kind: 'hang' }
    }
    const fleet = await scene.open()
    await fleet.builds.create(aBuild({ standingBy: 3, max: 3 }))
    await scene.clock.settle()
    scene.faults.backend = () => undefined
    const next = await scene.open()
    await untilReady(scene, next, 3)
    expect(scene.backend.servers().length).toBe(3)
    expect(scene.eventsOf('OrphanFound')).toEqual([])
  })

  it('resumes terminations that were in progress', async () => {
    const { scene, fleet } = await running({}, { memory: { script: () => ({ ignoresTerminate: true }) } })
    const server = await playing(scene, fleet, 1)
    await fleet.servers.delete(server.ref)
    await scene.clock.advance(1_000)
    scene.crash()
    await scene.open()
    await scene.clock.advance(31_000)
    expect(server.phase).toBe('gone')
  })

  it('returns the session in reply to the game’s first heartbeat', async () => {
    const { scene, fleet } = await running()
    const server = await playing(scene, fleet, 1)
    await fleet.close()
    await scene.open()
    expect(server.heartbeat()).toMatchObject({ operation: 'Continue', sessionConfig: { sessionId: session(1) } })
  })

  it('returns the same server when an allocation made before the restart is retried', async () => {
    const { scene, fleet } = await running()
    const given = await fleet.allocate(ask(1))
    scene.crash()
    const next = await scene.open()
    expect(await next.allocate(ask(1))).toEqual(given)
  })

  it('does not reuse ports that are in use', async () => {
    const { scene, fleet } = await running()
    await fleet.close()
    const next = await scene.open()
    await next.builds.patch('arena', { standingBy: 3 })
    await untilReady(scene, next, 3)
    const ports = scene.backend.servers().map(({ instance }) => instance.ports[0]?.public)
    expect(new Set(ports).size).toBe(4)
  })

  it('fails to start with a clear error if the store or the backend cannot be read', async () => {
    const { scene, fleet } = await running()
    await fleet.close()
    scene.faults.store = ({ method }) => (method === 'servers.list' ? { kind: 'refuse' } : undefined)
    await expect(scene.open()).rejects.toMatchObject({ code: 'unavailable' })
    scene.faults.store = () => undefined
    scene.faults.backend = ({ method }) => (method === 'list' ? { kind: 'refuse' } : undefined)
    await expect(scene.open()).rejects.toMatchObject({ code: 'unavailable' })
    scene.faults.backend = () => undefined
    expect(scene.backend.servers().every(({ phase }) => phase === 'running')).toBe(true)
    expect((await scene.open()).builds.get('arena')).toBeDefined()
  })

  it('reaches a consistent state regardless of the step at which the previous host died', async () => {
    for (let n = 0; n < 40; n++) {
      const scene = stage()
      const fleet = await scene.open()
      let left = n
      const dying = (): CallFault | undefined => {
        if (left-- !== 0) return undefined
        scene.crash()
        return n % 2 === 0 ? { kind: 'hang' } : { kind: 'refuse' }
      }
      scene.faults.store = dying
      scene.faults.backend = dying
      void fleet.builds.create(aBuild({ standingBy: 2, max: 3 })).catch(() => {})
      await scene.clock.advance(500)
      void fleet.allocate(ask(1)).catch(() => {})
      await scene.clock.advance(500)
      void fleet.builds.patch('arena', { standingBy: 1 }).catch(() => {})
      await scene.clock.advance(500)
      scene.faults.store = () => undefined
      scene.faults.backend = () => undefined
      if (left >= 0) scene.crash()
      const next = await scene.open()
      await scene.clock.advance(120_000)
      for (const { status, spec } of await next.builds.list()) {
        expect(status).toMatchObject({ currentStandingBy: spec.standingBy, crashesCount: 0 })
        expect((await next.servers.list()).length).toBe(spec.standingBy + status.currentActive)
      }
      expect(scene.backend.servers().length).toBe((await next.servers.list()).length)
      expect((await scene.records.servers.list()).length).toBe((await next.servers.list()).length)
    }
  })
})

describe('an orphan', () => {
  async function withOrphans() {
    const { scene, fleet } = await running()
    const match = await playing(scene, fleet, 1)
    scene.crash()
    for (const { record, revision } of await scene.records.servers.list()) {
      await scene.records.servers.delete(record, revision)
    }
    const idle = scene.backend.servers().filter(({ ref }) => ref.name !== match.ref.name)
    return { scene, match, idle }
  }

  it('is destroyed unless it reports a match', async () => {
    const { scene, match, idle } = await withOrphans()
    const next = await scene.open()
    await scene.clock.advance(600_000)
    expect(idle.map(({ phase }) => phase)).toEqual(['gone', 'gone'])
    expect(match.phase).toBe('running')
    expect(await serversBy(next, 'Active')).toEqual([])
    expect(await statusOf(next)).toMatchObject({ currentStandingBy: 2, crashesCount: 0 })
  })

  it('is destroyed when its match ends', async () => {
    const { scene, match } = await withOrphans()
    await scene.open()
    await scene.clock.advance(60_000)
    match.exit(0)
    await scene.clock.advance(5_000)
    expect(match.phase).toBe('gone')
  })

  it('is destroyed when its heartbeats stop', async () => {
    const { scene, match } = await withOrphans()
    await scene.open()
    await scene.clock.advance(5_000)
    match.silence()
    await scene.clock.advance(25_000)
    expect(match.phase).toBe('gone')
  })

  it('is not destroyed merely because the host was suspended', async () => {
    const { scene, match } = await withOrphans()
    await scene.clock.advance(700)
    await scene.open()
    await scene.clock.advance(30_000)
    await scene.clock.suspend(600_000)
    await scene.clock.advance(60_000)
    expect(match.phase).toBe('running')
  })
})

describe('a server whose record was deleted externally', () => {
  it('is terminated and replaced when the fleet detects the deletion', async () => {
    const { scene, fleet } = await running({ standingBy: 1, max: 2 })
    const idle = only(await serversBy(fleet, 'StandingBy')).metadata
    const kept = await scene.records.servers.get(idle)
    await scene.records.servers.delete(idle, kept?.revision ?? '')
    scene.backend.server(idle).unhealthy()
    await scene.clock.advance(10_000)
    expect((await failureOf(fleet.servers.get(idle))).code).toBe('not-found')
    expect(await statusOf(fleet)).toMatchObject({ currentStandingBy: 1, currentActive: 1 })
  })
})

function byName(a: { metadata: { name: string } }, b: { metadata: { name: string } }): number {
  return a.metadata.name < b.metadata.name ? -1 : 1
}
