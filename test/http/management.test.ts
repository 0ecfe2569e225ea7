/** The management API over real sockets and a real fleet: every operation with its success and each error. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FleetError } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { managementRoutes } from '../../src/http/index.js'
import { call, type CallOptions, listening, type Listener, rawConnection } from './client.js'
import { build, buildID, fleetOf, memoryFleet, noServers, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
let server: Listener
let base: string

beforeAll(async () => {
  fleet = await memoryFleet()
  server = await listening(managementRoutes(fleet).nodeHandler)
  base = `${server.url}/api/v1`
})

afterAll(async () => {
  await server.close()
  await fleet.close()
})

beforeEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

const ask = async (method: string, path: string, body?: unknown, options: CallOptions = {}) => {
  const reply = await call(method, base + path, { ...options, body })
  const json: unknown = reply.text === '' ? undefined : JSON.parse(reply.text)
  return { ...reply, json }
}

async function arena(spec: object = {}): Promise<void> {
  await fleet.builds.create(build(spec))
  await standingBy(fleet, 2)
}

const status = {
  currentActive: expect.any(Number),
  currentStandingBy: expect.any(Number),
  crashesCount: 0,
  currentPending: expect.any(Number),
  currentInitializing: expect.any(Number),
  health: 'Healthy',
  currentStandingByReadyDesired: expect.stringMatching(/^\d\/2$/),
}
const apiVersion = 'mps.gamekeeper.com/v1alpha1'
const metadataOf = (name: unknown) => ({ name, namespace: 'default', creationTimestamp: expect.any(String) })
const aBuild = { apiVersion, kind: 'GameServerBuild', metadata: metadataOf('arena'), spec: build().spec, status }

describe('builds', () => {
  it('can be created from a body with status, apiVersion, and kind', async () => {
    const reply = await ask('POST', '/gameserverbuilds/', {
      apiVersion: 'mps.vendor.com/v1alpha1',
      kind: 'GameServerBuild',
      ...build(),
      status: { currentActive: 7 },
    })
    expect(reply.status).toBe(200)
    expect(reply.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(reply.text)),
    })
    expect(reply.json).toEqual(aBuild)
  })

  it('can be listed, read, patched, and deleted', async () => {
    expect(await ask('GET', '/gameserverbuilds/')).toMatchObject({ status: 200, json: [] })
    await arena()
    expect(await ask('GET', '/gameserverbuilds/')).toMatchObject({ status: 200, json: [aBuild] })
    expect(await ask('GET', '/gameserverbuilds/default/arena')).toMatchObject({ status: 200, json: aBuild })
    const patched = await ask('PATCH', '/gameserverbuilds/default/arena', { standingBy: 1, max: 5 })
    expect(patched).toMatchObject({ status: 200, json: { kind: 'GameServerBuild', spec: { standingBy: 1, max: 5 } } })
    expect(await ask('PATCH', '/gameserverbuilds/default/arena', { max: 4 })).toMatchObject({
      status: 200,
      json: { spec: { standingBy: 1, max: 4 } },
    })
    const deleted = await ask('DELETE', '/gameserverbuilds/default/arena')
    expect(deleted).toMatchObject({ status: 200, json: { message: 'Game server build deleted' } })
    expect((await ask('GET', '/gameserverbuilds/default/arena')).status).toBe(404)
  })

  it.each([
    ['an array', [], /^the build must be a GameServerBuild object, but is \[]$/],
    ['no metadata', { spec: build().spec }, /^metadata must be an object/],
    ['a bad name', build({}, 'Arena!'), /^metadata\.name must be .* but is "Arena!"$/],
    ['more standing by than max', build({ standingBy: 4 }), /standingBy is 4 and max is 3/],
    ['a field that no build has', build({ standbyBy: 2 }), /^spec\.standbyBy is not allowed/],
    ['an unrunnable template', build({ template: {} }), /^spec\.template\.spec must be an object/],
  ])('are refused with 400 for %s', async (_, body, message) => {
    const reply = await ask('POST', '/gameserverbuilds/', body)
    expect(reply.status).toBe(400)
    expect(reply.json).toEqual({ error: expect.stringMatching(message), code: 'invalid' })
  })

  it('are rejected with 400 if the name or the buildID is taken', async () => {
    await arena()
    const sameName = await ask('POST', '/gameserverbuilds/', build({ buildID: 'other' }))
    const sameID = await ask('POST', '/gameserverbuilds/', build({}, 'other'))
    expect([sameName.status, sameID.status]).toEqual([400, 400])
    expect(sameName.json).toEqual({ error: expect.stringContaining('arena'), code: 'exists' })
    expect(sameID.json).toEqual({ error: expect.stringContaining(buildID), code: 'exists' })
  })

  it.each([
    [{}, /must set at least one of standingBy, max/],
    [{ standingBy: -1 }, /^standingBy must be an integer ≥ 0, but is -1$/],
    [{ standingBy: 1.5 }, /^standingBy must be an integer/],
    [{ max: '4' }, /^max must be an integer/],
    [{ standingBy: 4 }, /standingBy is 4 and max is 3/],
    [{ max: 1 }, /standingBy is 2 and max is 1/],
    [{ max: 4, buildID: 'x' }, /^buildID is not allowed/],
    [[], /^the change must be an object/],
  ])('cannot be patched with %j: 400', async (body, message) => {
    await arena()
    const reply = await ask('PATCH', '/gameserverbuilds/default/arena', body)
    expect(reply.status).toBe(400)
    expect(reply.json).toEqual({ error: expect.stringMatching(message), code: 'invalid' })
  })
})

describe('servers', () => {
  const aServer = {
    apiVersion,
    kind: 'GameServer',
    metadata: metadataOf(expect.stringMatching(/^arena-[a-z0-9]{5}$/)),
    status: {
      state: 'StandingBy',
      health: 'Healthy',
      publicIP: '127.0.0.1',
      ports: expect.stringMatching(/^7777:\d+$/),
      nodeName: 'memory',
      reachedInitializingOn: expect.any(String),
      reachedStandingByOn: expect.any(String),
    },
  }

  it('can be listed per fleet or per build, read, and deleted', async () => {
    await arena()
    await fleet.builds.create(build({ buildID: 'other', standingBy: 1 }, 'other'))
    await standingBy(fleet, 1, 'other')
    expect((await ask('GET', '/gameservers/')).json).toHaveLength(3)
    const ofBuild = await ask('GET', '/gameserverbuilds/default/arena/gameservers')
    expect(ofBuild).toMatchObject({ status: 200 })
    expect(ofBuild.json).toEqual([aServer, aServer])
    const [first] = await fleet.servers.list({ build: 'arena' })
    const path = `/gameservers/default/${first?.metadata.name}`
    const got = await ask('GET', path)
    expect(got).toMatchObject({ status: 200, json: { metadata: { name: first?.metadata.name } } })
    expect(got.json).toEqual(aServer)
    expect(await ask('DELETE', path)).toMatchObject({ status: 200, json: { message: 'Game server deleted' } })
  })

  it('show their labels, annotations, counters and lists, which a patch changes whole or not at all', async () => {
    const counters = { rooms: { count: 0, capacity: 2 } }
    await arena({ counters, lists: { maps: { values: [], capacity: 1 } } })
    const path = `/gameservers/default/${(await fleet.servers.list())[0]?.metadata.name}`
    const change = {
      labels: { season: 'winter' },
      annotations: { note: 'né' },
      ...{ counters: { rooms: { increment: 2 } }, lists: { maps: { add: ['dust'] } } },
    }
    const patched = await ask('PATCH', path, change)
    expect(patched).toMatchObject({
      status: 200,
      json: {
        metadata: { labels: { season: 'winter' }, annotations: { note: 'né' } },
        status: { counters: { rooms: { count: 2 } }, lists: { maps: { values: ['dust'] } } },
      },
    })
    expect((await ask('GET', path)).json).toEqual(patched.json)
    const tooMuch = await ask('PATCH', path, { labels: { season: null }, counters: { rooms: { increment: 1 } } })
    expect(tooMuch).toMatchObject({ status: 409, headers: { 'gamekeeper-error': 'out-of-range' } })
    expect(tooMuch.json).toMatchObject({ error: expect.stringContaining('counters.rooms.increment') })
    expect(await ask('PATCH', path, { labels: { season: 7 } })).toMatchObject({ status: 400 })
    expect(await ask('PATCH', path, [])).toMatchObject({ status: 400 })
    expect((await ask('GET', path)).json).toEqual(patched.json)
    expect(await ask('PATCH', '/gameservers/default/nothing', change)).toMatchObject({ status: 404 })
  })

  it('show their session while Active', async () => {
    await arena()
    await fleet.allocate({ buildID, sessionID })
    const { json } = await ask('GET', '/gameserverbuilds/default/arena/gameservers')
    expect(json).toContainEqual({
      ...aServer,
      status: { ...aServer.status, state: 'Active', sessionID, reachedActiveOn: expect.any(String) },
    })
  })
})

describe('details', () => {
  const aDetail = (name: unknown) => ({
    apiVersion,
    kind: 'GameServerDetail',
    metadata: expect.objectContaining({ name, namespace: 'default' }),
    spec: { connectedPlayersCount: 0, connectedPlayers: [] },
  })

  it('are one object with items for a build, and a single-element array for a server', async () => {
    await arena()
    const ofBuild = await ask('GET', '/gameserverbuilds/default/arena/gameserverdetails')
    expect(ofBuild.status).toBe(200)
    const item = aDetail(expect.stringMatching(/^arena-/))
    expect(ofBuild.json).toEqual({ ...aDetail('arena'), items: [item, item] })
    const [first] = await fleet.servers.list()
    const one = await ask('GET', `/gameserverdetails/default/${first?.metadata.name}`)
    expect(one.status).toBe(200)
    expect(one.json).toEqual([aDetail(first?.metadata.name)])
  })
})

/** Every operation: its path, a path of a missing resource, and the fleet method that it calls. */
const operations = [
  ['POST', '/gameserverbuilds/', undefined, 'create'],
  ['GET', '/gameserverbuilds/', undefined, 'list'],
  ['GET', '/gameserverbuilds/default/arena', '/gameserverbuilds/default/nobody', 'get'],
  ['PATCH', '/gameserverbuilds/default/arena', '/gameserverbuilds/default/nobody', 'patch'],
  ['PUT', '/gameserverbuilds/default/arena', undefined, 'apply'],
  ['PATCH', '/gameserverbuilds/default/arena/spec', '/gameserverbuilds/default/nobody/spec', 'update'],
  ['POST', '/gameserverbuilds/default/arena/drain', '/gameserverbuilds/default/nobody/drain', 'drain'],
  ['POST', '/gameserverbuilds/default/arena/resume', '/gameserverbuilds/default/nobody/resume', 'resume'],
  ['DELETE', '/gameserverbuilds/default/arena', '/gameserverbuilds/default/nobody', 'delete'],
  ['POST', '/gameservers/default/arena-aaaaa/drain', '/gameservers/default/nobody/drain', 'drain'],
  ['GET', '/gameservers/default/arena-aaaaa/history', '/gameservers/default/nobody/history', 'explain'],
  ['GET', '/gameservers/', undefined, 'list'],
  ['GET', '/gameserverbuilds/default/arena/gameservers', '/gameserverbuilds/default/nobody/gameservers', 'list'],
  ['GET', '/gameservers/default/arena-aaaaa', '/gameservers/default/nobody', 'get'],
  ['DELETE', '/gameservers/default/arena-aaaaa', '/gameservers/default/nobody', 'delete'],
  [
    'GET',
    '/gameserverbuilds/default/arena/gameserverdetails',
    '/gameserverbuilds/default/nobody/gameserverdetails',
    'ofBuild',
  ],
  ['GET', '/gameserverdetails/default/arena-aaaaa', '/gameserverdetails/default/nobody', 'get'],
  [
    'POST',
    '/gameservers/default/arena-aaaaa/maintenance',
    '/gameservers/default/nobody/maintenance',
    'announceMaintenance',
  ],
  [
    'DELETE',
    '/gameservers/default/arena-aaaaa/maintenance',
    '/gameservers/default/nobody/maintenance',
    'withdrawMaintenance',
  ],
  ['POST', '/gameservers/default/arena-aaaaa/reservation', '/gameservers/default/nobody/reservation', 'reserve'],
  ['DELETE', '/gameservers/default/arena-aaaaa/reservation', '/gameservers/default/nobody/reservation', 'release'],
  ['POST', '/nodes/memory/maintenance', '/nodes/nobody/maintenance', 'announceMaintenance'],
  ['DELETE', '/nodes/memory/maintenance', '/nodes/nobody/maintenance', 'withdrawMaintenance'],
] as const

