/** A game changes the data of its own server: the agent's endpoint, and the SDK that calls it. */
import { createServer, type RequestListener } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createFleet, FleetError, memoryStore, type ServerDataUpdate, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { agentListener } from '../../src/agent/index.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { AgentClient, updateData } from '../../src/sdk/agent-client.js'
import { build, standingBy } from '../http/fleet.js'
import { call, listening } from '../http/client.js'
import { targetOf } from './target.js'

async function agentOf(listener: RequestListener): Promise<string> {
  const server = await listening(listener)
  onTestFinished(() => server.close())
  return server.url
}

function clientOf(url: string, sessionHostId: string): AgentClient {
  const client = new AgentClient({ origin: new URL(url), sessionHostId }, 5_000)
  onTestFinished(() => client.close())
  return client
}

const data = { labels: { map: 'dust' }, annotations: {}, counters: {}, lists: {} }

/** Answers changes with the given results, one after the other; `made` are those that it has got. */
function target(...results: readonly (Error | undefined)[]) {
  const made: ServerDataUpdate[] = []
  const fake = targetOf({
    async updateOwnData(_, change) {
      const result = results[made.push(change) - 1]
      if (result) throw result
      return data
    },
  })
  return { fake, made }
}

async function withServer(): Promise<{ fleet: Fleet; id: string }> {
  const store = memoryStore()
  const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }), store })
  onTestFinished(() => fleet.close())
  const one = build()
  await fleet.builds.create({ ...one, spec: { ...one.spec, counters: { rooms: { count: 0, capacity: 2 } } } })
  await standingBy(fleet, 2)
  const [record] = (await store.servers.list()).map(({ record: found }) => found)
  return { fleet, id: record ? `${record.name}.${record.token}` : '' }
}

describe('a game that changes its data', () => {
  it('gets all its data when the change is durable', async () => {
    const { fleet, id } = await withServer()
    expect(fleet.knowsServer(id)).toBe(true)
    const client = clientOf(await agentOf(agentListener(fleet)), id)
    const change = { labels: { map: 'dust' }, counters: { rooms: { increment: 2 } } }
    expect(await updateData(client, change)).toMatchObject({
      labels: { map: 'dust' },
      counters: { rooms: { count: 2, capacity: 2 } },
    })
    const servers = await fleet.servers.list()
    expect(servers.map(({ status }) => status.counters?.['rooms']?.count)).toEqual(expect.arrayContaining([0, 2]))
    await expect(updateData(client, { counters: { rooms: { increment: 1 } } })).rejects.toMatchObject({
      code: 'out-of-range',
      message: expect.stringContaining('counters.rooms.increment'),
    })
    await expect(updateData(client, { counters: { tables: { count: 1 } } })).rejects.toMatchObject({ code: 'invalid' })
  })

  it('must know the secret of its server', async () => {
    const { fleet, id } = await withServer()
    const url = await agentOf(agentListener(fleet))
    const client = clientOf(url, `${id.slice(0, -4)}0000`)
    await expect(updateData(client, { labels: { map: 'dust' } })).rejects.toMatchObject({ code: 'not-found' })
  })

  it('repeats what no host has made', async () => {
    const { fake, made } = target(new FleetError('not-leader', 'this host does not lead'))
    const client = clientOf(await agentOf(agentListener(fake)), 'arena-x.1')
    expect(await updateData(client, { counters: { rooms: { increment: 1 } } })).toEqual(data)
    expect(made).toHaveLength(2)
  })

  it('repeats a change whose outcome is unknown only if it cannot count twice', async () => {
    const lost = new FleetError('unavailable', 'the store did not answer')
    const relative = target(lost)
    const client = clientOf(await agentOf(agentListener(relative.fake)), 'arena-x.1')
    await expect(updateData(client, { counters: { rooms: { increment: 1 } } })).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the store did not answer',
    })
    expect(relative.made).toHaveLength(1)
    const absolute = target(lost)
    const other = clientOf(await agentOf(agentListener(absolute.fake)), 'arena-x.1')
    expect(await updateData(other, { counters: { rooms: { count: 1 } }, lists: { maps: { add: ['dust'] } } })).toEqual(
      data,
    )
    expect(absolute.made).toHaveLength(2)
  })

  it('does not repeat an increment whose answer was lost', async () => {
    let calls = 0
    const server = createServer((request) => {
      calls++
      request.socket.destroy()
    })
    const url = await new Promise<string>((resolve) => {
      server.listen(0, '127.0.0.1', () => {
        const address = server.address()
        resolve(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`)
      })
    })
    onTestFinished(() => void server.close())
    const client = clientOf(url, 'arena-x.1')
    await expect(updateData(client, { counters: { rooms: { decrement: 1 } } })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('did not confirm the request'),
    })
    expect(calls).toBe(1)
  })
})

describe('the endpoint', () => {
  it.each<[string, string, unknown, number, string | undefined]>([
    ['PATCH', '/v1/sessionHosts/a.1/data', { labels: {} }, 200, undefined],
    ['PATCH', '/v1/sessionHosts/a.1/data/', { labels: {} }, 200, undefined],
    ['PATCH', '/v1/sessionHosts/a.1/data', '{', 400, 'invalid'],
    ['POST', '/v1/sessionHosts/a.1/data', {}, 405, undefined],
    ['PATCH', '/v1/sessionHosts//data', {}, 404, undefined],
  ])('answers %s %s with %j: %d', async (method, path, body, status, code) => {
    const url = await agentOf(agentListener(target().fake))
    const reply = await call(method, `${url}${path}`, { body })
    expect([reply.status, JSON.parse(reply.text).code]).toEqual([status, code])
  })

  it('refuses more changes of one server than may be in progress', async () => {
    const { fake } = target()
    let settle = () => {}
    const held = new Promise<void>((resolve) => (settle = resolve))
    const slow = { ...fake, updateOwnData: () => held.then(() => data) }
    const url = await agentOf(agentListener(slow))
    const replies: number[] = []
    const calls = Array.from({ length: 17 }, async () => {
      const { status } = await call('PATCH', `${url}/v1/sessionHosts/a.1/data`, { body: { labels: {} } })
      if (replies.push(status) === 1) settle()
    })
    await Promise.all(calls)
    expect(replies.filter((status) => status === 429)).toHaveLength(1)
    expect(replies.filter((status) => status === 200)).toHaveLength(16)
  })
})
