/** Game servers that have no SDK: they become ready, learn of a session, show their players and end, and a new host finds all of it as it was. */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { BuildSpec, EventOf, Fleet } from 'gamekeeper'
import { imageOf, space } from './backend.js'
import { create, ownFleet } from './own-fleet.js'
import { portRange } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const program = readFileSync(new URL('../games/query-game.mjs', import.meta.url), 'utf8')

/** A kubelet makes five API calls a second, so the pod of a server that has ended may be removed late while other tests start pods. */
const removalMs = 200_000

type Protocol = 'a2s' | 'minecraft' | 'bedrock' | 'sqp' | 'http'

/** The game does not send a byte to the host: all that the fleet knows comes from its port and its log. */
function buildOf(protocol: Protocol, game: Omit<NonNullable<BuildSpec['game']>, 'readiness'>, max = 2) {
  // Its first line is then its match.
  const starting = game.session?.startsGame
    ? ['sh', '-c', 'read -r match && exec "$@" --match "$match" --ready-after 2000', 'sh']
    : []
  const file = '$(PF_SHARED_CONTENT_FOLDER)/session.json'
  const args = ['--protocol', protocol, '--port', '$(PORT_27015)', '--host', '0.0.0.0', '--session-file', file]
  const port = { name: 'game', containerPort: 27_015, protocol: isDatagram(protocol) ? 'UDP' : 'TCP' }
  const container = {
    ...{ name: 'game', ...imageOf, stdin: true, ports: [port] },
    command: [...starting, 'node', '--input-type=module', '-e', program, '--', ...args],
  }
  const readiness = protocol === 'http' ? { http: { path: '/' } } : { query: { protocol } }
  const players = protocol === 'http' ? { http: { path: '/players', field: 'players.names' } } : { query: { protocol } }
  const spec: BuildSpec = {
    ...{ buildID: protocol, standingBy: 1, max, portsToExpose: [27_015], sdk: 'none' },
    template: { spec: { containers: [container], terminationGracePeriodSeconds: 5 } },
    game: {
      ...{ readiness, players, session: { stdin: 'start {sessionID}' }, periodSeconds: 1, ...game },
    },
  }
  return { metadata: { name: protocol }, spec }
}

function isDatagram(protocol: Protocol): boolean {
  return protocol === 'a2s' || protocol === 'bedrock' || protocol === 'sqp'
}

async function logOf(fleet: Fleet, name: string): Promise<readonly string[]> {
  const lines = []
  for await (const line of fleet.servers.logs({ namespace: space(), name })) lines.push(line)
  return lines
}

/** A game that knows its session, and how to speak to it. */
async function match(fleet: Fleet, buildID: Protocol) {
  const sessionID = randomUUID()
  // Resolves once the game has it.
  await fleet.allocate({ buildID, sessionID }, { waitMs: 60_000, confirm: true })
  const server = await until('the session has a server', async () =>
    (await fleet.servers.list()).find(({ status }) => status.sessionID === sessionID),
  )
  const ref = { namespace: space(), name: server.metadata.name }
  return { sessionID, ref, say: (line: string) => fleet.servers.writeStdin(ref, line) }
}

const stateOf = async (fleet: Fleet, name: string) =>
  (await fleet.servers.list()).find(({ metadata }) => metadata.name === name)?.status

const playersOf = async (fleet: Fleet, ref: { readonly namespace: string; readonly name: string }) =>
  (await fleet.details.get(ref)).spec.connectedPlayers

it(
  'a game is ready by its query, is told of its session once, ends when its players have left, and a new host goes on',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const ports = { portRange: portRange('without-sdk') }
    const first = await ownFleet(place, ports)
    await create(first, buildOf('a2s', { end: { emptySeconds: 2 }, failureThreshold: 2 }))
    const { ref, say, sessionID } = await match(first, 'a2s')
    const began = `session ${sessionID} began`
    // The line is in its standard input; the game reads it when it comes to it.
    await until('the game knows its session', async () => (await logOf(first, ref.name)).includes(began))
    await say('players amie ben')
    await until('the players are seen', async () => (await playersOf(first, ref)).join() === 'amie,ben')

    // With players, it is never ended; the fleet says that it does not answer.
    await say('silent')
    await until('the silence is seen', async () => (await stateOf(first, ref.name))?.health === 'Unhealthy')
    await say('speak')
    await until('its answer is heard', async () => (await stateOf(first, ref.name))?.health === 'Healthy')
    await first.close()

    const ends: EventOf<'SessionEnded'>[] = []
    const second = await ownFleet(place, { ...ports, on: { SessionEnded: (event) => void ends.push(event) } })
    expect(await stateOf(second, ref.name)).toMatchObject({ state: 'Active', sessionID })
    await until('the new host sees the players', async () => (await playersOf(second, ref)).join() === 'amie,ben')
    expect((await logOf(second, ref.name)).filter((line) => line === began)).toHaveLength(1)
    await second.servers.writeStdin(ref, 'players')
    await until('the session is over', async () => (await stateOf(second, ref.name)) === undefined, removalMs)
    expect(ends).toMatchObject([
      { sessionID, reason: 'Finished', message: expect.stringContaining('no player for 2 s') },
    ])
    await until('another one is ready', async () =>
      (await second.servers.list()).some(({ status }) => status.state === 'StandingBy'),
    )
    await second.builds.delete({ namespace: space(), name: 'a2s' })
  },
)

