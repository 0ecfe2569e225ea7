/** Sizes on a real machine: a store with records that break them, the HTTP API, a game's process and its heartbeats. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { fleetRoutes } from '../../../src/http/index.js'
import { createFleet, fileStore } from '../../../src/index.js'
import type { Build } from '../../../src/rules/model/resources.js'
import { sizeLimits } from '../../../src/rules/model/sizes.js'
import { call, listening, until } from '../../http/client.js'
import { cleanUp, freshDirectory, onCleanUp, open } from './support.js'

afterEach(cleanUp)

const templateOf = (container: object): Readonly<Record<string, unknown>> => ({
  spec: { containers: [{ name: 'game', ...container }] },
})
const bombs = {
  doubling: templateOf({
    command: ['true', '$(A22)'],
    env: [
      { name: 'A0', value: 'x'.repeat(1_024) },
      ...Array.from({ length: 22 }, (_, i) => ({ name: `A${i + 1}`, value: `$(A${i})$(A${i})` })),
    ],
  }),
  unclosed: templateOf({ command: ['true', '$('.repeat(200_000)] }),
}
const sessionID = (n: number) => `00000000-0000-4000-8000-00000000000${n}`

const buildOf = (name: string, template: Readonly<Record<string, unknown>>) => ({
  metadata: { name },
  spec: { buildID: name, standingBy: 1, max: 2, portsToExpose: [], template },
})

test('a host starts with stored builds that would exhaust it, and deletes them', async () => {
  const directory = freshDirectory()
  const before = await fileStore({ directory: join(directory, 'store') })
  for (const [name, template] of Object.entries(bombs)) {
    const record: Build = {
      ...{
        namespace: 'default',
        name,
        uid: `uid-${name}`,
        createdAt: 0,
        crashes: 0,
        countedCrashes: [],
        conditions: [],
      },
      spec: buildOf(name, template).spec,
    }
    await before.builds.create(record)
    await before.servers.create({
      ...{ namespace: 'default', name: `${name}-aaaaa`, uid: 'old', token: '6f1c', build: name, buildUid: record.uid },
      ...{ templateHash: '00000000000000', createdAt: 0, state: 'Pending', health: 'Unknown', sessions: [] },
    })
  }
  await before.close()

  const store = await fileStore({ directory: join(directory, 'store') })
  onCleanUp(() => store.close())
  const fleet = await createFleet({ backend: open(join(directory, 'games')), store, agent: { port: 0 } })
  onCleanUp(() => fleet.close())
  const api = await listening(fleetRoutes(fleet).nodeHandler)
  onCleanUp(() => api.close())

  for (const [name, template] of Object.entries(bombs)) {
    await until(async () => {
      const { conditions = [] } = (await fleet.builds.get(name)).status
      return conditions.some(({ type, message }) => type === 'Invalid' && message.startsWith('spec.template.spec.cont'))
    })
    const again = await call('POST', `${api.url}/api/v1/gameserverbuilds`, { body: buildOf(`${name}-2`, template) })
    expect(again).toMatchObject({
      status: 400,
      text: expect.stringMatching(/^\{"error":"spec\.template\.spec\.containers\[0\]\./),
    })
    const deleted = await call('DELETE', `${api.url}/api/v1/gameserverbuilds/default/${name}`)
    expect(deleted.status).toBe(200)
  }
  await until(async () => (await store.servers.list()).length === 0)

  const config = join(directory, 'config.json')
  const run = templateOf({
    command: ['sh', '-c', `cp "$GSDK_CONFIG_FILE" ${config}.part && mv ${config}.part ${config}; exec sleep 60`],
  })
  expect((await call('POST', `${api.url}/api/v1/gameserverbuilds`, { body: buildOf('arena', run) })).status).toBe(200)
  const hostId = await configuredId(config)
  const heartbeat = async (CurrentGameState: string, players: readonly string[] = []) => {
    const body = { CurrentGameState, CurrentPlayers: players.map((PlayerId) => ({ PlayerId })) }
    return call('PATCH', `http://${fleet.agentAddress}/v1/sessionHosts/${hostId}`, { body, validate: false })
  }
  await until(async () => {
    await heartbeat('StandingBy')
    return (await fleet.builds.get('arena')).status.currentStandingBy === 1
  })

  const allocate = (sessionCookie: string) =>
    call('POST', `${api.url}/api/v1/allocate`, { body: { buildID: 'arena', sessionID: sessionID(1), sessionCookie } })
  const tooLong = await allocate('é'.repeat(520_000))
  expect(tooLong).toMatchObject({
    status: 400,
    text: '{"error":"sessionCookie must have at most 32768 bytes of UTF-8, but has 1040000","code":"invalid"}',
  })
  const longest = 'é'.repeat(sizeLimits.sessionCookieBytes / 2)
  expect((await allocate(longest)).status).toBe(200)
  const answer = await heartbeat('StandingBy')
  expect(JSON.parse(answer.text)).toMatchObject({ operation: 'Active', sessionConfig: { sessionCookie: longest } })
  expect(answer.text.length).toBeLessThan(100_000)

  const reported = Array.from({ length: 6_000 }, (_, i) => `p${i}`)
  expect((await heartbeat('Active', reported)).status).toBe(200)
  const [server] = (await fleet.servers.list()).filter(({ status }) => status.state === 'Active')
  if (server === undefined) throw new Error('no server is Active')
  const { connectedPlayers } = (await fleet.details.get(server.metadata)).spec
  expect(connectedPlayers).toEqual(reported.slice(0, sizeLimits.reportedPlayers))
  await until(async () => (await store.details.list())[0]?.record.players.length === sizeLimits.reportedPlayers)
})

/** The id with which the game authenticates, once the game has copied its configuration. */
async function configuredId(file: string): Promise<string> {
  let id = ''
  await until(() => {
    try {
      id = String(JSON.parse(readFileSync(file, 'utf8')).sessionHostId)
      return true
    } catch {
      return false
    }
  })
  return id
}