const hour = 3_600_000

function bodyFor(method: string, path: string) {
  if (path.includes('/maintenance')) return { at: new Date(Date.now() + hour).toISOString() }
  if (path.includes('/reservation')) return { forMs: hour }
  if (path.includes('/drain')) return { deadlineMs: 0 }
  if (path.includes('/resume')) return undefined
  if (method === 'POST' || method === 'PUT') return build()
  return method === 'PATCH' ? { max: 4 } : undefined
}

describe('maintenance', () => {
  it.each(['2027-02-30T10:00:00Z', '2027-02-29T10:00:00+01:00', '2027-04-31T00:00:00Z'])(
    'is refused for a day that does not exist: %s',
    async (at) => {
      expect(await ask('POST', '/nodes/memory/maintenance', { at })).toMatchObject({
        ...{ status: 400, json: { error: `at must be a time in RFC 3339, but is "${at}"` } },
      })
    },
  )

  it('is announced to a server and withdrawn, and the server shows its time', async () => {
    await arena()
    const [one, other] = await fleet.servers.list()
    const path = `/gameservers/default/${one?.metadata.name}`
    const seconds = Math.floor(Date.now() / 1_000) + 3_600
    const at = new Date(seconds * 1_000).toISOString()
    expect(await ask('POST', `${path}/maintenance`, { at })).toMatchObject({ status: 200, json: { servers: 1 } })
    expect((await ask('GET', path)).json).toMatchObject({ status: { nextScheduledMaintenance: at } })
    expect((await fleet.servers.get(other?.metadata ?? '')).status).not.toHaveProperty('nextScheduledMaintenance')
    expect(await ask('DELETE', `${path}/maintenance`)).toMatchObject({ status: 200, json: { servers: 1 } })
    expect((await ask('GET', path)).json).not.toMatchObject({ status: { nextScheduledMaintenance: at } })
    expect(await ask('DELETE', `${path}/maintenance`)).toMatchObject({ status: 200, json: { servers: 0 } })
  })

  it('is announced to all servers on a node, in any time zone', async () => {
    await arena()
    const local = new Date(Date.now() + hour + 2 * hour).toISOString().replace('Z', '+02:00')
    const reply = await ask('POST', '/nodes/memory/maintenance', { at: local })
    expect(reply).toMatchObject({ status: 200, json: { servers: 2 } })
    const times = (await fleet.servers.list()).map(({ status }) => Date.parse(status.nextScheduledMaintenance ?? ''))
    for (const time of times) expect(Math.abs(time - Date.now() - hour)).toBeLessThan(60_000)
    expect(await ask('DELETE', '/nodes/memory/maintenance')).toMatchObject({ status: 200, json: { servers: 2 } })
  })

  it.each([
    [{}, /^at must be a time in RFC 3339, but is absent$/],
    [{ at: '2026-01-02' }, /^at must be a time in RFC 3339, but is "2026-01-02"$/],
    [{ at: '2026-01-02T03:04:05' }, /^at must be a time in RFC 3339/],
    [{ at: '2026-13-41T03:04:05Z' }, /^at must be a time in RFC 3339/],
    [{ at: 1_800_000_000_000 }, /^at must be a time in RFC 3339, but is 1800000000000$/],
    [{ at: null }, /^at must be a time in RFC 3339, but is null$/],
    [{ at: '2020-01-02T03:04:05Z' }, /^at must be a time in the future, .* but is 2020-01-02T03:04:05.000Z$/],
    [{ at: '9999-01-02T03:04:05Z' }, /^at must be a time in the future, at most 365 days ahead/],
    [{ at: '2026-01-02T03:04:05Z', why: 'x' }, /^why is not allowed; allowed fields are at$/],
    [[], /^body must be a maintenance request object, but is \[\]$/],
  ])('with the body %j gets 400', async (body, message) => {
    await arena()
    const [first] = await fleet.servers.list()
    for (const target of [`gameservers/default/${first?.metadata.name}`, 'nodes/memory']) {
      const reply = await ask('POST', `/${target}/maintenance`, body)
      expect(reply).toMatchObject({ status: 400, json: { error: expect.stringMatching(message) } })
    }
  })
})