it(
  'a line of the log ends a session, and an idle server that stops answering is replaced',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const fleet = await ownFleet(place, { portRange: portRange('without-sdk-lines') })
    const end = { log: 'session * ended' }
    await create(fleet, buildOf('minecraft', { end, failureThreshold: 2 }))
    const { ref, say, sessionID } = await match(fleet, 'minecraft')
    await say(`end ${sessionID}`)
    await until('the session is over', async () => (await stateOf(fleet, ref.name)) === undefined, removalMs)

    const idle = await until('another one is ready', async () =>
      (await fleet.servers.list()).find(({ status }) => status.state === 'StandingBy'),
    )
    await fleet.servers.writeStdin({ namespace: space(), name: idle.metadata.name }, 'silent')
    await until(
      'it is replaced',
      async () => {
        const servers = await fleet.servers.list()
        const isGone = servers.every(({ metadata }) => metadata.name !== idle.metadata.name)
        return isGone && servers.some(({ status }) => status.state === 'StandingBy')
      },
      removalMs,
    )
    await fleet.builds.delete({ namespace: space(), name: 'minecraft' })
  },
)

it(
  'a game that starts with its session has it as an argument, and is confirmed once it answers',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const fleet = await ownFleet(place, { portRange: portRange('without-sdk-starts') })
    const session = { stdin: '{sessionID}', startsGame: true }
    await create(fleet, buildOf('a2s', { end: { emptySeconds: 2 }, session }))
    await until('one stands by', async () =>
      (await fleet.servers.list()).some(({ status }) => status.state === 'StandingBy'),
    )
    const { ref, say, sessionID } = await match(fleet, 'a2s')
    const log = await logOf(fleet, ref.name)
    expect(log).toContain(`match ${sessionID}`)
    expect(log.some((line) => line.startsWith('ready a2s'))).toBe(true)
    await say('players amie')
    await until('the player is seen', async () => (await playersOf(fleet, ref)).join() === 'amie')
    await say('players')
    await until('the session is over', async () => (await stateOf(fleet, ref.name)) === undefined, removalMs)
    await fleet.builds.delete({ namespace: space(), name: 'a2s' })
  },
)

it('each protocol shows who plays', { timeout: 400_000 }, async () => {
  const place = await workplace()
  const fleet = await ownFleet(place, { portRange: portRange('without-sdk-players') })
  for (const protocol of ['bedrock', 'sqp', 'http'] as const) {
    await create(fleet, buildOf(protocol, {}, 1))
    const { ref, say } = await match(fleet, protocol)
    await say('players amie ben')
    const names = protocol === 'http' ? 'amie,ben' : 'unnamed-1,unnamed-2'
    await until(`the players of ${protocol} are seen`, async () => (await playersOf(fleet, ref)).join() === names)
    await fleet.builds.delete({ namespace: space(), name: protocol })
  }
})

it(
  'commands where the game runs say whether it is ready and works, and a file tells it of its session, also on a new host',
  { timeout: 400_000 },
  async () => {
    const place = await workplace()
    const ports = { portRange: portRange('without-sdk-commands') }
    const first = await ownFleet(place, ports)
    const ask =
      'fetch("http://127.0.0.1:$(PORT_27015)/").then((answer) => { console.log(answer.status); process.exit(answer.ok ? 0 : 3) })'
    const command = ['node', '-e', ask]
    const build = buildOf('http', { liveness: { command }, session: { file: 'session.json' }, timeoutSeconds: 20 })
    await create(first, { ...build, spec: { ...build.spec, game: { ...build.spec.game, readiness: { command } } } })
    const { ref, say, sessionID } = await match(first, 'http')
    const began = `session ${sessionID} began`
    await until('the game knows its session', async () => (await logOf(first, ref.name)).includes(began))
    await say('status 503')
    await until('the failure is seen', async () => (await stateOf(first, ref.name))?.health === 'Unhealthy')
    expect((await stateOf(first, ref.name))?.message).toBe('it does not answer: command node exited with code 3: 503')
    await first.close()

    const second = await ownFleet(place, ports)
    await until('the new host sees it', async () => (await stateOf(second, ref.name))?.message?.endsWith('code 3: 503'))
    await second.servers.writeStdin(ref, 'status 200')
    await until('its answer is heard', async () => (await stateOf(second, ref.name))?.health === 'Healthy')
    expect(await stateOf(second, ref.name)).toMatchObject({ state: 'Active', sessionID })
    expect((await logOf(second, ref.name)).filter((line) => line === began)).toHaveLength(1)
    await second.builds.delete({ namespace: space(), name: 'http' })
  },
)
