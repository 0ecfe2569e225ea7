/** The management API over real sockets and a real fleet: every operation with its success and each error. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FleetError, type Fleet } from '../../src/index.js'
import { managementRoutes } from '../../src/http/index.js'
import { call, type CallOptions, listening, type Listener, rawConnection } from './client.js'
import { build, buildID, memoryFleet, noServers, sessionID, standingBy } from './fleet.js'

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
    ['an array', [], /^body must be a GameServerBuild object, but is \[]$/],
    ['no metadata', { spec: build().spec }, /^metadata must be an object/],
    ['a bad name', build({}, 'Arena!'), /^metadata\.name must be .* but is "Arena!"$/],
    ['more standing by than max', build({ standingBy: 4 }), /standingBy is 4 and max is 3/],
    ['a field that no build has', build({ standbyBy: 2 }), /^spec\.standbyBy is not allowed/],
    ['an unrunnable template', build({ template: {} }), /^spec\.template\.spec must be an object/],
  ])('are refused with 400 for %s', async (_, body, message) => {
    const reply = await ask('POST', '/gameserverbuilds/', body)
    expect(reply.status).toBe(400)
    expect(reply.json).toEqual({ error: expect.stringMatching(message) })
  })

  it('are rejected with 400 if the name or the buildID is taken', async () => {
    await arena()
    const sameName = await ask('POST', '/gameserverbuilds/', build({ buildID: 'other' }))
    const sameID = await ask('POST', '/gameserverbuilds/', build({}, 'other'))
    expect([sameName.status, sameID.status]).toEqual([400, 400])
    expect(sameName.json).toEqual({ error: expect.stringContaining('arena') })
    expect(sameID.json).toEqual({ error: expect.stringContaining(buildID) })
  })

  it.each([
    [{}, /must set at least one of standingBy, max/],
    [{ standingBy: -1 }, /^standingBy must be an integer ≥ 0, but is -1$/],
    [{ standingBy: 1.5 }, /^standingBy must be an integer/],
    [{ max: '4' }, /^max must be an integer/],
    [{ standingBy: 4 }, /standingBy is 4 and max is 3/],
    [{ max: 1 }, /standingBy is 2 and max is 1/],
    [{ max: 4, buildID: 'x' }, /^buildID is not allowed/],
    [[], /^body must be an object/],
  ])('cannot be patched with %j: 400', async (body, message) => {
    await arena()
    const reply = await ask('PATCH', '/gameserverbuilds/default/arena', body)
    expect(reply.status).toBe(400)
    expect(reply.json).toEqual({ error: expect.stringMatching(message) })
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
  ['DELETE', '/gameserverbuilds/default/arena', '/gameserverbuilds/default/nobody', 'delete'],
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
] as const

const bodyFor = (method: string) => (method === 'POST' ? build() : method === 'PATCH' ? { max: 4 } : undefined)

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
    const reply = await ask(method, path, bodyFor(method))
    expect(reply.status).toBe(404)
    expect(reply.json).toEqual({ error: expect.any(String) })
  })
})

describe('a failure of the store or the backend gets 500 with its cause:', () => {
  const failing = () => Promise.reject(new FleetError('unavailable', 'the store is away', { cause: refused() }))
  const refused = () => Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })
  const collection = { create: failing, list: failing, get: failing, patch: failing, delete: failing, ofBuild: failing }

  it.each(operations)('%s %s', async (method, path) => {
    const app = managementRoutes({ builds: collection, servers: collection, details: collection })
    const broken = await listening(app.nodeHandler)
    const reply = await call(method, `${broken.url}/api/v1${path}`, { body: bodyFor(method) })
    await broken.close()
    expect(reply).toMatchObject({ status: 500, text: '{"error":"the store is away: ECONNREFUSED"}' })
  })

  it('for errors that are not FleetErrors, without their stack trace', async () => {
    const thrown = () => {
      throw new TypeError('x is not a function')
    }
    const app = managementRoutes({ ...fleet, builds: { ...fleet.builds, list: thrown } })
    const reply = await app.fetch(new Request('http://a/api/v1/gameserverbuilds/'))
    expect(reply.status).toBe(500)
    expect(await reply.json()).toEqual({ error: 'x is not a function' })
  })
})

describe('paths', () => {
  it.each(operations)('for %s %s work with and without a trailing slash', async (method, path) => {
    const opposite = path.endsWith('/') ? path.slice(0, -1) : `${path}/`
    await arena()
    const [first] = await fleet.servers.list()
    const real = opposite.replace('arena-aaaaa', first?.metadata.name ?? '')
    const body = method === 'POST' ? build({ buildID: 'other', standingBy: 0 }, 'other') : bodyFor(method)
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
    expect(JSON.parse(reply.text)).toEqual({ error: `nothing is served at ${path}` })
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
    ['POST', '/gameserverbuilds/default/arena', 'GET, HEAD, PATCH, DELETE, OPTIONS'],
    ['POST', '/gameservers/', 'GET, HEAD, OPTIONS'],
    ['PATCH', '/gameservers/default/x/', 'GET, HEAD, DELETE, OPTIONS'],
    ['DELETE', '/gameserverdetails/default/x', 'GET, HEAD, OPTIONS'],
    ['PROPFIND', '/gameserverbuilds/default/arena/gameservers', 'GET, HEAD, OPTIONS'],
    ['TRACE', '/gameserverbuilds/default/arena/gameserverdetails/', 'GET, HEAD, OPTIONS'],
  ])('get 405 and Allow for %s %s', async (method, path, allow) => {
    const reply = await ask(method, path)
    expect(reply.status).toBe(405)
    expect(reply.headers['allow']).toBe(allow)
    expect(reply.json).toEqual({ error: `${method} is not allowed here, only ${allow}` })
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
