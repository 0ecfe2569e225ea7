/** The data directory is replaced by an older copy of it, or loses its store, while matches run: they go on, none gets a second session. */
import { randomUUID } from 'node:crypto'
import { cp, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { allocate, buildOf, createBuild, getBuild, listServers, portOf, say } from './client.js'
import { type Host, runHost, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const buildID = randomUUID()
const max = 4

async function allocated(host: Host): Promise<number> {
  const { status, body } = await allocate(host, { buildID, sessionID: randomUUID() }, 20)
  expect(status).toBe(200)
  return portOf(body.Ports)
}

async function activePorts(host: Host): Promise<readonly number[]> {
  const active = (await listServers(host)).filter(({ status }) => status.state === 'Active')
  return active.map(({ status }) => portOf(status.ports)).toSorted((a, b) => a - b)
}

/** Resolves with the ports of three matches: one on a server that is idle in the copy, and some on servers that it lacks. */
async function matchesAfterCopy(env: Readonly<Record<string, string>>, copy: string): Promise<readonly number[]> {
  const first = await startHost(env)
  await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: 1, max }))
  await until('a server is standing by', async () => (await getBuild(first, 'arena')).status.currentStandingBy === 1)
  await first.exit('SIGKILL')
  await cp(env['DATA_DIR'] ?? '', copy, { recursive: true, filter: (path) => !path.endsWith('.sock') })

  const second = await startHost(env)
  const ports = [await allocated(second), await allocated(second), await allocated(second)]
  for (const port of ports)
    await until(`a match runs on ${port}`, async () => (await say(port, 'who')).startsWith('session '))
  await second.exit('SIGKILL')
  return ports.toSorted((a, b) => a - b)
}

it('an older copy of the data directory ends no match and doubles none', { timeout: 200_000 }, async () => {
  const { root, dataDir, running } = await workplace()
  const copy = join(root, 'copy')
  const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('restored-data'), SAMPLE: 'off' }
  const ports = await matchesAfterCopy(env, copy)
  const games = new Map((await running()).map((server) => [server.port, gamePid(server)]))
  await rm(dataDir, { recursive: true })
  await cp(copy, dataDir, { recursive: true })

  const host = await startHost(env)
  await until('every match is shown as Active', async () => (await activePorts(host)).length === ports.length)
  expect(await activePorts(host)).toEqual(ports)
  const other = await allocated(host)
  expect(ports).not.toContain(other)
  expect((await allocate(host, { buildID, sessionID: randomUUID() })).status).not.toBe(200)
  const after = new Map((await running()).map((server) => [server.port, gamePid(server)]))
  for (const port of ports) expect(after.get(port)).toBe(games.get(port))

  for (const port of ports) await say(port, 'quit').catch(() => undefined)
  await until('the matches have ended', async () => {
    const active = await activePorts(host)
    return active.length === 1 && active[0] === other
  })
  await until(
    'idle servers take their places',
    async () => (await getBuild(host, 'arena')).status.currentStandingBy === 1,
  )
  const { status } = await getBuild(host, 'arena')
  expect(status).toMatchObject({ crashesCount: 0, currentActive: 1 })
})

it(
  'a lost store is refused while a match runs, which goes on, and is accepted when told so',
  { timeout: 200_000 },
  async () => {
    const { dataDir, running } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('restored-data-later'), SAMPLE: 'off' }
    const first = await startHost(env)
    await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: 1, max }))
    const port = await allocated(first)
    await until('the match runs', async () => (await say(port, 'who')).startsWith('session '))
    await first.exit('SIGKILL')
    const [game] = (await running()).filter((server) => server.port === port)
    await truncate(join(dataDir, 'store', 'data.mdb'))

    const ports = { ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0' }
    const { code, stderr } = await runHost({ ...ports, ...env })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^gamekeeper: DATA_DIR: the store is empty, but the process backend has 2 game servers /)
    expect(stderr).toContain('start with ACCEPT_STORE_LOSS=1')

    const host = await startHost({ ...env, ACCEPT_STORE_LOSS: '1' })
    expect(await listServers(host)).toEqual([])
    expect(await say(port, 'who')).toMatch(/^session /)
    const [still] = (await running()).filter((server) => server.port === port)
    expect(still && gamePid(still)).toBe(game && gamePid(game))
    await say(port, 'quit').catch(() => undefined)
    await until('nothing is left', async () => (await running()).length === 0)
  },
)
