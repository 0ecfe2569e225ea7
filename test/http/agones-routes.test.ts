/** `compat: 'agones'`: callers of Agones' allocator, over real sockets and a real fleet. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { allocationRoutes, type AllocationRoutesOptions, bearerTokens } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, type Listener, until } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, memoryFleet, noServers, standingBy } from './fleet.js'
import { pair } from './forwarding/pair.js'

const arena = { gameServerSelectors: [{ matchLabels: { 'agones.dev/fleet': 'arena' } }] }

let fleet: Fleet
beforeAll(async () => {
  fleet = await memoryFleet({ script: () => ({ takesSeveral: true }) })
})
afterAll(() => fleet.close())
beforeEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

describe.each(entryPoints)('POST /gameserverallocation by $name', ({ open }) => {
  const listeners: Listener[] = []
  afterEach(async () => {
    for (const listener of listeners.splice(0)) await listener.close()
  })

  async function served(options: AllocationRoutesOptions = {}) {
    const listener = await open(allocationRoutes(fleet, { compat: 'agones', ...options }))
    listeners.push(listener)
    return async (body: unknown, headers: Readonly<Record<string, string>> = {}, query = '') => {
      const reply = await call('POST', `${listener.url}/gameserverallocation${query}`, { body, headers })
      return { ...reply, json: JSON.parse(reply.text) as Readonly<Record<string, unknown>> }
    }
  }

  it('answers the module of Unity Matchmaker, in its current and in its former form', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const post = await served()
    const json = { 'Content-Type': 'application/json' }
    const current = await post('{}', json)
    expect(current).toMatchObject({ status: 200, json: { addresses: [{ address: '127.0.0.1' }] } })
    const former = await post(`{"namespace":"default",${JSON.stringify(arena).slice(1)}`, {
      'Content-Type': 'application/json; charset=utf-8',
    })
    expect(former).toMatchObject({ status: 200, json: { address: '127.0.0.1', source: 'local' } })
    const servers = await fleet.servers.list()
    for (const { json: answer } of [current, former]) {
      const server = servers.find(({ metadata }) => metadata.name === answer['gameServerName'])
      expect(server?.status).toMatchObject({ state: 'Active', nodeName: answer['nodeName'] })
      expect(answer['ports']).toEqual([
        { name: expect.any(String), port: Number(server?.status.ports.replace('7777:', '')) },
      ])
    }
    expect(current.json['gameServerName']).not.toBe(former.json['gameServerName'])
  })

  it('answers a key with the same server each time, as a header and as an annotation', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const post = await served()
    const { json: first } = await post(arena, { 'Idempotency-Key': 'match 7' })
    expect((await post(arena, { 'Idempotency-Key': '"match 7"' })).json).toEqual(first)
    const annotations = { 'mps.gamekeeper.com/session-id': 'match 7', 'mps.gamekeeper.com/session-cookie': 'ranked' }
    expect((await post({ ...arena, metadata: { annotations } }, { 'Idempotency-Key': 'other' })).json).toEqual(first)
    expect(await fleet.sessions.get('match 7')).toMatchObject({ server: { name: first['gameServerName'] } })
  })

  it('sets labels and annotations, counts and fills lists, and answers with what the server then has', async () => {
    const counters = { rooms: { count: 0, capacity: 2 } }
    const lists = { players: { values: [], capacity: 4 } }
    await fleet.builds.create(build({ counters, lists, sessionsPerServer: 2, standingBy: 1 }))
    await standingBy(fleet, 1)
    const post = await served()
    const body = {
      ...arena,
      metadata: {
        labels: { mode: 'ranked' },
        annotations: { match: '42', 'mps.gamekeeper.com/initial-players': '["amie"]' },
      },
      counters: { rooms: { action: 'Increment', amount: '1' } },
      lists: { players: { addValues: ['amie'] } },
    }
    const { status, json } = await post(body, { 'Idempotency-Key': 'first' })
    expect([status, json]).toMatchObject([
      200,
      {
        metadata: { labels: { mode: 'ranked' }, annotations: { match: '42' } },
        counters: { rooms: { count: '1', capacity: '2' } },
        lists: { players: { values: ['amie'], capacity: '4' } },
      },
    ])
    expect(await fleet.sessions.get('first')).toMatchObject({ initialPlayers: ['amie'] })
    const room = {
      ...arena.gameServerSelectors[0],
      gameServerState: 'ALLOCATED',
      counters: { rooms: { minAvailable: 1 } },
    }
    const another = { gameServerSelectors: [room], counters: { rooms: { action: 'Increment', amount: 1 } } }
    const second = await post(another, {}, '?wait=60')
    expect(second).toMatchObject({
      status: 200,
      json: { gameServerName: json['gameServerName'], counters: { rooms: { count: '2' } } },
    })
    // Agones would clamp. Here a server without room does not fit.
    expect(await post({ gameServerSelectors: [room] })).toMatchObject({ status: 429, json: { code: 8 } })
  })

  it.each([
    ['in the query', {}, '?wait=60'],
    ['as a preference', { Prefer: 'respond-async, wait=60' }, ''],
    ['as a preference beyond the limit', { Prefer: 'wait=86400' }, ''],
  ])('waits for a server: %s', async (_, headers, query) => {
    await fleet.builds.create(build({ standingBy: 0 }))
    const post = await served()
    expect(await post(arena)).toMatchObject({ status: 429, json: { code: 8 } })
    expect(await post(arena, headers, query)).toMatchObject({ status: 200, json: { address: '127.0.0.1' } })
  })

  it('answers errors as Agones does', async () => {
    const [small, post] = [await served({ maxBodyBytes: 100 }), await served({ sessionIDs: 'guid' })]
    const error = (code: number, text: string) => ({ code, message: expect.stringContaining(text), details: [] })
    const key = { 'Idempotency-Key': '3f2504e0-4f89-41d3-9a0c-0305e82c3301' }
    const none = await post(arena, key)
    expect(none.headers['retry-after']).toBe('1')
    expect([none.status, none.json]).toEqual([429, error(8, 'no build in namespace default')])
    const scheduling = await post({ scheduling: 7 })
    expect([scheduling.status, scheduling.json]).toEqual([400, error(3, 'scheduling must be Packed or Distributed')])
    const broken = await post('{')
    expect([broken.status, broken.json]).toEqual([400, error(3, 'body is not JSON')])
    const waits = await post(arena, key, '?wait=soon')
    expect([waits.status, waits.json]).toEqual([400, error(3, 'wait must be')])
    const notGuid = await post(arena, { 'Idempotency-Key': 'match 7' })
    expect([notGuid.status, notGuid.json]).toEqual([400, error(3, 'sessionID must be a GUID')])
    const large = await small({ ...arena, namespace: 'x'.repeat(100) })
    expect([large.status, large.json]).toEqual([413, error(3, 'larger than 100 bytes')])
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const full = await post(arena, key)
    expect([full.status, full.json]).toEqual([429, error(8, 'arena')])
    const unknown = await post({ ...arena, counters: { rooms: { capacity: 1 } } }, key)
    expect([unknown.status, unknown.json]).toEqual([400, error(3, 'rooms')])
  })

  it('asks for the role allocate', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const token = (name: string) => `${name}-${'x'.repeat(20)}`
    const tokens = (['allocate', 'read'] as const).map((role) => ({ token: token(role), roles: [role] }))
    const post = await served({ authorize: bearerTokens(tokens) })
    const as = (name: string) => post(arena, { Authorization: `Bearer ${token(name)}` })
    expect(await post(arena)).toMatchObject({ status: 401, json: { code: 16 } })
    expect(await as('read')).toMatchObject({ status: 403, json: { code: 7 } })
    expect(await as('allocate')).toMatchObject({ status: 200 })
  })

  it("is only there with compat, and gamekeeper's own format stays beside it", async () => {
    const plain = await open(allocationRoutes(fleet))
    listeners.push(plain)
    expect(await call('POST', `${plain.url}/gameserverallocation`, { body: {} })).toMatchObject({ status: 404 })
    const both = await open(allocationRoutes(fleet, { compat: 'agones' }))
    listeners.push(both)
    const get = await call('GET', `${both.url}/gameserverallocation`, { validate: false })
    expect([get.status, JSON.parse(get.text)]).toMatchObject([405, { code: 12 }])
    const own = await call('POST', `${both.url}/api/v1/allocate`, { body: {} })
    expect([own.status, JSON.parse(own.text)]).toMatchObject([400, { code: 'invalid' }])
    const { paths } = JSON.parse((await call('GET', `${both.url}/openapi.json`)).text) as { paths: object }
    expect(Object.keys(paths)).toEqual(['/api/v1/allocate', '/api/v1/allocate-many', '/gameserverallocation'])
  })
})

it('the audit names the caller and the session', async () => {
  await fleet.builds.create(build())
  await standingBy(fleet, 2)
  const routes = allocationRoutes(fleet, { compat: 'agones', authorize: () => ({ caller: 'matchmaker' }) })
  const seen: unknown[] = []
  const stop = fleet.on('Audited', (event) => seen.push(event))
  await routes.fetch(
    new Request('http://a/gameserverallocation', { method: 'POST', body: '{}', headers: { 'Idempotency-Key': 'm1' } }),
  )
  await until(() => seen.length > 0)
  stop()
  expect(seen).toMatchObject([{ action: 'allocate', caller: { kind: 'host', name: 'matchmaker' }, sessionID: 'm1' }])
})

it('a fleet that looks up no builds and servers is refused', () => {
  const allocate = () => Promise.reject(new Error('not called'))
  expect(() => allocationRoutes({ allocate }, { compat: 'agones' })).toThrow(
    expect.objectContaining({ code: 'invalid', message: expect.stringContaining('builds') }),
  )
})

it.each(['none', 'keyed'])(
  'a host that does not lead passes the call on, with the key of its caller: %s',
  async (key) => {
    const { leader, other } = await pair(4, { serve: { compat: 'agones' } })
    const url = `${other.served.allocationUrl}/gameserverallocation`
    const headers: Record<string, string> = {
      ...(key === 'keyed' && { 'Idempotency-Key': 'match 7' }),
      Prefer: 'wait=5',
    }
    const answer = await call('POST', url, { body: arena, headers })
    expect(answer.status).toBe(200)
    const { gameServerName } = JSON.parse(answer.text) as { gameServerName: string }
    const sessions = await leader.fleet.sessions.list()
    expect(sessions.map(({ server }) => server.name)).toEqual([gameServerName])
    if (key === 'keyed') expect(sessions[0]?.sessionID).toBe('match 7')
    const refused = await call('POST', url, { body: { scheduling: 'Random' }, headers })
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([400, { code: 3 }])
  },
)
