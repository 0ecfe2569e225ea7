/** Callers of Agones' allocator reach the bundled server: the commands of docs/guides/coming-from-agones.md, and Unity Matchmaker's module. */
import { expect, it, onTestFinished } from 'vitest'
import { fleetClient } from 'gamekeeper/client'
import { grpcClient, serviceIn } from '../http/grpc-client.js'
import { allBlocks } from '../package/pages.js'
import { say } from './client.js'
import { responses } from './curl.js'
import { startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

interface Answer {
  readonly gameServerName: string
  readonly address: string
  readonly addresses: readonly { readonly address: string }[]
  readonly ports: readonly { readonly name: string; readonly port: number }[]
}

it('a matchmaker written for Agones gets servers of the sample', { timeout: 300_000 }, async () => {
  const { dataDir } = await workplace()
  const host = await startHost({
    DATA_DIR: dataDir,
    PORT_RANGE: portRangeText('agones-callers'),
    COMPAT: 'agones',
    GRPC_PORT: '0',
  })
  const client = fleetClient({ managementUrl: host.management, allocationUrl: host.allocation })
  await until('two servers are ready', async () => (await client.builds.get('arena')).status.currentStandingBy === 2)

  /** As Unity's module does: it reads the address and the first port. */
  const post = async (body: string): Promise<Answer> => {
    const headers = { 'Content-Type': 'application/json', 'User-Agent': 'unity-cloud-code' }
    const response = await fetch(`${host.allocation}/gameserverallocation`, { method: 'POST', headers, body })
    expect(response.status).toBe(200)
    return (await response.json()) as Answer
  }
  const current = await post('{}')
  expect(current.addresses[0]?.address).toBe(current.address)
  expect(current.ports[0]?.name).toBe('game')
  await until('its game has a session', async () =>
    (await say(current.ports[0]?.port ?? 0, 'hello amie')).startsWith('session'),
  )

  const commands = allBlocks('docs/guides/coming-from-agones.md').filter(({ text }) => text.startsWith('curl'))
  expect(commands).toHaveLength(2)
  const sent = commands.map(({ text }) => text.replaceAll('http://127.0.0.1:5000', host.allocation)).join('\n')
  const waiting = sent.replace(
    "'Content-Type: application/json' \\\n  -d '{\"namespace",
    "'Prefer: wait=60' \\\n  -d '{\"namespace",
  )
  const answers = await responses(waiting)
  for (const { status, body } of answers)
    expect([status, body]).toEqual([200, expect.stringContaining('gameServerName')])
  const [, keyed = current] = answers.map(({ body }) => JSON.parse(body) as Answer)
  const sessionID = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
  expect(await client.sessions.get(sessionID)).toMatchObject({
    server: { name: keyed.gameServerName },
    initialPlayers: ['amie', 'bo'],
  })
  await until('its game has the cookie', async () =>
    (await say(keyed.ports[0]?.port ?? 0, 'hello amie')).startsWith(`session ${sessionID} cookie map=dust`),
  )
  // Once more, as after an answer that was lost.
  const [, again] = await responses(waiting)
  expect(JSON.parse(again?.body ?? '')).toMatchObject({ gameServerName: keyed.gameServerName })
  expect((await client.sessions.list()).length).toBe(4)

  const ready = host.log().find(({ message }) => message === 'ready')
  const caller = grpcClient(
    serviceIn('agones-allocation.proto', 'allocation.AllocationService'),
    String(ready?.['grpc']),
  )
  onTestFinished(() => caller.close())
  const metadata = { 'idempotency-key': sessionID }
  expect(await caller.call({}, { metadata })).toMatchObject({ gameServerName: keyed.gameServerName })
})