describe('a missing resource gets 404:', () => {
  const missing = operations.flatMap(([method, , path]) =>
    path === undefined
      ? []
      : [
          path,
          path.replace('default', 'elsewhere'),
          path.replace('nobody', 'No%2Fbody%20%F0%9F%98%80'),
          `${path}/`,
        ].map((variant) => [method, variant] as const),
  )

  it.each(missing)('%s %s', async (method, path) => {
    const reply = await ask(method, path, bodyFor(method, path))
    expect(reply.status).toBe(404)
    expect(reply.json).toEqual({ error: expect.any(String), code: 'not-found' })
  })
})

describe('a failure of the store or the backend gets 500 with its cause:', () => {
  const failing = () => Promise.reject(new FleetError('unavailable', 'the store is away', { cause: refused() }))
  const refused = () => Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })

  it.each(operations)('%s %s', async (method, path) => {
    const app = managementRoutes({ ...fleetOf(failing), explain: failing, drain: failing })
    const broken = await listening(app.nodeHandler)
    const reply = await call(method, `${broken.url}/api/v1${path}`, { body: bodyFor(method, path) })
    await broken.close()
    expect(reply).toMatchObject({
      status: 500,
      text: '{"error":"the store is away: ECONNREFUSED","code":"unavailable"}',
    })
  })

  it('for errors that are not FleetErrors, without their stack trace', async () => {
    const thrown = () => {
      throw new TypeError('x is not a function')
    }
    const app = managementRoutes({ ...fleet, builds: { ...fleet.builds, list: thrown } })
    const reply = await app.fetch(new Request('http://a/api/v1/gameserverbuilds/'))
    expect(reply.status).toBe(500)
    expect(await reply.json()).toEqual({ error: 'x is not a function', code: 'internal' })
  })
})

