/** Under `node:http` plain requests find their handler without Hono. Nobody may be able to tell. */
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allocationRoutes, managementRoutes, nodeHandler } from '../../src/http/index.js'
import { type AllocationRequest, FleetError } from '../../src/index.js'
import { callFake as call, type CallOptions, type Listener, listening, rawConnection, until } from './client.js'
import { build, buildID, sessionID } from './fleet.js'

/** Answers with what it was asked, so that a difference on the way there shows. */
const shows = (name: string) => (asked?: unknown) => Promise.resolve({ name, asked } as never)
const fails = () => Promise.reject(new FleetError('unavailable', 'the store is away', { cause: new Error('gone') }))

const management = managementRoutes({
  builds: { create: shows('create'), list: shows('list'), get: shows('get'), patch: shows('patch'), delete: fails },
  servers: { list: shows('servers'), get: shows('server'), delete: shows('delete') },
  details: { get: shows('detail'), ofBuild: shows('details') },
})
const allocation = allocationRoutes({ allocate: shows('allocate') }, { maxBodyBytes: 1_000 })
const request: AllocationRequest = { buildID, sessionID, sessionCookie: 'é日本😀', initialPlayers: ['amie'] }

describe.each([
  ['management', management],
  ['allocation', allocation],
])('the %s routes', (name, routes) => {
  let straight: Listener
  let throughHono: Listener
  beforeAll(async () => {
    straight = await listening(nodeHandler(routes))
    throughHono = await listening(nodeHandler({ fetch: (...args) => routes.fetch(...args) }))
  })
  afterAll(() => Promise.all([straight.close(), throughHono.close()]))

  const ask = async (url: string, method: string, path: string, options: CallOptions) => {
    const { status, headers, text } = await call(method, url + path, options)
    const { date: _date, connection: _connection, 'keep-alive': _keepAlive, ...rest } = headers
    // Of an answer to HEAD, the web standard's Response does not know how long it would have been.
    return { status, headers: method === 'HEAD' ? { ...rest, 'content-length': undefined } : rest, text }
  }

  const json = { 'Content-Type': 'application/json' }
  const builds = '/api/v1/gameserverbuilds'
  const allocate = '/api/v1/allocate'
  const rows: readonly (readonly [string, string, CallOptions?])[] = [
    ...['', '/', '//', '?', '/?', '?a=b', '/x', '/x/', '/x/y', '/x/y/', '/x/y//', '//y', '/x/y/z', '/:namespace/:name']
      .flatMap((end) => [builds + end, `/api/v1/gameservers${end}`, `/api/v1/gameserverdetails${end}`])
      .map((path) => ['GET', path] as const),
    ...['gameservers', 'gameserverdetails', 'gameservers/', 'gameserverdetails/?x', 'gameservers//', 'GameServers'].map(
      (end) => ['GET', `${builds}/x/y/${end}`] as const,
    ),
    ...['%41/b', 'a%2Fb/c', 'a/%ZZ', 'a/%', 'a/%F0%9F%98%80', 'a/%25', 'a/%2541', 'a/b%3Fc', 'a/%C3', '%2e%2e/b'].map(
      (end) => ['GET', `${builds}/${end}`] as const,
    ),
    ...[
      'a/./b',
      'a/../b/c',
      'a/b/..',
      '../gameservers',
      'a/b.',
      'a/.b',
      'a/...',
      "a/b'~!$&()*+,;=:@",
      'a/[b]',
      'a/b|c',
    ].map((end) => ['GET', `${builds}/${end}`] as const),
    ...['/', '/api', '/api/v1', '//', '///api/v1/allocate', '/API/v1/allocate', '/constructor', '/__proto__'].map(
      (path) => ['GET', path] as const,
    ),
    ...['HEAD', 'OPTIONS', 'PUT', 'PROPFIND', 'TRACE', 'DELETE', 'PATCH', 'POST'].flatMap((method) =>
      [builds, `${builds}/x/y`, '/api/v1/gameservers/', `${allocate}/`, '/nothing'].map(
        (path) => [method, path] as const,
      ),
    ),
    ['POST', builds, { body: build() }],
    ['POST', builds, { body: build({ max: -1 }) }],
    ['PATCH', `${builds}/x/y/`, { body: { max: 3 } }],
    ['PATCH', `${builds}/x/y/`, { body: { max: '3' } }],
    ['GET', `${builds}/x/y`, { body: 'a body that nobody reads' }],
    ...[
      '',
      '/',
      '?wait=0',
      '?wait=0.5',
      '?wait=1&wait=x',
      '?wait=x&wait=1',
      '?wait',
      '?wait=',
      '?Wait=x',
      '?a=%&wait=1',
    ].map((end) => ['POST', allocate + end, { body: request }] as const),
    ...[
      '?wait=+1',
      '?wait=%31',
      '?w%61it=61',
      '?wait=1#x',
      '?wait=1?',
      '?x=wait=9&wait=1',
      '?await=61',
      '?&&wait=61',
    ].map((end) => ['POST', allocate + end, { body: request }] as const),
    ...['', '{', '[]', '"', '\ufeff{}', '[['.repeat(300), `"${'x'.repeat(1_000)}"`].map(
      (body) => ['POST', allocate, { body }] as const,
    ),
    ['POST', allocate, { body: Buffer.from([0x22, 0xff, 0x22]) }],
    ['POST', allocate, { body: request, headers: { 'Transfer-Encoding': 'chunked' } }],
    ['POST', allocate, { body: request, headers: { Origin: 'http://a' } }],
    ['POST', allocate, { body: request, headers: { Origin: '', ...json } }],
    ['POST', allocate, { body: request, headers: { Origin: 'http://a', ...json } }],
    ...['LOCALHOST', 'localhost:80', 'a.b_c-d:65535', '[::1]:5000', '127.0.0.1'].map(
      (Host) => ['GET', builds, { headers: { Host } }] as const,
    ),
  ]

  it.each(rows.map(([method, path, options = {}]) => [method, path, options] as const))(
    '%s %s %j',
    async (...asked) => {
      const answer = await ask(straight.url, ...asked)
      expect(answer).toEqual(await ask(throughHono.url, ...asked))
    },
  )

  it.each([
    ['a backslash', 'GET /api\\v1 HTTP/1.1\r\nHost: a'],
    ['no slash', 'OPTIONS * HTTP/1.1\r\nHost: a'],
    ['another scheme', 'GET ftp://a/api/v1/gameservers HTTP/1.1\r\nHost: a'],
    ['a Host that is none', `GET ${builds} HTTP/1.1\r\nHost: a/b`],
    ['a Host with a user', `GET ${builds} HTTP/1.1\r\nHost: a@b`],
    ['a Host with a space', `GET ${builds} HTTP/1.1\r\nHost: a b`],
    ['a target in full', `GET http://other${builds}/x/y HTTP/1.1\r\nHost: a`],
    ['no Host, as HTTP/1.0 has it', `GET ${builds} HTTP/1.0`],
    ['an empty Host', `GET ${builds} HTTP/1.1\r\nHost:`],
  ])('a head with %s has the same status', async (_, head) => {
    const [one = '', other = ''] = await Promise.all(
      [straight, throughHono].map(({ url }) => rawConnection(url, `${head}\r\nConnection: close\r\n\r\n`).closed()),
    )
    expect(one).toMatch(/^HTTP\/1\.1 \d{3} /)
    expect(one.slice(0, 12)).toBe(other.slice(0, 12))
  })

  it('who sends on and on after a refusal is cut', async () => {
    const path = name === 'allocation' ? allocate : '/api/v1/gameservers'
    for (const { url } of [straight, throughHono]) {
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`
      const connection = rawConnection(url, head)
      const chunk = `400\r\n${'x'.repeat(1_024)}\r\n`
      await until(() => {
        if (!connection.socket.writableNeedDrain) connection.socket.write(chunk)
        return connection.socket.closed
      })
      expect(connection.received()).toMatch(name === 'allocation' ? /^HTTP\/1\.1 413 / : /^HTTP\/1\.1 405 /)
    }
  })

  it('a connection is good for the next request after one whose body nobody has read', async () => {
    for (const { url } of [straight, throughHono]) {
      const refused = `PUT ${builds} HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n${'x'.repeat(70_000)}`
      const last = `GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
      const text = await rawConnection(url, refused + last).closed()
      expect(text.match(/HTTP\/1\.1 \d{3} /g)).toHaveLength(2)
      expect(text).toMatch(/nothing is served at \/nothing"}$/)
    }
  })
})

describe('what a host adds to the routes', () => {
  it('is served beside them, and its answer to unknown paths is the one given', async () => {
    const routes = allocationRoutes({ allocate: shows('allocate') })
    routes.get('/health', (c) => c.text('well'))
    routes.notFound((c) => c.text('nobody knows', 404))
    const server = await listening(nodeHandler(routes))
    const replies = await Promise.all([
      call('GET', `${server.url}/health`),
      call('GET', `${server.url}/nothing`),
      call('POST', `${server.url}/api/v1/allocate`, { body: request }),
    ])
    await server.close()
    expect(replies.map(({ status }) => status)).toEqual([200, 404, 200])
    expect(replies.slice(0, 2).map(({ text }) => text)).toEqual(['well', 'nobody knows'])
  })

  it('an answer that came before theirs stands', async () => {
    let release = () => {}
    const released = new Promise<void>((resolve) => (release = resolve))
    const handler = nodeHandler(allocationRoutes({ allocate: () => released.then(() => shows('late')()) }))
    const server = await listening((incoming, outgoing) => {
      handler(incoming, outgoing)
      incoming.on('end', () => outgoing.writeHead(504).end('too slow', release))
    })
    const reply = await call('POST', `${server.url}/api/v1/allocate`, { body: request, validate: false })
    const again = await call('POST', `${server.url}/api/v1/allocate`, { body: request, validate: false })
    await server.close()
    expect([reply, again]).toMatchObject([
      { status: 504, text: 'too slow' },
      { status: 504, text: 'too slow' },
    ])
  })
})

describe("a host's app around the routes", () => {
  it('gives their answers below its own path', async () => {
    const server = await listening(nodeHandler(new Hono().route('/fleet', management)))
    const reply = await call('GET', `${server.url}/fleet/api/v1/gameserverbuilds/x/y%20z/`)
    await server.close()
    expect(reply).toMatchObject({ status: 200, text: '{"name":"get","asked":{"namespace":"x","name":"y z"}}' })
  })
})
