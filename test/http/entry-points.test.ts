/** What `nodeHandler` and `fetch` have in common: one table of requests and responses; then what is specific to each. */
import { createServer as createHttp2Server, connect as connectHttp2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { RequestListener } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allocationRoutes, fleetRoutes, type Routes } from '../../src/http/index.js'
import { type AllocationRequest, FleetError } from '../../src/index.js'
import { callFake as call, type CallOptions, type Listener, listening, rawConnection, until } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, buildID, fleetOf, sessionID } from './fleet.js'

/** Responds with its name and input. */
const echo = (name: string) => (input?: unknown) => Promise.resolve({ name, input } as never)
const fails = () =>
  Promise.reject(new FleetError('unavailable', 'the store does not answer', { cause: new Error('ECONNREFUSED') }))

const all = fleetOf(echo('another'))
const fleet = {
  allocate: echo('allocate'),
  builds: {
    ...all.builds,
    ...{ create: echo('create'), list: echo('list'), page: echo('page') },
    ...{ get: echo('get'), patch: echo('patch'), delete: fails },
  },
  servers: {
    ...all.servers,
    ...{ list: echo('servers'), page: echo('page of servers'), get: echo('server'), delete: echo('delete') },
    ...{ announceMaintenance: echo('announce'), withdrawMaintenance: echo('withdraw') },
  },
  details: { get: echo('detail'), ofBuild: echo('details') },
}
const routes = fleetRoutes(fleet, { maxBodyBytes: 1_000 })
const request: AllocationRequest = { buildID, sessionID, sessionCookie: 'é日本😀', initialPlayers: ['amie'] }

const builds = '/api/v1/gameserverbuilds'
const allocate = '/api/v1/allocate'
const json = { 'Content-Type': 'application/json' }

const ref = (namespace: string, name: string) => `{"name":"get","input":${JSON.stringify({ namespace, name })}}`
const refusal = (message: string, code = 'invalid') => JSON.stringify({ error: message, code })
const notServed = (path: string) => refusal(`nothing is served at ${path}`, 'not-found')
const badWait = (wait: string) =>
  refusal(`wait must be a number of seconds from 0 to 60, but is ${JSON.stringify(wait)}`)

type Row = [method: string, path: string, status: number, text: string | RegExp, options?: CallOptions]

