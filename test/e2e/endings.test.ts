/**
 * How games end whose clients are those of the real GSDK: their shutdown callback, which takes a part of the grace period, runs to
 * its end, and the termination signal comes last.
 */
import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import type { BuildSpec, Fleet } from 'gamekeeper'
import { type GameEvent, gameReports, type GsdkClient, gsdkGame } from '../games/gsdk-game.js'
import { space } from './backend.js'
import { buildOf, createBuild, deleteServer, listServers } from './client.js'
import { startHost } from './host.js'
import { create, ownFleet } from './own-fleet.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const limitMs = 300_000
/**
 * A kubelet makes five API calls a second for all pods of its node, so that one that has ended may be removed minutes later while another test
 * starts pods.
 */
const removalMs = 200_000
/** Of games that exit once their callback has returned: their signal comes so late that a slow machine has run the callback. */
const graceMs = 40_000
const shutdownMs = 6_000
/** Of games that do not exit. */
const wholeGraceMs = 20_000
/** Where only the end of the grace period is waited for. */
const shortGraceMs = 10_000

interface Scene {
  readonly fleet: Fleet
  readonly events: readonly GameEvent[]
  build(client: GsdkClient, args?: Readonly<Record<string, string | number | true>>, more?: More): Build
}

type Build = Parameters<typeof create>[1]

interface More extends Partial<Parameters<typeof buildOf>[0]> {
  readonly termination?: BuildSpec['termination']
  readonly graceMs?: number
}

async function scene(): Promise<Scene> {
  const reports = await reportsOfGames()
  const fleet = await ownFleet(await workplace())
  return {
    fleet,
    events: reports.events,
    build: (client, args = {}, more = {}) =>
      buildOfGame(client, { shutdown: shutdownMs, report: reports.port, ...args }, more),
  }
}

async function reportsOfGames() {
  const reports = await gameReports('0.0.0.0')
  onTestFinished(() => reports.close())
  return reports
}

/** One server is standing by, and at most one more is Active. */
function buildOfGame(
  client: GsdkClient,
  args: Readonly<Record<string, string | number | true>>,
  { graceMs: grace = graceMs, ...more }: More = {},
): Build {
  const build = buildOf({
    name: client,
    buildID: client,
    standingBy: 1,
    max: 2,
    command: gsdkGame(client, args),
    ...more,
  })
  return { ...build, spec: { ...build.spec, template: withGrace(build.spec.template, grace / 1_000) } }
}

function withGrace(template: BuildSpec['template'], terminationGracePeriodSeconds: number): BuildSpec['template'] {
  const spec = template['spec']
  return { ...template, spec: { ...(typeof spec === 'object' && spec), terminationGracePeriodSeconds } }
}

/** Waits until this many servers of the build are standing by. Returns their names. */
function standingBy(fleet: Fleet, build: string, count = 1): Promise<readonly string[]> {
  return until(`${count} servers of ${build} are standing by`, async () => {
    const servers = await fleet.servers.list({ build: { namespace: space(), name: build } })
    const names = servers.filter(({ status }) => status.state === 'StandingBy').map(({ metadata }) => metadata.name)
    return names.length === count && names
  })
}

/** Allocates a server of the build, waits until its game has its session, and returns its name. */
async function active({ fleet, events }: Scene, build: string): Promise<string> {
  const sessionID = randomUUID()
  await fleet.allocate({ buildID: build, sessionID }, { waitMs: 60_000 })
  const isOf = ({ event, session }: GameEvent) => event === 'session' && JSON.stringify(session).includes(sessionID)
  return (await until(`the game of ${build} has its session`, () => events.find(isOf))).server
}

function eventOf(events: readonly GameEvent[], server: string, event: GameEvent['event']): GameEvent | undefined {
  return events.find((one) => one.server === server && one.event === event)
}

/** Waits until the server is gone, and checks that its shutdown callback has run to its end. */
async function endsCleanly({ fleet, events }: Scene, server: string): Promise<void> {
  await until(`${server} is removed`, async () => !(await namesOf(fleet)).includes(server))
  const started = eventOf(events, server, 'terminate')
  const done = eventOf(events, server, 'callback-done')
  expect({ server, started, done }).toMatchObject({ started: { server }, done: { server } })
  expect((done?.at ?? 0) - (started?.at ?? 0)).toBeGreaterThanOrEqual(0.95 * shutdownMs)
}

async function namesOf(fleet: Fleet): Promise<readonly string[]> {
  return (await fleet.servers.list()).map(({ metadata }) => metadata.name)
}

