/** The daemon is killed and restarted under a fleet, with and without live-restore, and its disk fills up. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { writeFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { afterEach, beforeAll, expect, it, vi } from 'vitest'
import { type Allocation, createFleet, type Fleet, type FleetEvent } from 'gamekeeper'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { describeOnOwnEngine } from './describe-on-engine.js'
import { buildExampleImage, exampleImage, exampleTemplate } from './example-image.js'
import { type SecondEngine, type SecondEngineOptions, secondEngine } from './second-engine.js'
import { cleanUp, containersOf, freshDirectory, newFleetName, nextRange, onCleanUp } from './support.js'

afterEach(cleanUp, 120_000)
vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const waitOptions = { timeout: 120_000, interval: 200 }
const buildID = 'arena'

interface Scene {
  readonly engine: SecondEngine
  readonly fleetName: string
  readonly portRange: { readonly first: number; readonly last: number }
  readonly events: readonly FleetEvent[]
  openFleet(): Promise<Fleet>
}

async function scene(options: Partial<SecondEngineOptions> = {}): Promise<Scene> {
  const engine = await secondEngine({ image: exampleImage, ...options })
  onCleanUp(() => engine.remove())
  const directory = await freshDirectory()
  const [fleetName, portRange] = [newFleetName(), nextRange(100)]
  const events: FleetEvent[] = []
  return {
    ...{ engine, fleetName, portRange, events },
    async openFleet() {
      const backend = dockerBackend({ docker: engine.docker, directory, fleet: fleetName, portRange })
      // This machine's default bridge belongs to the other engine.
      const agent = { host: engine.gateway, port: 0, address: engine.gateway }
      const fleet = await createFleet({ backend, agent, limits: { backoffInitialMs: 100, backoffMaxMs: 2_000 } })
      onCleanUp(() => fleet.close())
      fleet.on('*', (event) => events.push(event))
      return fleet
    },
  }
}

function createBuild(fleet: Fleet, standingBy: number, max: number): Promise<unknown> {
  return fleet.builds.create({
    metadata: { name: 'arena' },
    spec: {
      ...{ buildID, standingBy, max, portsToExpose: [7777], template: exampleTemplate },
      // If there were more crashes, the build would get no new servers.
      crashesToMarkUnhealthy: 3,
    },
  })
}

async function standingBy(fleet: Fleet, count: number): Promise<void> {
  await vi.waitFor(
    async () => expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(count),
    waitOptions,
  )
}

/** Retries until it succeeds. */
async function allocate(fleet: Fleet, sessionID: string): Promise<Allocation> {
  return vi.waitFor(() => fleet.allocate({ buildID, sessionID }, { waitMs: 10_000 }), {
    timeout: 240_000,
    interval: 100,
  })
}

const portOf = ({ Ports }: Allocation) => Number(Ports.split(':')[1])

async function sayOverTcp(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', signal: AbortSignal.timeout(10_000) })
  let text = ''
  socket.setEncoding('utf8').on('data', (part) => (text += String(part)))
  await once(socket, 'connect')
  socket.end('hello\n')
  await once(socket, 'end')
  return text
}

async function sayOverUdp(port: number): Promise<string> {
  const socket = createSocket('udp4')
  try {
    socket.send('hello amie', port, '127.0.0.1')
    const [message] = await once(socket, 'message', { signal: AbortSignal.timeout(10_000) })
    return String(message)
  } finally {
    socket.close()
  }
}

