/** A game that runs several sessions at the same time: callers fill its servers, and each session ends by itself, also after a kill of the host. */
import { expect, it } from 'vitest'
import { fleetClient } from 'gamekeeper/client'
import { backend } from './backend.js'
import { allocate, buildOf, createBuild, listServers, portOf, say } from './client.js'
import { root, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

/** Answers each line with the sessions that it runs. `end <sessionID>` ends one of them first. */
const game = `
import { createServer } from 'node:net'
import { start } from 'gamekeeper/sdk'

const gsdk = await start({ onTerminate: () => process.exit(0) })
gsdk.onSession((session) => session.onEnd(() => session.end()))
const server = createServer((socket) => {
  socket.on('error', () => {})
  socket.once('data', (text) => {
    const [verb, id] = String(text).trim().split(' ')
    if (verb === 'end') gsdk.sessions.find(({ sessionId }) => sessionId === id)?.end()
    socket.end(gsdk.sessions.map(({ sessionId }) => sessionId).join(','))
  })
})
server.listen(gsdk.config.port('game').listening, () => void gsdk.readyForPlayers())
`

const buildID = 'rooms-1'
const ids = Array.from({ length: 6 }, (_, i) => `room-${i}`)

it(
  'callers fill the servers of a game that runs three sessions, and each session ends alone',
  { timeout: 400_000 },
  async () => {
    const { dataDir } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('several-sessions'), SAMPLE: 'off', SESSION_IDS: 'any' }
    const first = await startHost(env)
    const command = ['node', '--input-type=module', '--eval', game]
    await createBuild(first, roomsBuild(command))
    const ports = new Map<string, number>()
    const answers = await Promise.all(ids.map((sessionID) => allocate(first, { buildID, sessionID }, 60)))
    for (const { status, body } of answers) {
      expect(status).toBe(200)
      ports.set(body.SessionID, portOf(body.Ports))
    }
    const servers = [...new Set(ports.values())]
    expect(servers.map((port) => onPort(ports, port).length)).toEqual([3, 3])
    for (const port of servers) await untilRuns(port, onPort(ports, port))

    await first.exit('SIGKILL')
    const host = await startHost(env)
    const client = fleetClient({ managementUrl: host.management, allocationUrl: host.allocation })
    for (const sessionID of ids) {
      const { status, body } = await allocate(host, { buildID, sessionID })
      expect({ status, port: portOf(body.Ports) }).toEqual({ status: 200, port: ports.get(sessionID) })
    }

    const [port = 0, other = 0] = servers
    const [ended = '', asked = '', last = ''] = onPort(ports, port)
    const running = async () => (await client.sessions.list()).map(({ sessionID }) => sessionID).toSorted()
    expect(await running()).toEqual(ids)
    await say(port, `end ${ended}`)
    await until('the session that the game has ended is gone', async () => !(await running()).includes(ended))
    await untilRuns(port, [asked, last])
    await until('the game is heard', async () => {
      const error = await client.sessions.end(asked).then(() => undefined, String)
      return error === undefined || error.includes('not-found')
    })
    await until('the game has ended the session when it was asked to', async () => !(await running()).includes(asked))
    await untilRuns(port, [last])
    expect(await running()).toEqual([last, ...onPort(ports, other)].toSorted())

    await say(port, `end ${last}`)
    await until('the server without a session is idle again, or gone because the build has another one', async () => {
      const active = (await listServers(host, 'rooms')).filter(({ status }) => status.state === 'Active')
      return active.length === 1 && active.every(({ status }) => portOf(status.ports) === other)
    })
    await untilRuns(other, onPort(ports, other))
  },
)

function roomsBuild(command: readonly string[]) {
  const { metadata, spec } = buildOf({ name: 'rooms', buildID, standingBy: 1, max: 4, command })
  // A process finds the package from the project's directory, a container from its image.
  const at = backend === 'process' ? { workingDir: root } : {}
  const containers = spec.template['spec'] as { containers: readonly object[] }
  const template = { spec: { containers: containers.containers.map((container) => ({ ...container, ...at })) } }
  return { metadata, spec: { ...spec, template, sessionsPerServer: 3 } }
}

function onPort(ports: ReadonlyMap<string, number>, port: number): readonly string[] {
  return [...ports].flatMap(([sessionID, found]) => (found === port ? [sessionID] : [])).toSorted()
}

async function untilRuns(port: number, sessions: readonly string[]): Promise<void> {
  const wanted = [...sessions].toSorted().join(',')
  await until(
    `the game runs ${wanted}`,
    async () => (await say(port, 'sessions')).split(',').toSorted().join(',') === wanted,
  )
}