it(
  'idle and Active servers of a deleted build run their shutdown callback to its end',
  { timeout: limitMs },
  async () => {
    const it = await scene()
    const clients = ['cpp', 'csharp', 'go', 'java', 'unity'] as const
    for (const client of clients) await create(it.fleet, it.build(client))
    const servers: string[] = []
    for (const client of clients) {
      servers.push(await active(it, client), ...(await standingBy(it.fleet, client)))
    }
    await Promise.all(clients.map((name) => it.fleet.builds.delete({ namespace: space(), name })))
    await Promise.all(servers.map((server) => endsCleanly(it, server)))
  },
)

it(
  'servers that are drained, scaled down, replaced or unhealthy run their shutdown callback to its end',
  { timeout: limitMs },
  async () => {
    const it = await scene()
    const ref = (name: GsdkClient) => ({ namespace: space(), name })
    const builds = {
      cpp: it.build('cpp'),
      go: it.build('go'),
      java: it.build('java', { 'unhealthy-after': 8_000 }),
      unity: it.build('unity'),
    }
    for (const build of Object.values(builds)) await create(it.fleet, build)
    const drained = [await active(it, 'cpp'), ...(await standingBy(it.fleet, 'cpp'))]
    const idle = async (client: GsdkClient) => String((await standingBy(it.fleet, client))[0])
    const ended = [...drained, await idle('go'), await idle('unity')]

    const drain = it.fleet.builds.drain(ref('cpp'), { active: 'terminate' })
    await it.fleet.builds.patch(ref('go'), { standingBy: 0 })
    const { template } = it.build('unity', { 'ready-after': 1 }).spec
    await it.fleet.builds.update(ref('unity'), { template })
    const unhealthy = await until('a server of java is unhealthy and hears Terminate', () =>
      it.events.find(({ event, server }) => event === 'terminate' && server.startsWith('java-')),
    )
    await Promise.all([...ended, unhealthy.server].map((server) => endsCleanly(it, server)))
    expect(await drain).toEqual({ remaining: 0 })
  },
)

it(
  'a game that does not exit gets its signal in time, and is killed after its whole grace period',
  { timeout: limitMs },
  async () => {
    const { fleet, events, build } = await scene()
    const ends = async (
      name: string,
      termination: 'HeartbeatFirst' | 'SignalFirst',
      earliest: number,
      latest: number,
    ) => {
      const args = { shutdown: 600_000, signal: true, 'ready-after': 5_000 } as const
      await create(fleet, build('cpp', args, { name, buildID: name, termination, graceMs: wholeGraceMs }))
      const [server = ''] = await standingBy(fleet, name)
      const deletedAt = Date.now()
      await fleet.builds.delete({ namespace: space(), name })
      const signal = await until(`the game of ${name} gets its signal`, () => eventOf(events, server, 'signal'))
      const terminate = eventOf(events, server, 'terminate')
      const startedAt = termination === 'SignalFirst' ? deletedAt : (terminate?.at ?? NaN)
      expect(signal.at - startedAt, name).toBeGreaterThanOrEqual(earliest * wholeGraceMs)
      expect(signal.at - startedAt, name).toBeLessThanOrEqual(latest * wholeGraceMs)
      const isRemoved = async () => !(await namesOf(fleet)).includes(server)
      await until(`${server} is removed`, isRemoved, removalMs)
      const graceFrom = termination === 'SignalFirst' ? signal.at : startedAt
      expect(Date.now() - graceFrom, name).toBeGreaterThanOrEqual(0.95 * wholeGraceMs)
    }
    await Promise.all([ends('heartbeat-first', 'HeartbeatFirst', 0.7, 1), ends('signal-first', 'SignalFirst', 0, 0.5)])
    expect(await namesOf(fleet)).toEqual([])
  },
)

it(
  'a host that receives SIGTERM leaves no game behind that it has begun to terminate',
  { timeout: limitMs },
  async () => {
    const reports = await reportsOfGames()
    const place = await workplace()
    const host = await startHost({ DATA_DIR: place.dataDir, PORT_RANGE: portRangeText('endings'), SAMPLE: 'off' })
    await createBuild(
      host,
      buildOfGame('cpp', { shutdown: 600_000, report: reports.port }, { max: 1, graceMs: shortGraceMs }),
    )
    const server = await until('a server is standing by', async () =>
      (await listServers(host)).find(
        ({ metadata, status }) => metadata.name.startsWith('cpp-') && status.state === 'StandingBy',
      ),
    )
    await deleteServer(host, server.metadata.name)
    await until('its game hears Terminate', () => eventOf(reports.events, server.metadata.name, 'terminate'))
    await host.exit('SIGTERM')
    const isGone = async () => (await place.running()).every(({ name }) => name !== server.metadata.name)
    await until('its game is gone without a host', isGone, 180_000)
  },
)
