/**
 * Everything that a game asks of its fleet is answered whichever way its requests take: the fleet's own agent, the bundled server,
 * `agentListener` in an app's server, behind Express and a body parser, and a host that forwards to the leader.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import express from 'express'
import { type Backend, createFleet, type Fleet, systemClock } from 'gamekeeper'
import { type FleetClient, fleetClient } from 'gamekeeper/client'
import { agentListener } from 'gamekeeper/http'
import { memoryBackend, type MemoryBackend } from 'gamekeeper/memory'
import { type Gsdk, type RunningSession, start } from 'gamekeeper/sdk'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startHost } from '../e2e/host.js'
import { call, listening } from '../http/client.js'
import { hosts } from '../http/forwarding/hosts.js'
import { build, sessionID } from '../http/fleet.js'
import { configuredFor, quick, recordingLogger } from '../sdk/fake-agent.js'
import { until } from '../e2e/until.js'
import { workplace } from '../e2e/workplace.js'

type Calls = Pick<FleetClient, 'allocate' | 'builds' | 'servers' | 'sessions' | 'details'>

interface Door {
  readonly fleet: Calls
  /** `host:port` of the agent. */
  readonly address: () => string
  /** The secret id of the only server, whose game is the test. */
  readonly id: () => Promise<string | undefined>
}

/** The game is the test, so the backend only pretends to start it. */
const games = () => memoryBackend({ clock: systemClock, script: 'manual', heartbeatIntervalMs: 0 })
const withAgent = (backend: MemoryBackend): Backend => ({
  ...backend,
  capabilities: { ...backend.capabilities, agent: true },
})
const idOf = (backend: MemoryBackend) => async () =>
  backend.servers().find(({ phase }) => phase === 'running')?.spec.sdk.sessionHostId

async function ownFleet(backend: MemoryBackend, external?: string): Promise<Fleet> {
  const agent = external === undefined ? { port: 0 } : { external }
  const fleet = await createFleet({ backend: external === undefined ? withAgent(backend) : backend, agent })
  onTestFinished(() => fleet.close())
  return fleet
}

async function ownAgent(): Promise<Door> {
  const backend = games()
  const fleet = await ownFleet(backend)
  return { fleet, address: () => fleet.agentAddress ?? '', id: idOf(backend) }
}

async function mounted(mount: (fleet: Fleet) => Parameters<typeof listening>[0]): Promise<Door> {
  const backend = games()
  const fleet = await ownFleet(backend, '127.0.0.1:1')
  const { url, close } = await listening(mount(fleet))
  onTestFinished(close)
  return { fleet, address: () => new URL(url).host, id: idOf(backend) }
}

async function forwardingHost(): Promise<Door> {
  const { backend, open } = hosts(
    { capabilities: { template: 'pod', agent: true } },
    { script: 'manual', heartbeatIntervalMs: 0 },
  )
  const limits = { heartbeatIntervalMs: 1_000 }
  const [leader, other] = [await open({ limits }), await open({ limits })]
  leader.lead()
  await until('the first host leads', async () => (await leader.fleet.health()).leads)
  return { fleet: leader.fleet, address: () => other.fleet.agentAddress ?? '', id: idOf(backend) }
}

/** Its games sleep: the test speaks for them, with the configuration that each has got. */
async function bundledServer(): Promise<Door> {
  const { dataDir } = await workplace()
  const host = await startHost({ BACKEND: 'process', DATA_DIR: dataDir })
  const fleet = fleetClient({ managementUrl: host.management, allocationUrl: host.allocation })
  const id = async () => {
    const files = await readdir(dataDir, { recursive: true })
    const file = files.find((name) => /duel-[^/]*\/gsdkConfig\.json$/.test(name))
    return file && JSON.parse(await readFile(join(dataDir, file), 'utf8')).sessionHostId
  }
  return { fleet, address: () => new URL(host.agent).host, id }
}

const doors: readonly (readonly [string, () => Promise<Door>])[] = [
  ["createFleet's own agent", ownAgent],
  ['the bundled server', bundledServer],
  ['agentListener', () => mounted((fleet) => agentListener(fleet))],
  ['Express and a body parser', () => mounted((fleet) => express().use(express.json()).use(agentListener(fleet)))],
  ['a host that forwards to the leader', forwardingHost],
]

/** Not those of the sample build of the bundled server. */
const buildID = 'b7a1c9a3-3f0b-4f6e-9a44-0d8ce6f6d003'
const command = [process.execPath, '-e', 'setInterval(() => undefined, 1000)']

/** Starts one server of a build, and the SDK in its place. */
async function playing(open: () => Promise<Door>, spec: object = {}): Promise<Door & { readonly gsdk: Gsdk }> {
  const door = await open()
  const template = { spec: { containers: [{ name: 'game', command }] } }
  await door.fleet.builds.create(build({ buildID, standingBy: 1, max: 1, template, ...spec }, 'duel'))
  const sessionHostId = await until('the server runs', door.id)
  const { GSDK_CONFIG_FILE } = await configuredFor(door.address(), { sessionHostId })
  const gsdk = await start({ env: { GSDK_CONFIG_FILE }, logger: recordingLogger(), timing: quick })
  onTestFinished(() => gsdk.stop())
  return { ...door, gsdk }
}

