/** Deletion through the API: a server is terminated gracefully and replaced; a build takes its servers with it. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, it } from 'vitest'
import {
  allocate,
  buildOf,
  createBuild,
  deleteBuild,
  deleteServer,
  getBuild,
  getServer,
  listBuilds,
  listServers,
  portOf,
  recount,
  say,
} from './client.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const limitMs = 400_000
const buildID = randomUUID()
const arena = buildOf({ name: 'arena', buildID, standingBy: 2, max: 4 })

it('a deleted Active server terminates gracefully and is replaced', { timeout: limitMs }, async () => {
  const { dataDir, running } = await workplace()
  const host = await startHost({ DATA_DIR: dataDir, PORT_RANGE: portRangeText('deletion'), SAMPLE: 'off' })
  await createBuild(host, arena)
  const sessionID = randomUUID()
  const { body } = await allocate(host, { buildID, sessionID }, 60)
  const port = portOf(body.Ports)
  await until('two servers are standing by besides the match', async () => {
    const { StandingBy, Active } = recount(await listServers(host))
    return StandingBy === 2 && Active === 1
  })
  await until('the game has its session', async () => (await say(port, 'who')).includes(sessionID))
  const name = (await listServers(host)).find(({ status }) => status.sessionID === sessionID)?.metadata.name ?? ''
  const others = (await running()).filter((server) => server.name !== name)

  const player = connect({ port, host: '127.0.0.1' })
  let received = ''
  player.setEncoding('utf8').on('data', (part) => (received += String(part)))
  player.on('error', () => {}) // The connection is reset at the end.
  await once(player, 'connect')
  // The kernel accepts the connection before the game does: only the answer shows that the game knows its player.
  await until('the game has answered its player', () => received.includes(sessionID))
  expect(await deleteServer(host, name)).toEqual({ status: 200, body: { message: 'Game server deleted' } })
  await until('the game has said goodbye', () => received.includes('goodbye'))
  await until('the server is deleted', async () => (await getServer(host, name)).status === 404)
  player.destroy()

  expect(await running()).toEqual(expect.arrayContaining([...others]))
  expect((await running()).map((server) => server.name)).not.toContain(name)
  expect((await getBuild(host, 'arena')).status).toMatchObject({
    currentActive: 0,
    currentStandingBy: 2,
    crashesCount: 0,
  })
  const again = await allocate(host, { buildID, sessionID }, 60)
  expect(again.status).toBe(200)
  await until('it is replaced', async () => recount(await listServers(host)).StandingBy === 2)
  expect((await getServer(host, 'no-such')).status).toBe(404)
  expect((await deleteServer(host, 'no-such')).status).toBe(404)
})

it('deleting a build deletes its servers, and its name can be reused at once', { timeout: limitMs }, async () => {
  const { dataDir, running } = await workplace()
  const host = await startHost({ DATA_DIR: dataDir, PORT_RANGE: portRangeText('deletion-of-build'), SAMPLE: 'off' })
  await createBuild(host, arena)
  const { status } = await allocate(host, { buildID, sessionID: randomUUID() }, 60)
  expect(status).toBe(200)
  await until('two servers are standing by', async () => (await getBuild(host, 'arena')).status.currentStandingBy === 2)
  const before = await running()
  expect(before).toHaveLength(3)

  await deleteBuild(host, 'arena')
  expect(await listBuilds(host)).toEqual([])
  expect(await allocate(host, { buildID, sessionID: randomUUID() }, 5)).toMatchObject({ status: 404 })
  await createBuild(host, arena)
  await until('only the new build has servers', async () => {
    const servers = await running()
    const old = servers.filter((server) => before.some(({ pids }) => pids.includes(gamePid(server))))
    return old.length === 0 && servers.length === 2
  })
  await until(
    'the new servers are standing by',
    async () => (await getBuild(host, 'arena')).status.currentStandingBy === 2,
  )
  await until('the old servers are deleted', async () => (await listServers(host)).length === 2)
  expect((await getBuild(host, 'arena')).status).toMatchObject({ currentActive: 0, crashesCount: 0 })
})