describe('paths', () => {
  it.each(operations)('for %s %s work with and without a trailing slash', async (method, path) => {
    const opposite = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
    await arena()
    const [first] = await fleet.servers.list()
    const real = opposite.replace('arena-aaaaa', first?.metadata.name ?? '')
    const isCreate = path === '/gameserverbuilds/' && method === 'POST'
    const body = isCreate ? build({ buildID: 'other', standingBy: 0 }, 'other') : bodyFor(method, path)
    expect((await ask(method, real, body)).status).toBe(200)
  })

  it.each([
    '/',
    '/api/v1',
    '/api/v1/gameserverbuilds/default',
    '/api/v1/gameserverbuilds//arena',
    '/api/v2/gameservers/',
  ])('get 404 if unknown: %s', async (path) => {
    const reply = await call('GET', server.url + path)
    expect(reply.status).toBe(404)
    expect(JSON.parse(reply.text)).toEqual({ error: `nothing is served at ${path}`, code: 'not-found' })
  })

  it('accept percent-encoded names, and ignore the query', async () => {
    await arena()
    expect((await ask('GET', '/gameserverbuilds/def%61ult/%61rena?pretty=true')).status).toBe(200)
  })

  it('return 404 for invalid percent-encoding', async () => {
    expect((await ask('GET', '/gameserverbuilds/default/%ZZ')).status).toBe(404)
  })

  it.each([
    ['PUT', '/gameserverbuilds/', 'GET, HEAD, POST, OPTIONS'],
    ['DELETE', '/gameserverbuilds', 'GET, HEAD, POST, OPTIONS'],
    ['POST', '/gameserverbuilds/default/arena', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['POST', '/gameservers/', 'GET, HEAD, OPTIONS'],
    ['PUT', '/gameservers/default/x/', 'GET, HEAD, PATCH, DELETE, OPTIONS'],
    ['DELETE', '/gameserverdetails/default/x', 'GET, HEAD, OPTIONS'],
    ['PROPFIND', '/gameserverbuilds/default/arena/gameservers', 'GET, HEAD, OPTIONS'],
    ['TRACE', '/gameserverbuilds/default/arena/gameserverdetails/', 'GET, HEAD, OPTIONS'],
  ])('get 405 and Allow for %s %s', async (method, path, allow) => {
    const reply = await ask(method, path)
    expect(reply.status).toBe(405)
    expect(reply.headers['allow']).toBe(allow)
    expect(reply.json).toEqual({ error: `${method} is not allowed here, only ${allow}`, code: 'unsupported' })
  })

  it('respond to OPTIONS with Allow, and to HEAD like GET without the body', async () => {
    expect(await ask('OPTIONS', '/gameserverbuilds/')).toMatchObject({
      status: 204,
      text: '',
      headers: { allow: 'GET, HEAD, POST, OPTIONS' },
    })
    expect(await ask('HEAD', '/gameserverbuilds/')).toMatchObject({
      status: 200,
      text: '',
      headers: { 'content-length': '2', 'content-type': 'application/json' },
    })
    expect(await ask('HEAD', '/gameserverbuilds/default/nobody')).toMatchObject({ status: 404, text: '' })
  })

  it('need no Host header in HTTP/1.0', async () => {
    const text = await rawConnection(server.url, 'GET /api/v1/gameserverbuilds/ HTTP/1.0\r\n\r\n').closed()
    expect(text).toMatch(/200 OK[^]*\r\n\r\n\[]$/)
  })
})
