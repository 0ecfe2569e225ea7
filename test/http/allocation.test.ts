/** The allocation API over real sockets and a real fleet: success, each error, and waiting. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { allocationRoutes, type ApiRequest, fleetRoutes } from '../../src/http/index.js'
import {
  type AllocateOptions,
  createFleet,
  type ErrorCode,
  errorCodes,
  FleetError,
  systemClock,
} from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, type CallOptions, type Listener, listening, rawConnection, until } from './client.js'
import { build, buildID, memoryFleet, noServers, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
let server: Listener
let allocate: (body: unknown, query?: string, options?: CallOptions) => ReturnType<typeof call>

beforeAll(async () => {
  fleet = await memoryFleet()
  server = await listening(allocationRoutes(fleet).nodeHandler)
  allocate = (body, query = '', options = {}) =>
    call('POST', `${server.url}/api/v1/allocate${query}`, { ...options, body })
})

afterAll(async () => {
  await server.close()
  await fleet.close()
})

beforeEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

const request = { buildID, sessionID }
const otherSession = 'AAAAAAAA-0000-1111-2222-333333333333'

describe('POST /api/v1/allocate-many', () => {
  const many = (body: unknown, query = '') => call('POST', `${server.url}/api/v1/allocate-many${query}`, { body })

  it('answers with a result for each session', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const requests = [
      request,
      { ...request, sessionID: otherSession },
      { ...request, sessionID: 'third', buildID: 'none' },
    ]
    const reply = await many({ requests }, '?wait=1')
    expect(reply.status).toBe(200)
    expect(JSON.parse(reply.text)).toMatchObject({
      results: [
        { sessionID, allocation: { SessionID: sessionID } },
        { sessionID: otherSession, allocation: { SessionID: otherSession } },
        { sessionID: 'third', error: { code: 'not-found', message: 'no build has the buildID "none"' } },
      ],
    })
  })

  it.each<[string, unknown, string]>([
    ['no object', [], 'body must be an object with requests, but is []'],
    ['an unknown field', { requests: [request], atomc: true }, 'atomc is not allowed; did you mean atomic?'],
    [
      'a wait in the body',
      { requests: [request], waitMs: 5 },
      'waitMs is not allowed in the body; did you mean the query parameter wait?',
    ],
    [
      'an unknown field of a request',
      { requests: [request, { ...request, players: ['amie'] }] },
      'requests[1].players is not allowed; did you mean initialPlayers?',
    ],
    ['no requests', {}, 'requests must be an array of at least one allocation request, but is absent'],
    ['an unclear atomic', { requests: [request], atomic: 1 }, 'atomic must be true or false, but is 1'],
    ['a session that is listed twice', { requests: [request, request] }, 'requests[1].sessionID must not repeat'],
  ])('answers with 400: %s', async (_, body, message) => {
    const reply = await many(body)
    expect([reply.status, JSON.parse(reply.text).error]).toEqual([400, expect.stringContaining(message)])
  })

  it('answers with 400 if a query parameter looks like one of its own', async () => {
    const reply = await many({ requests: [request] }, '?Wait=5')
    expect([reply.status, JSON.parse(reply.text).error]).toEqual([
      400,
      'query parameter Wait is not allowed; did you mean wait?',
    ])
  })

  it('answers with the status of the error if an atomic batch cannot be made', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const requests = ['a', 'b', 'c', 'd', 'e', 'f'].map((id) => ({ ...request, sessionID: id }))
    const reply = await many({ requests, atomic: true })
    expect([reply.status, reply.headers['gamekeeper-error']]).toEqual([429, 'none-standing-by'])
  })
})

describe('POST /api/v1/join', () => {
  it.each<[string, object, string, string]>([
    ['an unknown field', { sessionId: 'a' }, '', 'sessionId is not allowed; did you mean sessionID?'],
    [
      'a wait in the body',
      { waitMs: 5 },
      '',
      'waitMs is not allowed in the body; did you mean the query parameter wait?',
    ],
    ['a misspelled parameter', {}, '?waitMs=5', 'query parameter waitMs is not allowed; did you mean wait?'],
  ])('answers with 400: %s', async (_, more, query, message) => {
    const own = await listening(fleetRoutes(fleet).nodeHandler)
    const body = { buildID, players: ['amie'], ...more }
    const reply = await call('POST', `${own.url}/api/v1/join${query}`, { body })
    await own.close()
    expect([reply.status, JSON.parse(reply.text)]).toMatchObject([400, { error: message }])
  })
})

describe('POST /api/v1/allocate', () => {
  it('returns the address, ports, and session', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const reply = await allocate({ ...request, sessionCookie: 'é', initialPlayers: ['amie'] })
    expect(reply.status).toBe(200)
    expect(reply.headers['content-type']).toBe('application/json')
    expect(JSON.parse(reply.text)).toEqual({
      IPV4Address: '127.0.0.1',
      Ports: expect.stringMatching(/^7777:\d+$/),
      SessionID: sessionID,
      details: {
        server: { namespace: 'default', name: expect.stringMatching(/^arena-/) },
        address: '127.0.0.1',
        ports: [{ name: 'port_7777', container: 7777, public: expect.any(Number), protocol: 'TCP' }],
      },
    })
  })

  it('returns the same server for the same session, regardless of the buildID', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const first = await allocate(request)
    expect(await allocate(request)).toMatchObject({ status: 200, text: first.text })
    const other = await allocate({ ...request, buildID: 'another' })
    expect(other.status).toBe(200)
    const { details, ...place } = JSON.parse(other.text)
    const { details: before, ...placeBefore } = JSON.parse(first.text)
    expect(place).toEqual(placeBefore)
    expect(details).toEqual({ ...before, buildMismatch: { requested: 'another', actual: buildID } })
  })

  it.each(['/api/v1/allocate', '/api/v1/allocate/', '/api/v1/allocate?wait=0'])('is served at %s', async (path) => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    expect((await call('POST', server.url + path, { body: request })).status).toBe(200)
  })
})

describe('an allocation is rejected', () => {
  it.each([
    ['an empty body', '', /^body must be JSON, but is empty$/],
    ['a body that is not JSON', '{"buildID":', /^body is not JSON: /],
    ['an array', [], /^the request must be an allocation request object/],
    ['neither buildID nor select', { sessionID }, /^the request must have buildID, or select, or server$/],
    ['a selector without builds', { sessionID, select: [{}] }, /^select\[0\] must name builds/],
    ['a buildID of a wrong type', { sessionID, buildID: 7 }, /^buildID .* but is 7$/],
    ['no sessionID', { buildID }, /^sessionID must be a string of 1 to 128 visible characters.* is absent$/],
    ['a sessionID with a line break', { buildID, sessionID: 'a\nb' }, /^sessionID .* has U\+000A at position 2$/],
    ['a cookie of a wrong type', { ...request, sessionCookie: {} }, /^sessionCookie must be a string/],
    ['players of a wrong type', { ...request, initialPlayers: [1] }, /^initialPlayers\[0\] must be a string/],
    ['an unknown field', { ...request, players: ['amie'] }, /^players is not allowed; did you mean initialPlayers\?$/],
    [
      'a field that is close to none',
      { ...request, region: 'eu' },
      /^region is not allowed; allowed fields are buildID, select, /,
    ],
    ...['waitMs', 'wait', 'confirm'].map((name): [string, object, RegExp] => [
      `${name} in the body`,
      { ...request, [name]: 1 },
      new RegExp(`^${name} is not allowed in the body; did you mean the query parameter (wait|confirm)\\?$`),
    ]),
  ])('with 400 for %s', async (_, body, message) => {
    const reply = await allocate(body)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.text)).toEqual({ error: expect.stringMatching(message), code: 'invalid' })
  })

  it.each(['', '-1', '61', '60.01', 'soon', '1e1', '0x1', 'NaN', 'Infinity', '1s', '%20', '1,5', '.5'])(
    'with 400 for ?wait=%s',
    async (wait) => {
      const reply = await allocate(request, `?wait=${wait}`)
      expect(reply.status).toBe(400)
      const { error } = JSON.parse(reply.text) as { error: string }
      expect(error).toBe(`wait must be a number of seconds from 0 to 60, but is "${decodeURIComponent(wait)}"`)
    },
  )

  it.each(['yes', 'TRUE', '2', '-1', 'true '])('with 400 for ?confirm=%s', async (confirm) => {
    const reply = await allocate(request, `?confirm=${encodeURIComponent(confirm)}`)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.text)).toEqual({
      error: `confirm must be true or false, but is "${confirm}"`,
      code: 'invalid',
    })
  })

  it.each([
    ['waitMs=5000', 'waitMs', 'wait'],
    ['WAIT=5', 'WAIT', 'wait'],
    ['wiat=5', 'wiat', 'wait'],
    ['wait=1&confirmed', 'confirmed', 'confirm'],
  ])('with 400 for ?%s, which looks like a parameter of the call', async (query, name, meant) => {
    const reply = await allocate(request, `?${query}`)
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.text)).toMatchObject({
      error: `query parameter ${name} is not allowed; did you mean ${meant}?`,
    })
  })

  it('not for other query parameters, which the host app may read', async () => {
    const seen: unknown[] = []
    const authorize = (asked: ApiRequest) => seen.push(asked.query('tenant')) > 0
    const own = await listening(allocationRoutes(fleet, { authorize }).nodeHandler)
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const reply = await call('POST', `${own.url}/api/v1/allocate?tenant=eu&wait=1`, { body: request })
    await own.close()
    expect([reply.status, seen]).toEqual([200, ['eu']])
  })

  it('with 404 if no build has the buildID', async () => {
    const reply = await allocate(request)
    expect(reply.status).toBe(404)
    expect(JSON.parse(reply.text)).toEqual({ error: expect.stringContaining(buildID), code: 'not-found' })
  })

  it('with 429 and Retry-After if no server is standing by', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const reply = await allocate(request)
    expect(reply).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
    const strict = await listening(fleetRoutes(fleet, { compat: 'thundernetes' }).nodeHandler)
    const other = await call('POST', `${strict.url}/api/v1/allocate`, { body: request })
    await strict.close()
    expect(Object.keys(JSON.parse(other.text) as object)).toEqual(['error'])
    expect(JSON.parse(reply.text)).toEqual({
      code: 'max-reached',
      details: expect.objectContaining({ max: 0 }),
      error: expect.any(String),
    })
  })

  const statuses: Readonly<Record<ErrorCode, number>> = {
    invalid: 400,
    'not-found': 404,
    exists: 400,
    conflict: 503,
    'none-standing-by': 429,
    'max-reached': 429,
    'not-confirmed': 503,
    'out-of-range': 500,
    'no-room': 500,
    'no-stdin': 500,
    'in-use': 500,
    unavailable: 503,
    'not-leader': 503,
    closed: 503,
    draining: 503,
    unsupported: 500,
    aborted: 503,
    'ports-exhausted': 503,
    'port-in-use': 500,
    'directory-in-use': 500,
    'directory-unusable': 500,
    unauthenticated: 401,
    forbidden: 403,
    'rate-limited': 429,
    overloaded: 503,
    internal: 500,
  }

  it.each(errorCodes)('with the status of the error code %s', async (code) => {
    const error = new FleetError(code, 'no', { cause: new Error('because') })
    const failing = await listening(allocationRoutes({ allocate: () => Promise.reject(error) }).nodeHandler)
    const reply = await call('POST', `${failing.url}/api/v1/allocate`, { body: request })
    await failing.close()
    expect(reply).toMatchObject({ status: statuses[code], text: `{"error":"no: because","code":"${code}"}` })
    expect(reply.headers['retry-after']).toBe(reply.status === 429 || reply.status === 503 ? '1' : undefined)
  })

  it.each([
    ['GET', '/api/v1/allocate', 405],
    ['PUT', '/api/v1/allocate/', 405],
    ['HEAD', '/api/v1/allocate', 405],
    ['POST', '/', 404],
    ['POST', '/api/v1/allocate/more', 404],
    ['POST', '/api/v1/gameservers/', 404],
  ])('for %s %s with %i', async (method, path, status) => {
    const reply = await call(method, server.url + path)
    expect(reply.status).toBe(status)
    expect(reply.headers['allow']).toBe(status === 405 ? 'POST, OPTIONS' : undefined)
    const code = status === 405 ? 'unsupported' : 'not-found'
    if (method !== 'HEAD') expect(JSON.parse(reply.text)).toEqual({ error: expect.any(String), code })
  })
})

describe('an allocation with ?wait=', () => {
  afterEach(() => server.close())
  beforeEach(async () => {
    server = await listening(allocationRoutes(fleet).nodeHandler)
  })

  /** A build without servers until it is patched. */
  const emptyBuild = () => fleet.builds.create(build({ standingBy: 0, max: 0 }))

  it('gets its response once a server is ready', async () => {
    await emptyBuild()
    const reply = allocate(request, '?wait=30')
    await fleet.builds.patch('arena', { max: 1 })
    expect((await reply).status).toBe(200)
  })

  it('is rejected with 429 after its timeout, which may be fractional', async () => {
    await emptyBuild()
    const before = performance.now()
    const reply = await allocate(request, '?wait=0.25')
    expect(reply).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
    expect(performance.now() - before).toBeGreaterThanOrEqual(240)
  })

  it('leaves the queue when its caller disconnects, and the next caller gets the server', async () => {
    await emptyBuild()
    const waiting = observed()
    const observer = await listening(allocationRoutes(waiting).nodeHandler)
    const url = `${observer.url}/api/v1/allocate?wait=60`
    const gone = new AbortController()
    const first = call('POST', url, { body: request, signal: gone.signal })
    await until(() => waiting.begun === 1)
    const second = call('POST', url, { body: { buildID, sessionID: otherSession } })
    await until(() => waiting.begun === 2)
    gone.abort()
    await expect(first).rejects.toThrow()
    await until(() => waiting.failures.length === 1)
    expect(waiting.failures[0]).toMatchObject({ code: 'aborted' })
    await fleet.builds.patch('arena', { max: 1 })
    const reply = await second
    await observer.close()
    expect(reply.status).toBe(200)
    expect(reply.text).toContain(otherSession)
    expect(await fleet.servers.list()).toHaveLength(1)
  })

  it('leaves the queue when the caller half-closes the connection', async () => {
    await emptyBuild()
    const waiting = observed()
    const observer = await listening(allocationRoutes(waiting).nodeHandler)
    const body = JSON.stringify(request)
    const connection = rawConnection(
      observer.url,
      `POST /api/v1/allocate?wait=60 HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await until(() => waiting.begun === 1)
    connection.socket.end()
    await until(() => waiting.failures.length === 1)
    await connection.closed()
    await observer.close()
  })

  it.each(['resets', 'half-closes'])(
    'pipelined behind another leaves the queue when the caller %s the connection',
    async (how) => {
      await emptyBuild()
      const waiting = observed()
      const observer = await listening(allocationRoutes(waiting).nodeHandler)
      const post = (body: string) =>
        `POST /api/v1/allocate?wait=60 HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      const bodies = [request, { buildID, sessionID: otherSession }].map((body) => JSON.stringify(body))
      const connection = rawConnection(observer.url, bodies.map(post).join(''))
      await until(() => waiting.begun === 2)
      if (how === 'resets') connection.socket.resetAndDestroy()
      else connection.socket.end()
      await until(() => waiting.failures.length === 2)
      for (const failure of waiting.failures) expect(failure).toMatchObject({ code: 'aborted' })
      await fleet.builds.patch('arena', { max: 2 })
      expect((await fleet.builds.get('arena')).status.currentActive).toBe(0)
      await observer.close()
    },
  )

  it('has its connection closed if another host leads, so that the next connection can reach the leader', async () => {
    const refusing = { allocate: () => Promise.reject(new FleetError('not-leader', 'host-b does')) }
    const follower = await listening(allocationRoutes(refusing).nodeHandler)
    const body = JSON.stringify(request)
    const head = `POST /api/v1/allocate HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`
    expect(await rawConnection(follower.url, head + body).closed()).toMatch(/^HTTP\/1\.1 503 [^]*host-b does/)
    await follower.close()
  })

  it('gets 503 when this host closes', async () => {
    await emptyBuild()
    const waiting = observed()
    const routes = allocationRoutes(waiting)
    const observer = await listening(routes.nodeHandler)
    const reply = call('POST', `${observer.url}/api/v1/allocate?wait=60`, { body: request })
    await until(() => waiting.begun === 1)
    routes.close()
    expect(await reply).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    const sentence = 'this host is closing; retry on another host, or here after its restart'
    expect(JSON.parse((await reply).text)).toEqual({ error: sentence, code: 'closed' })
    const late = await call('POST', `${observer.url}/api/v1/allocate?wait=60`, { body: request })
    expect(late).toMatchObject({ status: 503, text: JSON.stringify({ error: sentence, code: 'closed' }) })
    await observer.close()
  })

  it('gets 503 when the fleet closes', async () => {
    const closable = await memoryFleet()
    await closable.builds.create(build({ standingBy: 0, max: 0 }))
    const waiting = observed(closable)
    const observer = await listening(allocationRoutes(waiting).nodeHandler)
    const reply = call('POST', `${observer.url}/api/v1/allocate?wait=60`, { body: request })
    await until(() => waiting.begun === 1)
    await closable.close()
    expect(await reply).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    await observer.close()
  })
})

