/** Games that behave as those of the real GSDK clients: what their clients read, and what they print. */
import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import type { Fleet, GameServer } from 'gamekeeper'
import { kubectl } from '../adapters/kubernetes/support/cluster.js'
import { type GameEvent, gameReports, gsdkClients, gsdkGame } from '../games/gsdk-game.js'
import { backend, space } from './backend.js'
import { allocate, buildOf, createBuild, detailOf, getBuild, listServers } from './client.js'
import { type Host, startHost } from './host.js'
import { create, ownFleet } from './own-fleet.js'
import { portRangeText } from './port-ranges.js'
import { StopWaiting, until } from './until.js'
import { workplace } from './workplace.js'

it(
  'each client has its session before a caller with confirm, keeps its settings, and prints no secret that servers.logs shows',
  { timeout: 400_000 },
  async () => {
    const fleet = await ownFleet(await workplace())
    const buildMetadata = { map: 'dust', region: 'west', game: 'deathmatch' }
    for (const client of gsdkClients) {
      const build = buildOf({ name: client, buildID: client, standingBy: 1, max: 1, command: gsdkGame(client) })
      await create(fleet, { ...build, spec: { ...build.spec, buildMetadata } })
    }
    for (const client of gsdkClients) {
      const sessionID = randomUUID()
      const request = { buildID: client, sessionID, sessionCookie: 'ranked' }
      await fleet.allocate(request, { waitMs: 60_000, confirm: true })
      const answeredAt = Date.now()
      const { name } = (await fleet.servers.list()).find(({ status }) => status.sessionID === sessionID)?.metadata ?? {}
      // A pod's log exists once the cluster shows its container as running.
      const lines = await until(`${name} prints its session`, () => linesUntil('session', fleet, String(name)))
      const [started, session] = lines.filter((line) => line.startsWith('{')).map((line): GameEvent => JSON.parse(line))
      expect(session).toMatchObject({
        session: { sessionId: sessionID, sessionCookie: 'ranked', initialPlayers: [] },
        settings: {
          map: 'dust',
          region: '',
          game: expect.stringMatching(/^\d+$/),
          sessionId: sessionID,
          sessionCookie: 'ranked',
        },
      })
      expect(session?.['session']).not.toHaveProperty('metadata')
      expect(session?.at).toBeLessThanOrEqual(answeredAt)

      expect(lines).toContain(`Instance Id: ${name}.***`)
      expect(started).toMatchObject({ config: { buildMetadata, sessionHostId: `${name}.***` } })
      expect(lines.join('\n')).not.toMatch(new RegExp(`${name}\\.[0-9a-f]`))
    }
  },
)

it(
  'the shutdown callback of each client runs to its end when its build is deleted, idle or with a match',
  { timeout: 400_000 },
  async () => {
    const fleet = await ownFleet(await workplace())
    for (const client of gsdkClients) {
      const command = gsdkGame(client, { shutdown: 1_500 })
      await create(fleet, buildOf({ name: client, buildID: client, standingBy: 1, max: 2, command }))
      await fleet.allocate({ buildID: client, sessionID: randomUUID() }, { waitMs: 60_000 })
    }
    const servers = await until('each client has an idle server and a match', async () => {
      const all = await fleet.servers.list()
      const isReady = ({ status }: GameServer) => status.state === 'StandingBy' || status.state === 'Active'
      return all.length === 2 * gsdkClients.length && all.every(isReady) ? all : undefined
    })
    const matches = servers.filter(({ status }) => status.state === 'Active')
    await Promise.all(matches.map(({ metadata }) => linesUntil('session', fleet, metadata.name)))
    const logs = servers.map(({ metadata }) => linesUntil('callback-done', fleet, metadata.name))
    await Promise.all(gsdkClients.map((name) => fleet.builds.delete({ namespace: space(), name })))
    for (const [i, { metadata, status }] of servers.entries()) {
      const lines = (await logs[i])?.filter((line) => line.startsWith('{')) ?? []
      const events = lines.map((line): GameEvent => JSON.parse(line))
      const heard = status.state === 'Active' ? ['started', 'session', 'terminate'] : ['started', 'terminate']
      expect([metadata.name, ...events.map(({ event }) => event)]).toEqual([metadata.name, ...heard, 'callback-done'])
    }
    await until('all servers are gone', async () => (await fleet.servers.list()).length === 0)
  },
)