describeOnOwnEngine('a killed and restarted daemon', () => {
  beforeAll(buildExampleImage)

  it('with live-restore, ends no match, and players can reach their servers again', async () => {
    const { engine, fleetName, openFleet, events } = await scene()
    const fleet = await openFleet()
    await createBuild(fleet, 2, 4)
    const allocations = [await allocate(fleet, randomUUID()), await allocate(fleet, randomUUID())]
    await standingBy(fleet, 2)
    const containers = async () =>
      (await containersOf(fleetName, engine.docker))
        .map(({ Id, State, Names }) => [Id, State, ...Names].join(' '))
        .toSorted()
    await expect.poll(containers).toHaveLength(4)
    const running = await containers()
    await engine.stop('SIGKILL')
    // A retry of a session that already has a server does not need the engine.
    const [first] = allocations
    expect(await fleet.allocate({ buildID, sessionID: first?.SessionID ?? '' })).toEqual(first)
    await engine.start({ liveRestore: true })
    for (const allocation of allocations) {
      expect(await fleet.allocate({ buildID, sessionID: allocation.SessionID })).toEqual(allocation)
      await vi.waitFor(async () => {
        expect(await sayOverTcp(portOf(allocation))).toContain(`session ${allocation.SessionID}`)
        expect(await sayOverUdp(portOf(allocation))).toContain(`session ${allocation.SessionID}`)
      }, waitOptions)
    }
    expect(events.filter(({ type }) => type === 'ServerEnding')).toEqual([])
    expect(await containers()).toEqual(running)
    // Events arrive again.
    await engine.docker.getContainer(running[0]?.split(' ')[0] ?? '').kill({ signal: 'SIGKILL' })
    await vi.waitFor(() => expect(events.map(({ type }) => type)).toContain('ServerEnding'), { timeout: 20_000 })
  })

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'without live-restore, interrupts servers on %s; they do not count as crashes and are replaced',
    async (signal) => {
      const { engine, fleetName, openFleet, events } = await scene()
      await engine.stop('SIGTERM')
      await engine.start({ liveRestore: false })
      const fleet = await openFleet()
      await createBuild(fleet, 4, 6)
      const lost = await allocate(fleet, randomUUID())
      await standingBy(fleet, 4)
      const before = (await fleet.servers.list()).map(({ metadata }) => metadata.name)
      await engine.stop(signal)
      await engine.start({ liveRestore: false })
      await vi.waitFor(() => {
        const ended = events.flatMap((event) => (event.type === 'ServerEnding' ? [event.server.name] : []))
        expect(ended).toEqual(expect.arrayContaining(before))
      }, waitOptions)
      await standingBy(fleet, 4)
      const { crashesCount, health } = (await fleet.builds.get('arena')).status
      expect({ crashesCount, health }).toEqual({ crashesCount: 0, health: 'Healthy' })
      // Servers that have exited are removed once their replacements are standing by.
      await vi.waitFor(async () => expect(await containersOf(fleetName, engine.docker)).toHaveLength(4), waitOptions)
      // Its match has ended, so the session gets another server.
      await allocate(fleet, lost.SessionID)
    },
  )

  it('loses no session when the host is killed at the same time', async () => {
    const { engine, openFleet } = await scene()
    const first = await openFleet()
    await createBuild(first, 1, 3)
    const allocation = await allocate(first, randomUUID())
    await first.close()
    await engine.stop('SIGKILL')
    await expect(openFleet()).rejects.toMatchObject({ code: 'unavailable' })
    await engine.start({ liveRestore: true })
    const second = await openFleet()
    expect(await second.allocate({ buildID, sessionID: allocation.SessionID })).toEqual(allocation)
    await standingBy(second, 1)
  })

  it('loses no session during 40 allocations, and leaves no container, network, or port behind', async () => {
    const { engine, fleetName, openFleet, events } = await scene()
    const networks = (await engine.docker.listNetworks()).length
    const fleet = await openFleet()
    await createBuild(fleet, 8, 48)
    await standingBy(fleet, 8)
    const sessions = Array.from({ length: 40 }, () => randomUUID())
    const answered = new Map<string, Allocation>()
    const calls = sessions.map(async (sessionID) => answered.set(sessionID, await allocate(fleet, sessionID)))
    await vi.waitFor(() => expect(answered.size).toBeGreaterThanOrEqual(12), { ...waitOptions, interval: 5 })
    await engine.stop('SIGKILL')
    const before = [...answered.values()]
    await engine.start({ liveRestore: true })
    await Promise.all(calls)
    for (const allocation of before) expect(answered.get(allocation.SessionID)).toEqual(allocation)
    for (const [sessionID, allocation] of answered) {
      expect(await fleet.allocate({ buildID, sessionID })).toEqual(allocation)
    }
    expect(new Set([...answered.values()].map(portOf)).size).toBe(40)
    await standingBy(fleet, 8)
    // An idle server may be terminated as surplus, or because it sent no heartbeat for 10 s while 48 games were starting.
    const matches = (await fleet.servers.list()).filter(({ status }) => status.state === 'Active')
    const names = new Set(matches.map(({ metadata }) => metadata.name))
    expect(names.size).toBe(40)
    expect(events.filter((event) => event.type === 'ServerEnding' && names.has(event.server.name))).toEqual([])
    const servers = await fleet.servers.list()
    await vi.waitFor(async () => {
      const containers = await containersOf(fleetName, engine.docker)
      expect(containers.map(({ Labels }) => `${Labels['gamekeeper.server']}`).toSorted()).toEqual(
        servers.map(({ metadata }) => metadata.name).toSorted(),
      )
      expect(new Set(containers.map(({ State }) => State))).toEqual(new Set(['running']))
    }, waitOptions)
    for (const allocation of answered.values()) {
      await vi.waitFor(
        async () => expect(await sayOverTcp(portOf(allocation))).toContain(allocation.SessionID),
        waitOptions,
      )
    }
    await fleet.builds.delete('arena')
    await vi.waitFor(async () => expect(await containersOf(fleetName, engine.docker)).toEqual([]), waitOptions)
    expect(await engine.docker.listContainers({ all: true })).toEqual([])
    expect((await engine.docker.listNetworks()).length).toBe(networks)
    for (const allocation of answered.values())
      await expect(sayOverTcp(portOf(allocation))).rejects.toThrow('ECONNREFUSED')
  })
})

describeOnOwnEngine('a full disk', () => {
  beforeAll(buildExampleImage)

  it('is reported in the build’s status, and the fleet recovers once there is space', async () => {
    const { engine, fleetName, openFleet } = await scene({ diskMb: 700 })
    const fleet = await openFleet()
    await createBuild(fleet, 0, 4)
    const ballast = join(engine.dataRoot, 'ballast')
    await writeFile(ballast, Buffer.alloc(700_000_000)).catch(() => {})
    await fleet.builds.patch('arena', { standingBy: 2 })
    await vi.waitFor(async () => {
      const { conditions } = (await fleet.builds.get('arena')).status
      expect(conditions).toMatchObject([
        { type: 'CreateBlocked', message: expect.stringContaining('no space left on device') },
      ])
    }, waitOptions)
    await rm(ballast)
    await standingBy(fleet, 2)
    expect(await containersOf(fleetName, engine.docker)).toHaveLength(2)
    expect((await fleet.builds.get('arena')).status.conditions ?? []).toEqual([])
  })
})