const rows: readonly Row[] = [
  // Trailing slashes and queries.
  ['GET', builds, 200, /"list"/],
  ['GET', `${builds}/`, 200, /"list"/],
  ['GET', `${builds}?`, 200, /"list"/],
  ['GET', `${builds}/?a=b`, 200, /"list"/],
  ['GET', `${builds}/x/y`, 200, ref('x', 'y')],
  ['GET', `${builds}/x/y/`, 200, ref('x', 'y')],
  ['GET', `${builds}/x/y/gameserverdetails/?x`, 200, /"details"/],
  // Unknown paths.
  ...['/', '/api', '/api/v1', '/API/v1/allocate', '/constructor', '/__proto__', `${builds}//`, `${builds}/x`].map(
    (path): Row => ['GET', path, 404, notServed(path)],
  ),
  ...[`${builds}/x/`, `${builds}/x/y//`, `${builds}//y`, `${builds}/x/y/z`, `${builds}/x/y/GameServers`].map(
    (path): Row => ['GET', path, 404, notServed(path)],
  ),
  // Percent-encoding: decoded once in names; fixed segments do not match it.
  ['GET', `${builds}/%41/b`, 200, ref('A', 'b')],
  ['GET', `${builds}/a%2Fb/c`, 200, ref('a/b', 'c')],
  ['GET', `${builds}/a/%F0%9F%98%80`, 200, ref('a', '😀')],
  ['GET', `${builds}/a/%25`, 200, ref('a', '%')],
  ['GET', `${builds}/a/%2541`, 200, ref('a', '%41')],
  ['GET', `${builds}/a/b%3Fc`, 200, ref('a', 'b?c')],
  ['GET', `${builds}/a/%ZZ`, 200, ref('a', '%ZZ')],
  ['GET', `${builds}/a/%C3`, 200, ref('a', '%C3')],
  ['GET', `${builds}/a/b'~!$&()*+,;=:@`, 200, ref('a', "b'~!$&()*+,;=:@")],
  ['GET', '/api/v1/gameserver%62uilds', 404, notServed('/api/v1/gameserver%62uilds')],
  ['POST', '/api/v1/%61llocate', 404, notServed('/api/v1/%61llocate'), { body: request }],
  // Dots in a name are part of it.
  ['GET', `${builds}/a/b.`, 200, ref('a', 'b.')],
  ['GET', `${builds}/a/.b`, 200, ref('a', '.b')],
  ['GET', `${builds}/a/...`, 200, ref('a', '...')],
  // Methods.
  ['OPTIONS', builds, 204, ''],
  ['OPTIONS', `${allocate}/`, 204, ''],
  ['HEAD', `${builds}/x/y`, 200, ''],
  ['HEAD', '/nothing', 404, ''],
  ['HEAD', allocate, 405, ''],
  ['PUT', builds, 405, refusal('PUT is not allowed here, only GET, HEAD, POST, OPTIONS', 'unsupported')],
  [
    'PROPFIND',
    `${builds}/x/y`,
    405,
    refusal('PROPFIND is not allowed here, only GET, HEAD, PUT, PATCH, DELETE, OPTIONS', 'unsupported'),
  ],
  ['DELETE', allocate, 405, refusal('DELETE is not allowed here, only POST, OPTIONS', 'unsupported')],
  ['DELETE', `${builds}/x/y`, 500, refusal('the store does not answer: ECONNREFUSED', 'unavailable')],
  // Bodies.
  ['POST', builds, 200, /"create"/, { body: build() }],
  ['PATCH', `${builds}/x/y/`, 200, /"patch"/, { body: { max: 3 } }],
  ['GET', `${builds}/x/y`, 200, ref('x', 'y'), { body: 'not read' }],
  ['POST', allocate, 400, refusal('body must be JSON, but is empty'), { body: '' }],
  ['POST', allocate, 400, /body is not JSON: /, { body: '{' }],
  ['POST', allocate, 400, refusal('body is nested deeper than 100 levels'), { body: '[['.repeat(300) }],
  ['POST', allocate, 413, refusal('body is larger than 1000 bytes'), { body: `"${'x'.repeat(1_000)}"` }],
  ['POST', allocate, 400, /UTF-8/, { body: Buffer.from([0x22, 0xff, 0x22]) }],
  ['POST', allocate, 200, /日本😀/, { body: request, headers: { 'Transfer-Encoding': 'chunked' } }],
  ['POST', allocate, 400, /^{"error":"Content-Type must be/, { body: request, headers: { Origin: 'http://a' } }],
  ['POST', allocate, 200, /"allocate"/, { body: request, headers: { Origin: 'http://a', ...json } }],
  // Queries.
  ...['', '/', '?wait=0', '?wait=0.5', '?wait=1&wait=x', '?Weight=x', '?a=%&wait=1', '?wait=%31', '?await=61'].map(
    (end): Row => ['POST', allocate + end, 200, /"allocate"/, { body: request }],
  ),
  [
    ...(['POST', `${allocate}?Wait=x`, 400] as const),
    refusal('query parameter Wait is not allowed; did you mean wait?'),
    { body: request },
  ],
  ['POST', `${allocate}?wait`, 400, badWait(''), { body: request }],
  ['POST', `${allocate}?wait=x&wait=1`, 400, badWait('x'), { body: request }],
  ['POST', `${allocate}?w%61it=61`, 400, badWait('61'), { body: request }],
  ['POST', `${allocate}?wait=+1`, 400, badWait(' 1'), { body: request }],
  ['POST', `${allocate}?wait=1?`, 400, badWait('1?'), { body: request }],
  // Hosts.
  ...['LOCALHOST', 'localhost:80', 'a.b_c-d:65535', '[::1]:5000', '127.0.0.1'].map((Host): Row => [
    'GET',
    builds,
    200,
    /"list"/,
    { headers: { Host } },
  ]),
]

const codes: Readonly<Record<number, string>> = {
  400: 'invalid',
  404: 'not-found',
  405: 'unsupported',
  413: 'invalid',
  500: 'unavailable',
}

describe.each(entryPoints)('$name', ({ open }) => {
  let server: Listener
  beforeAll(async () => {
    server = await open(routes)
  })
  afterAll(() => server.close())

  it.each(rows)('responds to %s %s with %i', async (method, path, status, text, options = {}) => {
    const reply = await call(method, server.url + path, options)
    expect(reply.status).toBe(status)
    if (typeof text === 'string') expect(reply.text).toBe(text)
    else expect(reply.text).toMatch(text)
    expect(reply.headers['gamekeeper-error']).toBe(codes[status])
    if (status !== 204) expect(reply.headers['content-type']).toBe('application/json')
  })

  it('lists the allowed methods, and responds to HEAD with the length of the omitted body', async () => {
    const allow = 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'
    const path = `${server.url}${builds}/x/y`
    expect((await call('OPTIONS', path)).headers['allow']).toBe(allow)
    expect((await call('TRACE', path)).headers['allow']).toBe(allow)
    const { headers } = await call('HEAD', path)
    expect(headers['content-length']).toBe(String(ref('x', 'y').length))
  })

  it.each([
    ['a backslash in the path', 'GET /api\\v1 HTTP/1.1\r\nHost: a'],
    ['an asterisk as target', 'OPTIONS * HTTP/1.1\r\nHost: a'],
    ['another scheme as target', `GET ftp://a${builds} HTTP/1.1\r\nHost: a`],
    ['a path in the Host', `GET ${builds} HTTP/1.1\r\nHost: a/b`],
    ['a user in the Host', `GET ${builds} HTTP/1.1\r\nHost: a@b`],
    ['a space in the Host', `GET ${builds} HTTP/1.1\r\nHost: a b`],
  ])('does not serve a request with %s', async (_, head) => {
    const text = await rawConnection(server.url, `${head}\r\nConnection: close\r\n\r\n`).closed()
    expect(text).toMatch(/^HTTP\/1\.1 40[04] /)
  })

  it('disconnects a client that keeps sending after an error response', async () => {
    for (const [path, status] of [
      [allocate, 413],
      ['/api/v1/gameservers', 405],
    ] as const) {
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`
      const connection = rawConnection(server.url, head)
      const chunk = `400\r\n${'x'.repeat(1_024)}\r\n`
      await until(() => {
        if (!connection.socket.writableNeedDrain) connection.socket.write(chunk)
        return connection.socket.closed
      })
      expect(connection.received()).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    }
  })

  it('serves the next request on the same connection after an unread body', async () => {
    const refused = `PUT ${builds} HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n${'x'.repeat(70_000)}`
    const last = `GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`
    const text = await rawConnection(server.url, refused + last).closed()
    expect(text.match(/HTTP\/1\.1 \d{3} /g)).toHaveLength(2)
    expect(text).toMatch(/nothing is served at \/nothing","code":"not-found"}$/)
  })

  it('aborts the handler when the client disconnects', async () => {
    let aborted = 0
    const waiting = allocationRoutes({
      allocate: (_, { signal } = {}) =>
        new Promise((_resolve, reject) =>
          signal?.addEventListener('abort', () => {
            aborted++
            reject(new FleetError('aborted', 'the client disconnected'))
          }),
        ),
    })
    const host = await open(waiting)
    const gone = new AbortController()
    const reply = call('POST', `${host.url}${allocate}?wait=60`, { body: request, signal: gone.signal })
    await call('GET', host.url)
    gone.abort()
    await expect(reply).rejects.toThrow()
    await until(() => aborted === 1)
    await host.close()
  })

  it('passes hooks the raw path, the query, the parameters, and the remote address', async () => {
    const seen: unknown[] = []
    const host = await open(
      fleetRoutes(fleet, {
        authorize(req) {
          seen.push(req.method, req.path, req.query('a'), req.query('b'), req.param('name'), req.remoteAddress)
          return true
        },
      }),
    )
    await call('GET', `${host.url}${builds}/x/y%20z/?a=1%202&a=3`)
    await host.close()
    expect(seen).toEqual(['GET', `${builds}/x/y%20z/`, '1 2', undefined, 'y z', '127.0.0.1'])
  })

  it('leaves the global Request and Response unchanged', async () => {
    const { Request: RequestBefore, Response: ResponseBefore } = globalThis
    await call('GET', server.url + builds)
    expect([globalThis.Request, globalThis.Response]).toEqual([RequestBefore, ResponseBefore])
  })
})

describe('request targets that only a raw request can contain', () => {
  it.each([
    ['a dot segment', `${builds}/a/./b`],
    ['a dot segment as name', `${builds}/a/.`],
    ['two dots', `${builds}/a/../b/c`],
    ['two dots as namespace', `${builds}/../b`],
    ['two dots before the routes', `/x/..${builds}`],
    ['encoded dots', `${builds}/%2e%2e/b`],
    ['a half encoded dot segment', `${builds}/.%2E/b`],
    ['an absolute URL', `http://other${builds}`],
    ['a fragment', `${builds}#x`],
  ])('nodeHandler answers %s with 404', async (_, target) => {
    const server = await listening(routes.nodeHandler)
    const text = await rawConnection(
      server.url,
      `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    ).closed()
    await server.close()
    expect(text).toMatch(/^HTTP\/1\.1 404 [^]*nothing is served at /)
  })
})

describe('nodeHandler', () => {
  const mounted = (handler: RequestListener): RequestListener => {
    return (incoming, outgoing) => {
      incoming.url = (incoming.url ?? '').replace('/fleet', '')
      handler(incoming, outgoing)
    }
  }
  const echoes = (options?: Parameters<typeof allocationRoutes>[1]) =>
    allocationRoutes({ allocate: echo('allocate') }, options)

  /** Like Express body parsers, which read the stream and put the result into `body`. */
  const parsers: Readonly<Record<string, (bytes: Buffer) => unknown>> = {
    'express.json()': (bytes) => JSON.parse(bytes.toString()),
    'express.text()': (bytes) => bytes.toString(),
    'express.raw()': (bytes) => bytes,
  }

  const parsing = (handler: RequestListener, parse: (bytes: Buffer) => object): RequestListener => {
    return (incoming, outgoing) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () => {
        Object.assign(incoming, parse(Buffer.concat(chunks)))
        // A later middleware may be asynchronous.
        setImmediate(() => handler(incoming, outgoing))
      })
    }
  }

  it.each(Object.entries(parsers))('reads and limits a body that %s has already read', async (_, parse) => {
    const { nodeHandler } = echoes({ maxBodyBytes: 300 })
    const server = await listening(mounted(parsing(nodeHandler, (bytes) => ({ body: parse(bytes) }))))
    const url = `${server.url}/fleet${allocate}?wait=1`
    const reply = await call('POST', url, { body: request })
    const large = await call('POST', url, { body: { ...request, sessionCookie: 'x'.repeat(300) } })
    await server.close()
    expect(JSON.parse(reply.text)).toEqual({ name: 'allocate', input: request })
    expect(large).toMatchObject({ status: 413, headers: { 'gamekeeper-error': 'invalid' } })
  })

  it('prefers rawBody to body', async () => {
    const parse = (bytes: Buffer) => ({ rawBody: bytes, body: {} })
    const server = await listening(parsing(echoes().nodeHandler, parse))
    const reply = await call('POST', server.url + allocate, { body: request })
    await server.close()
    expect(reply).toMatchObject({ status: 200, text: expect.stringContaining(sessionID) })
  })

  it('ignores the {} of a parser that has not read the body', async () => {
    const { nodeHandler } = echoes()
    const server = await listening((incoming, outgoing) => nodeHandler(Object.assign(incoming, { body: {} }), outgoing))
    const reply = await call('POST', server.url + allocate, { body: request })
    await server.close()
    expect(reply).toMatchObject({ status: 200, text: expect.stringContaining(sessionID) })
  })

  it('returns 500 if a middleware has consumed the body without keeping it', async () => {
    const server = await listening(parsing(echoes().nodeHandler, () => ({})))
    const reply = await call('POST', server.url + allocate, { body: request })
    await server.close()
    expect(reply).toMatchObject({ status: 500, headers: { 'gamekeeper-error': 'internal' } })
    expect(reply.text).toContain('a middleware in front of these routes consumed it')
  })

  it('calls next only for unknown paths', async () => {
    const server = await listening((incoming, outgoing) =>
      routes.nodeHandler(incoming, outgoing, () => outgoing.writeHead(404).end('of the app')),
    )
    const unknown = await call('GET', `${server.url}/nothing`, { validate: false })
    const wrongMethod = await call('PUT', server.url + builds)
    await server.close()
    expect(unknown.text).toBe('of the app')
    expect(wrongMethod.status).toBe(405)
  })

  it('does not respond if a middleware has already responded', async () => {
    let release = () => {}
    const released = new Promise<void>((resolve) => (release = resolve))
    const { nodeHandler } = allocationRoutes({ allocate: () => released.then(() => echo('late')()) })
    const server = await listening((incoming, outgoing) => {
      nodeHandler(incoming, outgoing)
      incoming.on('end', () => outgoing.writeHead(504).end('too slow', release))
    })
    const reply = await call('POST', server.url + allocate, { body: request, validate: false })
    const again = await call('POST', server.url + allocate, { body: request, validate: false })
    await server.close()
    expect([reply, again]).toMatchObject([
      { status: 504, text: 'too slow' },
      { status: 504, text: 'too slow' },
    ])
  })

  it('serves HTTP/1.0 without a Host header', async () => {
    const server = await listening(routes.nodeHandler)
    const text = await rawConnection(server.url, `GET ${builds} HTTP/1.0\r\n\r\n`).closed()
    await server.close()
    expect(text).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('serves HTTP/2', async () => {
    const server = createHttp2Server((incoming, outgoing) => {
      const handle: (...args: never[]) => void = routes.nodeHandler
      handle(incoming as never, outgoing as never)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const client = connectHttp2(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const stream = client.request({ ':method': 'POST', ':path': `${allocate}?wait=1` })
    stream.end(JSON.stringify(request))
    let text = ''
    let status = 0
    stream.on('response', (headers) => (status = Number(headers[':status'])))
    for await (const chunk of stream) text += String(chunk)
    client.close()
    await new Promise((resolve) => server.close(resolve))
    expect(status).toBe(200)
    expect(JSON.parse(text)).toEqual({ name: 'allocate', input: request })
  })
})

describe('fetch', () => {
  const ask = (of: Routes, init: RequestInit) =>
    of.fetch(new Request(`http://a${allocate}`, { method: 'POST', ...init }))

  it('needs no server', async () => {
    const reply = await ask(routes, { body: JSON.stringify(request) })
    expect(reply.status).toBe(200)
    expect(reply.headers.get('content-type')).toBe('application/json')
    expect(await reply.json()).toEqual({ name: 'allocate', input: request })
  })

  it('limits a body whose Content-Length is wrong or missing', async () => {
    const body = JSON.stringify({ ...request, sessionCookie: 'x'.repeat(1_000) })
    for (const headers of [{ 'Content-Length': '10' }, {}]) {
      expect((await ask(routes, { body, headers })).status).toBe(413)
    }
  })

  it('returns 500 if the body has already been consumed', async () => {
    const consumed = new Request(`http://a${allocate}`, { method: 'POST', body: '{}' })
    await consumed.text()
    const reply = await routes.fetch(consumed)
    expect(reply.status).toBe(500)
    expect(await reply.json()).toEqual({
      error: expect.stringContaining('a middleware in front of these routes consumed it'),
      code: 'internal',
    })
  })
})