it(
  'after a kill, players that have just connected are shown, and a paused game gets no session while another is heard',
  { timeout: 400_000 },
  async () => {
    const { dataDir } = await workplace()
    const reports = await gameReports('0.0.0.0')
    onTestFinished(reports.close)
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('gsdk-games-node'), SAMPLE: 'off' }
    const first = await startHost(env)
    // The first server of the machine pauses after an error, like Unity's client.
    const unityFirst = '[ "$PF_SERVER_INSTANCE_NUMBER" = 0 ] && set -- "$@" --client unity; exec "$@"'
    const game = gsdkGame('cpp', { report: reports.port, pauses: '120000,120000' })
    const command = ['sh', '-c', unityFirst, 'sh', ...game]
    // The paused one stays until the second host has been asked, however slow this machine is.
    const health = { silenceSeconds: 90 }
    await createBuild(first, buildOf({ name: 'arena', buildID: 'arena', standingBy: 2, max: 2, command, health }))
    await until('two servers are standing by', async () => {
      return (await getBuild(first, 'arena')).status.currentStandingBy === 2
    })
    const match = buildOf({
      name: 'match',
      buildID: 'match',
      standingBy: 1,
      max: 1,
      command: gsdkGame('cpp', { players: 'amie,bo' }),
    })
    await createBuild(first, match)
    const matchID = randomUUID()
    await until('the match has begun', async () => {
      return (await allocate(first, { buildID: 'match', sessionID: matchID }, 20)).status === 200
    })
    const playersAt = async (host: Host) => (await detailOf(host, 'match')).spec.connectedPlayers
    await until('its players are shown', async () => (await playersAt(first)).length > 0)
    // They are written at once, but the write takes its time.
    await playersStored(first)
    await first.exit('SIGKILL')
    const paused = await until('the game of Unity has missed an answer', () => {
      return reports.events.find(({ event, client }) => event === 'unreachable' && client === 'unity')
    })

    const second = await startHost(env)
    expect(await playersAt(second)).toEqual(['amie', 'bo'])
    const sessionID = randomUUID()
    expect((await allocate(second, { buildID: 'arena', sessionID }, 60)).status).toBe(200)
    const sessions = async () =>
      new Map((await listServers(second, 'arena')).map(({ metadata, status }) => [metadata.name, status.sessionID]))
    const before = await sessions()
    expect(before.get(paused.server)).toBeUndefined()
    expect([...before.values()]).toContain(sessionID)
    // At max, no other server can come.
    const last = randomUUID()
    expect((await allocate(second, { buildID: 'arena', sessionID: last }, 2)).status).toBe(200)
    expect(await sessions()).toEqual(new Map([...before, [paused.server, last]]))
    expect((await getBuild(second, 'arena')).status.currentActive).toBe(2)
  },
)

it(
  'a game that starts while its host is away, and exits because it cannot reach the agent, does not crash its build',
  { timeout: 400_000 },
  async () => {
    const { dataDir, running } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('gsdk-games'), SAMPLE: 'off' }
    const first = await startHost(env)
    // Its first heartbeat comes 8 s after the start of the process.
    const command = ['sh', '-c', 'sleep 8; exec "$@"', 'sh', ...gsdkGame('java')]
    const name = 'arena'
    await createBuild(
      first,
      buildOf({ name, buildID: name, standingBy: 1, max: 1, command, crashesToMarkUnhealthy: 1 }),
    )
    const [server] = await until('the process runs', async () => {
      const found = await running()
      return found.length > 0 && found
    })
    await first.exit('SIGKILL')
    await until('the game has given up', async () => (await running()).length === 0)

    const second = await startHost(env)
    await until('another server is standing by', async () => {
      const { status } = await getBuild(second, name)
      if (status.crashesCount > 0) throw new StopWaiting(JSON.stringify(status.conditions))
      return status.currentStandingBy === 1
    })
    expect((await listServers(second)).map(({ metadata }) => metadata.name)).not.toContain(server?.name)
  },
)

/** Resolves when the store has the players that the host shows. */
async function playersStored(host: Host): Promise<void> {
  if (backend === 'kubernetes') {
    const players = ['get', 'gameserverdetails', '-n', space(), '-o', 'jsonpath={.items[*].spec.connectedPlayers}']
    await until('the players are stored', async () => (await kubectl(...players)).includes('amie'))
    return
  }
  // A file store writes in the order of the calls.
  await createBuild(host, buildOf({ name: 'later', buildID: 'later', standingBy: 0, max: 1 }))
}

async function linesUntil(event: GameEvent['event'], fleet: Fleet, name: string): Promise<readonly string[]> {
  const lines: string[] = []
  for await (const line of fleet.servers.logs({ namespace: space(), name }, { follow: true })) {
    lines.push(line)
    if (line.startsWith(`{"event":"${event}"`)) break
  }
  return lines
}
