/**
 * Generated hostile requests over raw sockets, to a real fleet: pipelined, with absolute-form targets, encoded paths, dot
 * segments, and huge and hostile values. Each gets exactly one response, none a 5xx, and a path that is not a route as written
 * reaches no operation.
 */
import { maxHeaderSize } from 'node:http'
import { fc, test } from '@fast-check/vitest'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { fleetRoutes } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, type Listener, listening, rawConnection } from './client.js'
import { build, buildID, memoryFleet, sessionID } from './fleet.js'

let fleet: Fleet
let server: Listener
/** The paths that operations were asked for. */
let served: string[]

beforeAll(async () => {
  fleet = await memoryFleet()
  served = []
  const authorize = ({ path }: { readonly path: string }) => served.push(path) > 0
  server = await listening(fleetRoutes(fleet, { authorize }).nodeHandler)
})
afterAll(async () => {
  await server.close()
  await fleet.close()
})

interface RawRequest {
  readonly method: string
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Values that break parsers, shells, file names, logs and prototypes. */
const hostileTexts = [
  ...['\0', '\r\n\r\nGET / HTTP/1.1', '\u001b[31m', '\u0085\u009b', '\ud800', '\ufeff', '\u202e'],
  ...['__proto__', 'constructor', 'toString', '../../etc/passwd', '..\\..', '$(id)', '`id`', '$(A)$(A)', '%s%n', "'--"],
  ...['', ' ', '-rf', '=', '.', '..', '/', '\\', '{{7*7}}', '<script>', 'é'.repeat(20_000), 'x'.repeat(300_000)],
]
const hostile: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(...hostileTexts, 1e308, -0, 2 ** 53, 0.1, null, true, [], {}, [[[]]]),
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.array(fc.constantFrom(...hostileTexts), { maxLength: 4 }),
  fc.dictionary(fc.constantFrom(...hostileTexts), fc.constantFrom(...hostileTexts), { maxKeys: 4 }),
)

const container = { name: 'game', command: ['game'] }
const bodies: fc.Arbitrary<string> = fc.oneof(
  fc
    .tuple(fc.constantFrom('name', 'namespace'), hostile)
    .map(([key, value]) => JSON.stringify({ ...build(), metadata: { name: 'arena', [key]: value } })),
  fc
    .tuple(
      fc.constantFrom('buildID', 'standingBy', 'portsToExpose', 'template', 'buildMetadata', 'health', '__proto__'),
      hostile,
    )
    .map(([key, value]) => JSON.stringify(build({ standingBy: 0, ...Object.fromEntries([[key, value]]) }))),
  fc
    .tuple(fc.constantFrom('name', 'command', 'args', 'env', 'workingDir', 'image', 'resources'), hostile)
    .map(([key, value]) =>
      JSON.stringify(build({ standingBy: 0, template: { spec: { containers: [{ ...container, [key]: value }] } } })),
    ),
  fc
    .tuple(fc.constantFrom('buildID', 'sessionID', 'sessionCookie', 'initialPlayers', 'selectors'), hostile)
    .map(([key, value]) => JSON.stringify({ buildID, sessionID, [key]: value })),
  fc.constantFrom(
    '[1e999]',
    '['.repeat(60_000),
    `{"a":${'{"a":'.repeat(500)}1${'}'.repeat(501)}`,
    '{"standingBy":1e999}',
  ),
  fc.constantFrom('', 'null', '""', '{', '\ufeff{}', `"${'x'.repeat(1_100_000)}"`),
)

/** Name of a namespace or resource, as it stands in the path. */
const names = fc.oneof(
  fc.constantFrom(
    'default',
    'arena',
    'arena-x7k2p',
    '__proto__',
    '%00',
    '%0d%0aX:1',
    '%ff',
    '%',
    '%zz',
    '~',
    'x'.repeat(6_000),
  ),
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
    .map(encodeURIComponent)
    .filter((name) => !/^\.{1,2}$/.test(name)),
)
const targets: fc.Arbitrary<{ readonly method: string; readonly path: string }> = fc
  .tuple(
    fc.constantFrom(
      ...(['GET /gameserverbuilds', 'POST /gameserverbuilds', 'POST /allocate', 'GET /gameservers'] as const),
      ...(['GET /gameserverbuilds/:/:', 'PATCH /gameserverbuilds/:/:', 'DELETE /gameserverbuilds/:/:'] as const),
      ...(['GET /gameservers/:/:', 'DELETE /gameservers/:/:', 'GET /gameserverdetails/:/:'] as const),
      ...([
        'POST /gameservers/:/:/maintenance',
        'DELETE /nodes/:/maintenance',
        'PUT /gameservers',
        'GET /nothing',
      ] as const),
    ),
    names,
    names,
  )
  .map(([route, first, second]) => {
    const [method = '', path = ''] = route.split(' ')
    return { method, path: `/api/v1${path.replace(':', () => first).replace(':', () => second)}` }
  })