const isReady = ({ fleet }: Door) =>
  until('the server stands by', async () => (await fleet.builds.get('duel')).status.currentStandingBy === 1)
const theServer = async ({ fleet }: Door) => (await fleet.servers.list({ build: 'duel' }))[0]
const other = 'a81f9a3e-3f0b-4f6e-9a44-0d8ce6f6d002'

describe.each(doors)('through %s, a game', (_, open) => {
  it('becomes ready, gets its session, reports players, and plays another session', async () => {
    const door = await playing(open)
    const { gsdk, fleet } = door
    const ready = gsdk.readyForPlayers()
    await isReady(door)
    const request = { buildID, sessionID, sessionCookie: 'map=dust', initialPlayers: ['amie'] }
    await fleet.allocate(request, { waitMs: 10_000, confirm: true })
    expect(await ready).toEqual({ sessionId: sessionID, sessionCookie: 'map=dust', initialPlayers: ['amie'] })
    gsdk.updateConnectedPlayers(['amie', 'bob'])
    const { metadata } = (await theServer(door)) ?? { metadata: { name: '' } }
    await until('its players are known', async () => {
      return (await fleet.details.get(metadata)).spec.connectedPlayers.join() === 'amie,bob'
    })
    const next = gsdk.readyForNext()
    await until('its session is over', async () => (await fleet.sessions.list()).length === 0)
    await fleet.allocate({ buildID, sessionID: other }, { waitMs: 10_000 })
    expect((await next).sessionId).toBe(other)
  })

  it('changes its data, and is told why it cannot', async () => {
    const door = await playing(open, { counters: { rooms: { count: 0, capacity: 2 } } })
    void door.gsdk.readyForPlayers()
    await isReady(door)
    const change = { labels: { map: 'dust' }, counters: { rooms: { increment: 2 } } }
    expect(await door.gsdk.updateData(change)).toMatchObject({
      labels: { map: 'dust' },
      counters: { rooms: { count: 2 } },
    })
    expect((await theServer(door))?.status.counters?.['rooms']?.count).toBe(2)
    const more = { counters: { rooms: { increment: 1 } } }
    await expect(door.gsdk.updateData(more)).rejects.toMatchObject({ code: 'out-of-range' })
  })

  it('takes its own server for a session', async () => {
    const door = await playing(open)
    const session = await door.gsdk.allocateSelf({ sessionID, initialPlayers: ['amie'] })
    expect(session).toEqual({ sessionId: sessionID, initialPlayers: ['amie'] })
    expect((await door.fleet.sessions.get(sessionID)).server.name).toBe(door.gsdk.config.serverId)
    await expect(door.gsdk.allocateSelf({ sessionID: other })).rejects.toMatchObject({ code: 'in-use' })
  })

  it('plays several sessions, and ends one that should end', async () => {
    const door = await playing(open, { sessionsPerServer: 2 })
    const { gsdk, fleet } = door
    const begun: RunningSession[] = []
    gsdk.onSession((session) => {
      begun.push(session)
      session.onEnd(() => session.end())
    })
    void gsdk.readyForPlayers()
    await isReady(door)
    for (const id of [sessionID, other])
      await fleet.allocate({ buildID, sessionID: id }, { waitMs: 10_000, confirm: true })
    await until('both have begun', () => begun.length === 2)
    await fleet.sessions.end(other)
    const running = async () => (await fleet.sessions.list()).map((one) => one.sessionID).join()
    await until('the second is over', async () => (await running()) === sessionID)
    begun[0]?.end()
    await until('the first is over', async () => (await running()) === '')
  })

  it('hears of maintenance, and that it has to end', async () => {
    const door = await playing(open)
    const { gsdk, fleet } = door
    void gsdk.readyForPlayers()
    await isReady(door)
    let beginsAt: Date | undefined
    let isEnding = false
    gsdk.onMaintenance((at) => void (beginsAt = at))
    gsdk.onTerminate(() => void (isEnding = true))
    const { metadata } = (await theServer(door)) ?? { metadata: { name: '' } }
    await fleet.servers.announceMaintenance(metadata, Date.now() + 3_600_000)
    await until('it hears of maintenance', () => beginsAt !== undefined)
    await fleet.servers.delete(metadata)
    await until('it has to end', () => isEnding)
  })

  it('introduces itself', async () => {
    const { address } = await open()
    const url = `http://${address()}/v1/metrics/arena/gsdkinfo`
    expect((await call('POST', url, { body: { Flavor: 'test' }, validate: false })).status).toBe(200)
  })
})