describe('an allocation with ?confirm', () => {
  it.each([
    ['', {}],
    ['?confirm=true', { confirm: true }],
    ['?confirm=1', { confirm: true }],
    ['?confirm', { confirm: true }],
    ['?confirm=', { confirm: true }],
    ['?confirm=false', {}],
    ['?confirm=0', {}],
    ['?confirm&wait=2.5', { confirm: true, waitMs: 2_500 }],
    ['?wait=0&confirm=true', { confirm: true, waitMs: 0 }],
    ['?wait=3&confirm=false', { waitMs: 3_000 }],
  ])('%s calls the fleet with %j', async (query, options) => {
    const calls: unknown[] = []
    const allocating = {
      allocate(_: unknown, { signal, caller, ...others }: AllocateOptions = {}) {
        expect(caller).toEqual({ kind: 'anonymous', address: '127.0.0.1' })
        expect(signal === undefined).toBe(!('confirm' in others || 'waitMs' in others))
        calls.push(others)
        return Promise.resolve({ IPV4Address: '127.0.0.1', Ports: '', SessionID: sessionID })
      },
    }
    const fake = await listening(allocationRoutes(allocating).nodeHandler)
    const reply = await call('POST', `${fake.url}/api/v1/allocate${query}`, { body: request })
    await fake.close()
    expect(reply.status).toBe(200)
    expect(calls).toEqual([options])
  })

  it('gets its response once the game has the session', async () => {
    const backend = memoryBackend({ clock: systemClock, script: 'manual' })
    const real = await createFleet({ backend })
    const routes = await listening(allocationRoutes(real).nodeHandler)
    await real.builds.create(build({ standingBy: 1, max: 1 }))
    await until(() => backend.servers().some(({ phase }) => phase === 'running'))
    const game = only(backend.servers())
    game.ready()
    game.silence()
    const url = `${routes.url}/api/v1/allocate`
    const early = await call('POST', `${url}?confirm&wait=0.2`, { body: request })
    expect(early).toMatchObject({
      status: 503,
      headers: { 'retry-after': '1', 'gamekeeper-error': 'not-confirmed' },
    })
    expect(early.text).toContain(`server ${game.ref.name} has not confirmed session ${sessionID} yet`)
    let answered = false
    const confirmed = call('POST', `${url}?confirm=true`, { body: request }).finally(() => (answered = true))
    const plain = await call('POST', url, { body: request })
    expect(answered).toBe(false)
    expect(game.heartbeat()).toMatchObject({ operation: 'Active', sessionConfig: { sessionId: sessionID } })
    game.heartbeat()
    expect(await confirmed).toMatchObject({ status: 200, text: plain.text })
    await routes.close()
    await real.close()
  })

  it('stops waiting when its caller disconnects', async () => {
    const backend = memoryBackend({ clock: systemClock, script: 'manual' })
    const real = await createFleet({ backend })
    const waiting = observed(real)
    const observer = await listening(allocationRoutes(waiting).nodeHandler)
    await real.builds.create(build({ standingBy: 1, max: 1 }))
    await until(() => backend.servers().some(({ phase }) => phase === 'running'))
    const game = only(backend.servers())
    game.ready()
    game.silence()
    const gone = new AbortController()
    const url = `${observer.url}/api/v1/allocate?confirm`
    const leaving = call('POST', url, { body: request, signal: gone.signal })
    await until(async () => (await real.builds.get('arena')).status.currentActive === 1)
    gone.abort()
    await expect(leaving).rejects.toThrow()
    await until(() => waiting.failures.length === 1)
    expect(waiting.failures[0]).toMatchObject({ code: 'aborted' })
    await observer.close()
    await real.close()
  })
})

function only<T>(items: readonly T[]): T {
  const [item, ...others] = items
  if (item === undefined || others.length > 0) throw new Error(`there must be one, but there are ${items.length}`)
  return item
}

/** The fleet, with a count of its allocate calls and their errors. */
function observed(real: Pick<Fleet, 'allocate'> = fleet) {
  const seen = {
    begun: 0,
    failures: new Array<unknown>(),
    async allocate(...args: Parameters<Fleet['allocate']>) {
      seen.begun++
      try {
        return await real.allocate(...args)
      } catch (error) {
        seen.failures.push(error)
        throw error
      }
    },
  }
  return seen
}