/** Each makes a path that means the same route to some servers, but is not that route as written. */
const disguises: readonly ((path: string) => string)[] = [
  (path) => `http://127.0.0.1${path}`,
  (path) => `https://user@other.example${path}`,
  (path) => path.replace('/api', '/%61pi'),
  (path) => path.replace('/v1', '/v%31'),
  (path) => path.replace('/api/', '/api%2f'),
  (path) => path.replace('/api/', '/api%5c'),
  (path) => path.replace(/gameserver|allocate|nodes/, (word) => `%${word.charCodeAt(0).toString(16)}${word.slice(1)}`),
  (path) => `/./${path.slice(1)}`,
  (path) => `/x/..${path}`,
  (path) => `/x/%2e%2e${path}`,
  (path) => path.replace('/v1', '/./v1'),
  (path) => path.replace('/v1', '/x/.%2E/v1'),
  (path) => path.replace('/v1/', '/v1//'),
  (path) => `/${path}`,
  (path) => path.replace('/api', '/api;x=1'),
  (path) => path.replace('/api', '/API'),
  (path) => path.replace('/api', '/api%00'),
  (path) => path.replaceAll('/', '\\'),
]

const requests: fc.Arbitrary<RawRequest & { readonly isDisguised: boolean }> = fc
  .record({
    target: targets,
    disguise: fc.option(fc.constantFrom(...disguises), { nil: undefined, freq: 1 }),
    query: fc.oneof(fc.constantFrom('', '?', '?wait=0', '?confirm=%00', `?wait=${'9'.repeat(4_000)}`, '?__proto__=1')),
    headers: fc.constantFrom<Readonly<Record<string, string>>>(
      {},
      { Authorization: `Bearer ${'x'.repeat(7_000)}` },
      { 'Content-Type': 'text/plain', Origin: 'https://elsewhere.example' },
      { 'X-Forwarded-For': '::1, \x80', 'X-Original-URL': '/api/v1/gameservers', 'X-HTTP-Method-Override': 'DELETE' },
      { Expect: '100-continue' },
      { 'Last-Event-ID': '-9'.repeat(2_000) },
    ),
    body: bodies,
  })
  .map(({ target: { method, path }, disguise, query, headers, body }) => ({
    method,
    target: (disguise === undefined ? path : disguise(path)) + query,
    headers,
    body: method === 'GET' || method === 'DELETE' ? '' : body,
    isDisguised: disguise !== undefined,
  }))

describe('hostile requests', () => {
  test.prop([fc.array(requests, { minLength: 1, maxLength: 12 })], { numRuns: 120 })(
    'pipelined on one connection, get one response each, and reach only the paths that they name',
    async (batch) => {
      served.length = 0
      const { statuses, isCut } = responsesIn(await sent(batch))
      expect(statuses.filter((status) => status >= 500)).toEqual([])
      // A request that is too large ends its connection, and with it the requests behind it. With a head that is too large, Node.js also
      // gives up the responses that are not finished, and says so only if none has begun.
      if (!isCut && !batch.some(hasLargeHead)) expect(statuses).toHaveLength(batch.length)
      for (const [index, status] of statuses.entries())
        if (batch[index]?.isDisguised) expect([400, 404]).toContain(status)
      const plain = new Set(batch.filter(({ isDisguised }) => !isDisguised).map(({ target }) => target.split('?')[0]))
      expect(served.filter((path) => !plain.has(path))).toEqual([])
      expect((await call('GET', `${server.url}/api/v1/gameservers`)).status).toBe(200)
      for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
    },
    240_000,
  )

  test.prop([fc.uint8Array({ maxLength: 400 }), fc.array(requests, { maxLength: 2 })], { numRuns: 60 })(
    'cut off or mixed with noise, harm no other caller',
    async (noise, batch) => {
      const bytes = Buffer.concat([Buffer.from(batch.map(textOf).join('')), Buffer.from(noise)])
      const connection = rawConnection(server.url)
      connection.socket.end(bytes)
      const { statuses } = responsesIn(await connection.closed())
      expect(statuses.filter((status) => status >= 500)).toEqual([])
      expect((await call('GET', `${server.url}/api/v1/gameservers`)).status).toBe(200)
      for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
    },
    240_000,
  )
})

/** Sends all requests in one write and returns everything received until the server has closed the connection. */
function sent(batch: readonly RawRequest[]): Promise<string> {
  const last = batch.length - 1
  const text = batch.map((request, index) =>
    textOf(index < last ? request : { ...request, headers: { ...request.headers, Connection: 'close' } }),
  )
  return rawConnection(server.url, text.join('')).closed()
}

function textOf({ method, target, headers, body }: RawRequest): string {
  const all = { Host: '127.0.0.1', ...headers, 'Content-Length': String(Buffer.byteLength(body)) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

function hasLargeHead(request: RawRequest): boolean {
  return textOf(request).indexOf('\r\n\r\n') > maxHeaderSize
}

/** Parses responses that follow each other. `isCut`: the server closed the connection on its own. */
function responsesIn(received: string): { readonly statuses: readonly number[]; readonly isCut: boolean } {
  const statuses: number[] = []
  let isCut = false
  let rest = received
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const head = rest.slice(0, end)
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1])
    expect(status, head.slice(0, 200)).toBeGreaterThanOrEqual(100)
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)
    if (status >= 200) {
      statuses.push(status)
      isCut ||= status === 413 || (status === 400 && !/^gamekeeper-error:/im.test(head)) || status === 431
    }
    rest = rest.slice(end + 4 + length)
  }
  return { statuses, isCut }
}
