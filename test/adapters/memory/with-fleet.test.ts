/** The memory backend under a real fleet, as in the tests of host apps. */
import { createFleet, type Fleet } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { virtualClock } from 'gamekeeper/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { memoryStore } from '../../../src/stores/memory.js'

const sessionID = '7d3c0b1e-5a43-4d2b-9a5e-111111111111'

const arena = {
  metadata: { name: 'arena' },
  spec: {
    buildID: 'arena-1',
    standingBy: 2,
    max: 4,
    portsToExpose: [7777],
    template: { spec: { containers: [{ name: 'game' }] } },
  },
}

async function open(options: Parameters<typeof createFleet>[0]): Promise<Fleet> {
  const fleet = await createFleet(options)
  onTestFinished(() => fleet.close())
  return fleet
}

const readyOf = async (fleet: Fleet) => (await fleet.builds.get('arena')).status.currentStandingByReadyDesired

describe('a fleet over the memory backend', () => {
  it('keeps servers standing by and allocates one, without clock or script', async () => {
    const backend = memoryBackend()
    const fleet = await open({ backend })
    await fleet.builds.create(arena)
    await expect.poll(() => readyOf(fleet)).toBe('2/2')
    const allocation = await fleet.allocate({
      buildID: 'arena-1',
      sessionID,
      sessionCookie: 'blue',
      initialPlayers: ['amie'],
    })
    const server = backend.servers().find(({ session }) => session?.sessionId === sessionID)
    expect(server?.session).toEqual({
      sessionId: sessionID,
      sessionCookie: 'blue',
      initialPlayers: ['amie'],
    })
    expect(await server?.allocated).toBe(server?.session)
    expect(allocation.Ports).toBe(`7777:${server?.instance.ports[0]?.public}`)
    await expect.poll(() => readyOf(fleet)).toBe('2/2')
  })

  it('gives a server its session before an allocation with confirm resolves, without clock or script', async () => {
    const backend = memoryBackend()
    const fleet = await open({ backend, limits: { heartbeatIntervalMs: 30_000, silenceMs: 60_000 } })
    await fleet.builds.create(arena)
    await expect.poll(() => readyOf(fleet)).toBe('2/2')
    await fleet.allocate({ buildID: 'arena-1', sessionID }, { confirm: true })
    expect(backend.servers().filter(({ session }) => session?.sessionId === sessionID)).toHaveLength(1)
  })

  it('records connected players, and replaces a server whose match ends', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock })
    const fleet = await open({ backend, clock })
    await fleet.builds.create(arena)
    await clock.until(async () => (await readyOf(fleet)) === '2/2')
    await fleet.allocate({ buildID: 'arena-1', sessionID })
    await clock.advance(2_000)
    const server = backend.servers().find(({ state }) => state === 'Active')
    server?.players(['amie', 'bo'])
    await clock.advance(2_000)
    expect((await fleet.details.ofBuild('arena')).spec.connectedPlayers).toEqual(['amie', 'bo'])
    server?.exit(0)
    await clock.until(async () => (await fleet.servers.list()).length === 2)
    expect((await fleet.builds.get('arena')).status).toMatchObject({ crashesCount: 0, currentActive: 0 })
  })

  it('runs for an hour, and replaces a server that stops sending heartbeats', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock })
    const fleet = await open({ backend, clock })
    await fleet.builds.create(arena)
    await clock.advance(3_600_000)
    const [first, second] = backend.servers()
    expect([backend.servers().length, first?.phase, second?.phase]).toEqual([2, 'running', 'running'])
    first?.silence()
    await clock.until(() => first?.phase === 'gone')
    await clock.until(async () => (await readyOf(fleet)) === '2/2')
    expect(second?.phase).toBe('running')
    expect((await fleet.builds.get('arena')).status.crashesCount).toBe(1)
  })

  it('has the same servers and sessions after the host restarts', async () => {
    const clock = virtualClock()
    const backend = memoryBackend({ clock })
    const store = memoryStore()
    const first = await open({ backend, store, clock })
    await first.builds.create(arena)
    await clock.until(async () => (await readyOf(first)) === '2/2')
    const before = await first.allocate({ buildID: 'arena-1', sessionID })
    await clock.advance(5_000)
    const servers = await first.servers.list()
    const instances = await backend.list()
    await first.close()
    await clock.advance(600_000)

    const second = await open({ backend, store, clock })
    await clock.advance(60_000)
    expect(await second.servers.list()).toEqual(servers)
    expect(await backend.list()).toEqual(instances)
    expect(await second.allocate({ buildID: 'arena-1', sessionID })).toEqual(before)
  })

  it('terminates all servers of a deleted build, without a clock', async () => {
    const backend = memoryBackend()
    const fleet = await open({ backend })
    await fleet.builds.create(arena)
    await expect.poll(() => readyOf(fleet)).toBe('2/2')
    await fleet.builds.delete('arena')
    await expect.poll(() => backend.servers().length).toBe(0)
  })
})
