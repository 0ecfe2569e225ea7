/** How a fleet reacts to events of its containers. */
import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, expect, it, vi } from 'vitest'
import { createFleet, type Fleet, type FleetEvent } from 'gamekeeper'
import { describeOnEngine } from './describe-on-engine.js'
import { docker } from './engine.js'
import { buildExampleImage, exampleImage, exampleTemplate } from './example-image.js'
import { cleanUp, containersOf, freshDirectory, newFleetName, onCleanUp, open } from './support.js'

afterEach(cleanUp, 120_000)
vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

const waitOptions = { timeout: 90_000, interval: 100 }
const buildID = 'arena'

interface Scene {
  readonly fleet: Fleet
  readonly events: readonly FleetEvent[]
  containerOf(server: string): Promise<ReturnType<typeof docker.getContainer>>
}

async function scene(
  standingBy: number,
  { template = exampleTemplate, silenceMs = 60_000 }: { readonly template?: object; readonly silenceMs?: number } = {},
): Promise<Scene> {
  const backend = await open()
  const limits = { silenceMs, backoffInitialMs: 100 }
  // Uses the backend's default store, a file store.
  const fleet = await createFleet({ backend, agent: { port: 0 }, limits })
  onCleanUp(() => fleet.close())
  const events: FleetEvent[] = []
  fleet.on('*', (event) => events.push(event))
  await fleet.builds.create({
    metadata: { name: 'arena' },
    spec: { buildID, standingBy, max: 4, portsToExpose: [7777], template: { ...template } },
  })
  return {
    fleet,
    events,
    async containerOf(server) {
      const all = await containersOf(backend.fleet)
      return docker.getContainer(all.find(({ Labels }) => Labels['gamekeeper.server'] === server)?.Id ?? 'none')
    },
  }
}

async function oneStandingBy(fleet: Fleet): Promise<string> {
  return vi.waitFor(async () => {
    const found = (await fleet.servers.list()).find(({ status }) => status.state === 'StandingBy')
    if (!found) throw new Error('no server is standing by')
    return found.metadata.name
  }, waitOptions)
}

function endingOf(events: readonly FleetEvent[], server: string): Promise<FleetEvent> {
  return vi.waitFor(() => {
    const found = events.find((event) => event.type === 'ServerEnding' && event.server.name === server)
    if (!found) throw new Error(`${server} does not end`)
    return found
  }, waitOptions)
}

describeOnEngine('a host that starts before the one that it replaces has closed', () => {
  it('waits for its directory with waitForDirectoryMs, and is refused without', async () => {
    const [directory, fleetName] = [await freshDirectory(), newFleetName()]
    const start = async (waitForDirectoryMs?: number) => {
      const warn = vi.fn()
      const logger = { debug() {}, info() {}, warn, error() {} }
      const wait = waitForDirectoryMs === undefined ? {} : { waitForDirectoryMs }
      const backend = await open({ directory, fleet: fleetName, logger, ...wait })
      return { warn, fleet: createFleet({ backend, agent: { port: 0 }, logger }) }
    }
    const first = await (await start()).fleet
    onCleanUp(() => first.close())
    await expect((await start()).fleet).rejects.toMatchObject({ code: 'directory-in-use' })
    const { warn, fleet } = await start(60_000)
    const waits = expect.stringContaining('waiting up to 60000 ms until it is free')
    await vi.waitFor(() => expect(warn.mock.calls.map(([, text]) => text)).toContainEqual(waits), waitOptions)
    await first.close()
    const second = await fleet
    onCleanUp(() => second.close())
    expect(await second.health()).toMatchObject({ leads: true })
  })
})

describeOnEngine('a server whose container', () => {
  beforeAll(buildExampleImage)

  it('is removed externally is replaced', async () => {
    const { fleet, events, containerOf } = await scene(1)
    const server = await oneStandingBy(fleet)
    await (await containerOf(server)).remove({ force: true })
    expect(await endingOf(events, server)).toMatchObject({ crash: true })
    await vi.waitFor(async () => expect(await oneStandingBy(fleet)).not.toBe(server), waitOptions)
  })

  it('is paused is replaced if idle, and Unhealthy until it resumes if Active', async () => {
    const { fleet, events, containerOf } = await scene(1, { silenceMs: 3_000 })
    const idle = await oneStandingBy(fleet)
    await (await containerOf(idle)).pause()
    expect(await endingOf(events, idle)).toMatchObject({ reason: 'Silent' })
    await vi.waitFor(async () => expect(await oneStandingBy(fleet)).not.toBe(idle), waitOptions)
    await expect((await containerOf(idle)).inspect()).rejects.toMatchObject({ statusCode: 404 })

    const sessionID = randomUUID()
    const allocation = await fleet.allocate({ buildID, sessionID }, { waitMs: 30_000 })
    const active =
      (await fleet.servers.list()).find(({ status }) => status.sessionID === sessionID)?.metadata.name ?? ''
    const match = await containerOf(active)
    const health = async () => (await fleet.servers.get(active)).status.health
    await match.pause()
    await vi.waitFor(async () => expect(await health()).toBe('Unhealthy'), waitOptions)
    await match.unpause()
    await vi.waitFor(async () => expect(await health()).toBe('Healthy'), waitOptions)
    expect(await fleet.allocate({ buildID, sessionID })).toEqual(allocation)
  })

  it('exceeds its memory limit is terminated with that as the reason', async () => {
    const hungry = ['node', '-e', 'const all = []; for (;;) all.push(Buffer.alloc(1e6, 1))']
    const resources = { limits: { memory: '32Mi' } }
    const containers = [{ name: 'game', image: exampleImage, imagePullPolicy: 'Never', command: hungry, resources }]
    const { fleet, events } = await scene(1, { template: { spec: { containers } } })
    await vi.waitFor(async () => {
      const { conditions } = (await fleet.builds.get('arena')).status
      expect(conditions).toMatchObject([
        {
          type: 'Crashing',
          message: expect.stringMatching(
            /exited with code 137: it was killed for using more memory than its limit of 32 MiB$/,
          ),
        },
      ])
    }, waitOptions)
    expect(events.map(({ type }) => type)).toContain('ServerEnding')
  })

  it('writes a log that the fleet returns by server name', async () => {
    const { fleet } = await scene(1)
    const server = await oneStandingBy(fleet)
    const lines: string[] = []
    const stop = new AbortController()
    for await (const line of fleet.servers.logs(server, { follow: true, tail: 10, signal: stop.signal })) {
      lines.push(line)
      stop.abort()
    }
    expect(lines.join('\n')).toContain('listening on 7777')
    await expect(fleet.servers.logs('arena-none').next()).rejects.toMatchObject({ code: 'not-found' })
  })
})
