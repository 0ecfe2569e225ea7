/** The client on real sockets: against a real fleet, and against hosts that fail. */
import type { RequestListener } from 'node:http'
import { createContext, runInContext } from 'node:vm'
import { build as bundle } from 'esbuild'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { memoryBackend } from '../../adapters/memory/index.js'
import { type FleetClient, fleetClient, FleetError } from '../../src/client/index.js'
import { bearerTokens, fleetRoutes, serve } from '../../src/http/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { build, buildID, sessionID, standingBy } from '../http/fleet.js'
import { type Listener, listening, until } from '../http/client.js'
import { documented } from '../http/validated.js'
import { root } from '../package/sources.js'

/** Also checks responses to the client against the OpenAPI document. */
const fetchAndCheck = async (url: string, init: RequestInit): Promise<Response> => {
  const response = await fetch(url, init)
  if (response.headers.get('content-type') !== 'application/json') return response
  const { pathname, search } = new URL(url)
  const text = await response.clone().text()
  const headers = Object.fromEntries(response.headers)
  const answer = { method: init.method ?? 'GET', path: pathname + search, status: response.status, headers, text }
  const problem = documented(answer)
  if (problem !== undefined) throw new Error(problem)
  return response
}

describe('a client of a fleet', () => {
  const backend = memoryBackend({ clock: systemClock })
  let fleet: Fleet
  let server: Listener
  let client: FleetClient
  beforeAll(async () => {
    fleet = await createFleet({ backend })
    server = await listening(fleetRoutes(fleet).nodeHandler)
    client = fleetClient({ url: `${server.url}/`, fetch: fetchAndCheck, retries: 0 })
  })
  afterAll(async () => {
    await server.close()
    await fleet.close()
  })
  afterEach(async () => {
    for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
    await until(async () => (await fleet.servers.list()).length === 0)
  })

  it('chooses a server by its data over HTTP, and changes the data in the same write', async () => {
    await client.builds.create(build({ counters: { rooms: { count: 0, capacity: 2 } } }))
    await standingBy(fleet, 2)
    const [, second] = await client.servers.list()
    const name = second?.metadata.name ?? ''
    await client.servers.update({ name }, { labels: { map: 'dust' } })
    const request = {
      sessionID,
      select: [{ builds: ['nothing', buildID], matchLabels: { map: 'dust' } }],
      counters: { rooms: { increment: 2 } },
      annotations: { note: 'a cup' },
    }
    const allocated = await client.allocate(request)
    expect(allocated.server.name).toBe(name)
    expect(await client.allocate(request)).toEqual(allocated)
    expect(await client.servers.get({ name })).toMatchObject({
      metadata: { labels: { map: 'dust' }, annotations: { note: 'a cup' } },
      status: { counters: { rooms: { count: 2, capacity: 2 } } },
    })
    const another = client.allocate({ ...request, sessionID: 'another' })
    await expect(another).rejects.toMatchObject({ code: 'none-standing-by' })
  })

  it('has the same effect as calling the fleet directly', async () => {
    expect(await client.builds.create(build())).toMatchObject({ kind: 'GameServerBuild', metadata: { name: 'arena' } })
    await standingBy(fleet, 2)
    const server = await client.allocate({ buildID, sessionID, initialPlayers: ['amie'] })
    expect(server).toEqual(await fleet.allocate({ buildID, sessionID }))
    expect(await client.sessions.get(sessionID)).toEqual(await fleet.sessions.get(sessionID))
    expect(await client.sessions.list({ build: 'arena' })).toEqual(await fleet.sessions.list())
    expect((await client.sessions.ofPlayer('amie')).port()).toBe(server.port())
    const active = (await client.servers.list()).find(({ status }) => status.sessionID === sessionID)
    const ref = active?.metadata ?? { name: '' }
    expect(await client.servers.get(ref)).toEqual(active)
    expect(await client.servers.list({ build: 'arena' })).toContainEqual(active)
    expect(await client.details.get(ref)).toEqual(await fleet.details.get(ref))
    expect(await client.details.ofBuild('arena')).toEqual(await fleet.details.ofBuild('arena'))
    expect((await client.builds.patch('arena', { standingBy: 0 })).spec.standingBy).toBe(0)
    expect(await client.builds.get({ name: 'arena', namespace: 'default' })).toMatchObject({ spec: { standingBy: 0 } })
    const labelled = await client.servers.update(ref, { labels: { map: 'dust' } })
    expect(labelled).toEqual(await fleet.servers.get(ref))
    expect(labelled.metadata.labels).toEqual({ map: 'dust' })
    const at = new Date(Date.now() + 3_600_000)
    expect(await client.servers.announceMaintenance(ref, at)).toEqual({ servers: 1 })
    expect(await client.servers.announceMaintenance({ node: 'memory' }, at.getTime())).toEqual({ servers: 0 })
    expect((await fleet.servers.get(ref)).status.nextScheduledMaintenance).toBe(`${at.toISOString().slice(0, 19)}.000Z`)
    expect(await client.servers.withdrawMaintenance(ref)).toEqual({ servers: 1 })
    expect(await client.servers.announceMaintenance({ node: 'memory' }, at.getTime())).toEqual({ servers: 1 })
    expect(await client.servers.withdrawMaintenance({ node: 'memory' })).toEqual({ servers: 1 })
    await expect(client.servers.reserve(ref, { forMs: 60_000 })).rejects.toMatchObject({ code: 'in-use' })
    expect((await client.servers.release(ref)).status).not.toHaveProperty('reservedUntil')
    // The server itself may be gone at once.
    const endings: string[] = []
    onTestFinished(fleet.on('ServerEnding', ({ message }) => void endings.push(message)))
    await client.sessions.end(sessionID)
    expect(endings).toEqual([expect.stringContaining(`session ${sessionID} was ended by sessions.end`)])
    await client.builds.patch('arena', { standingBy: 1 })
    await standingBy(fleet, 1)
    const [idle] = (await client.servers.list()).filter(({ status }) => status.state === 'StandingBy')
    await client.servers.delete(idle?.metadata ?? { name: '' })
    expect(endings).toHaveLength(2)
    expect(await client.builds.list()).toHaveLength(1)
    await client.builds.delete('arena')
    expect(await client.builds.list()).toEqual([])
  })

  it('waits for the end of a session, and says how it has ended', async () => {
    await client.builds.create(build())
    await standingBy(fleet, 2)
    const { server: ref } = await client.allocate({ buildID, sessionID, initialPlayers: ['amie'] })
    const ended = client.sessions.ended(sessionID)
    const late = client.sessions.ended(sessionID, { waitMs: 20 })
    await expect(late).rejects.toMatchObject({ code: 'aborted' })
    await expect(client.sessions.ended('nothing')).rejects.toMatchObject({ code: 'not-found' })
    await expect(client.sessions.ended(sessionID, { waitMs: -1 })).rejects.toMatchObject({ code: 'invalid' })
    backend.server(ref).exit(9)
    expect(await ended).toMatchObject({ state: 'Ended', reason: 'Crashed', exitCode: 9, initialPlayers: ['amie'] })
    expect(await ended).toEqual(await fleet.sessions.ended(sessionID))
    expect(await client.sessions.get(sessionID)).toEqual(await ended)
    expect(await client.sessions.ended(sessionID)).toEqual(await ended)
    const { sessionUid } = await ended
    const aborter = new AbortController()
    for await (const event of client.events({ from: 1, signal: aborter.signal })) {
      if (event.type === 'SessionEnded' && event.sessionUid === sessionUid) aborter.abort()
    }
  })

  it('puts 100 callers who join at once into 25 sessions of 4 seats, also with servers that are yet to start', async () => {
    await client.builds.create(build({ seatsPerSession: 4, standingBy: 5, max: 60 }))
    await standingBy(fleet, 5)
    const many = fleetClient({ url: server.url, retries: 0 })
    const join = (player: string) =>
      many.sessions.join({ buildID, players: [player], orAllocate: true }, { waitMs: 30_000 })
    const joined = await Promise.all(Array.from({ length: 100 }, (_, i) => join(`p${i}`)))
    expect(new Set(joined.map((one) => one.sessionID)).size).toBe(25)
    const running = await fleet.sessions.list()
    expect(running.map(({ seats }) => seats?.held)).toEqual(Array.from({ length: 25 }, () => 4))
    const again = await client.sessions.join({ buildID, players: ['p7'], orAllocate: true })
    expect(again.sessionID).toBe(joined[7]?.sessionID)
    const wrong = client.sessions.join({ buildID, players: ['a'], sessionID: 'cup' })
    await expect(wrong).rejects.toMatchObject({ code: 'invalid' })
  })

  it('reserves seats of sessions as the fleet does', async () => {
    await client.builds.create(build({ seatsPerSession: 3 }))
    await standingBy(fleet, 2)
    await client.allocate({ buildID, sessionID })
    await until(async () => (await client.sessions.withRoom({ buildID, seats: 3 })).length === 1)
    const [room] = await client.sessions.withRoom({ buildID })
    expect(room?.sessionID).toBe(sessionID)
    const joined = await client.sessions.join({ buildID, players: ['amie'], holdMs: 30_000 })
    expect(joined.seats).toEqual({ total: 3, taken: 0, held: 1, free: 2 })
    expect(joined.port()).toBe(room?.port())
    const reserved = await client.sessions.reserveSeats(sessionID, ['bo', 'cleo'], { holdMs: 30_000 })
    expect(reserved).toEqual(await fleet.sessions.get(sessionID))
    for (const on of [client, fleet]) {
      await expect(on.sessions.reserveSeats(sessionID, ['dan'])).rejects.toMatchObject({
        code: 'no-room',
        retryable: true,
        details: { total: 3, held: 3, free: 0, needed: 1 },
      })
      await expect(on.sessions.join({ buildID, players: ['dan'] })).rejects.toMatchObject({ code: 'no-room' })
      await expect(on.sessions.reserveSeats(sessionID, [])).rejects.toMatchObject({ code: 'invalid' })
      await expect(on.sessions.releaseSeats('nothing', ['amie'])).rejects.toMatchObject({ code: 'not-found' })
    }
    expect((await client.sessions.releaseSeats(sessionID, ['bo'])).seats).toMatchObject({ held: 2, free: 1 })
    expect((await client.sessions.ofPlayer('cleo')).sessionID).toBe(sessionID)
  })

  it('fails with the same codes and messages as the fleet', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const calls: readonly ((on: FleetClient | Fleet) => Promise<unknown>)[] = [
      (on) => on.builds.create(build({ max: -1 })),
      (on) => on.builds.create(build()),
      (on) => on.builds.create(build({}, 'other')),
      (on) => on.builds.get('nothing'),
      (on) => on.builds.patch('arena', { standingBy: 9 }),
      (on) => on.servers.delete('nothing'),
      (on) => on.servers.update('nothing', { labels: { map: 'dust' } }),
      (on) => on.servers.list({ build: 'nothing' }),
      (on) => on.servers.announceMaintenance('nothing', Date.now() + 60_000),
      (on) => on.servers.announceMaintenance({ node: 'no/where' }, Date.now() + 60_000),
      (on) => on.servers.announceMaintenance({ node: 'memory' }, 0),
      (on) => on.servers.withdrawMaintenance({ node: 'nowhere' }),
      (on) => on.allocate({ buildID: 'nothing', sessionID }),
      (on) => on.allocate({ buildID, sessionID }),
    ]
    const codes: string[] = []
    for (const ask of calls) {
      const [there, here] = await Promise.all(
        [ask(client), ask(fleet)].map((call) => call.catch((error: unknown) => error)),
      )
      if (!FleetError.is(there) || !FleetError.is(here)) throw new Error(`${String(there)}, ${String(here)}`)
      expect(there).toMatchObject({ code: here.code, message: here.message, retryable: here.retryable })
      codes.push(there.code)
    }
    expect(new Set(codes)).toEqual(new Set(['invalid', 'exists', 'not-found', 'max-reached']))
  })

  it.each(['', '.', '..', 'a\ud800', 7 as never])(
    'does not send the name %j, which is no part of a path',
    async (name) => {
      const refused = { code: 'invalid', message: expect.stringContaining('must be a string other than') }
      // `builds/../.` would be the fleet.
      await expect(client.builds.drain({ namespace: '..', name: '.' })).rejects.toMatchObject(refused)
      await expect(client.builds.get({ namespace: name, name: 'arena' })).rejects.toMatchObject(refused)
      await expect(client.servers.withdrawMaintenance({ node: name })).rejects.toMatchObject(refused)
      await expect(client.sessions.get(name)).rejects.toMatchObject(refused)
      await expect(client.sessions.ofPlayer(name)).rejects.toMatchObject(refused)
      expect((await fleet.health()).problems).toEqual([])
    },
  )

  it('waits for a server, and stops when its signal fires', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 1 }))
    expect(await client.allocate({ buildID, sessionID }, { waitMs: 10_000 })).toMatchObject({ SessionID: sessionID })
    const gone = new AbortController()
    const waiting = client.allocate(
      { buildID, sessionID: sessionID.replace('d', 'e') },
      { waitMs: 30_000, signal: gone.signal },
    )
    gone.abort(new Error('the player has left'))
    await expect(waiting).rejects.toMatchObject({ code: 'aborted', cause: new Error('the player has left') })
  })

  it('waits until the game has its session', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    expect(await client.allocate({ buildID, sessionID }, { confirm: true })).toMatchObject({ SessionID: sessionID })
    const game = (await fleet.servers.list()).find(({ status }) => status.sessionID === sessionID)
    expect(game && backend.server(game.metadata).session?.sessionId).toBe(sessionID)
  })

  it('reads past events from a given number, then live events, until its signal fires', async () => {
    const enough = new AbortController()
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of client.events({ from: 1, signal: enough.signal })) {
        seen.push(event.type)
        if (event.type === 'Allocated') enough.abort()
      }
    })()
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    await fleet.allocate({ buildID, sessionID })
    await reading
    expect(seen).toEqual(expect.arrayContaining(['BuildCreated', 'ServerCreated', 'ServerStateChanged', 'Allocated']))
  })

  it('accepts the URLs returned by serve(), and calls a token function for each request', async () => {
    const token = 'a-token-of-16-letters'
    const served = await serve({
      fleet,
      allocation: { port: 0 },
      management: { port: 0 },
      authorize: bearerTokens([{ token, roles: ['read', 'allocate'] }]),
    })
    let asked = 0
    const known = fleetClient({
      ...served,
      token: () => Promise.resolve(asked++ === 0 ? token : 'another-of-16-letters'),
    })
    expect(await known.builds.list()).toEqual([])
    await expect(known.builds.list()).rejects.toMatchObject({ code: 'unauthenticated' })
    await expect(fleetClient({ ...served, token }).builds.delete('x')).rejects.toMatchObject({ code: 'forbidden' })
    await expect(fleetClient({ ...served, token }).allocate({ buildID, sessionID })).rejects.toMatchObject({
      code: 'not-found',
    })
    await served.close()
  })

  it('requires the URL of an API when that API is called', async () => {
    expect(() => fleetClient({})).toThrow(FleetError)
    const half = fleetClient({ allocationUrl: server.url })
    await expect(half.builds.list()).rejects.toThrow(/managementUrl/)
    for (const url of ['localhost:3000', '127.0.0.1:3000', 'ftp://a', 'fleet', '']) {
      expect(() => fleetClient({ url })).toThrow(expect.objectContaining({ code: 'invalid' }))
    }
    expect(() => fleetClient({ url: '/fleet' })).not.toThrow()
  })
})

describe('a client of a host that fails', () => {
  let server: Listener | undefined
  let calls = 0
  afterEach(() => server?.close())

  /** Responds with one step after another, and then repeats the last step. */
  async function host(...steps: readonly RequestListener[]): Promise<FleetClient> {
    calls = 0
    server = await listening((request, response) => {
      request.resume()
      steps[Math.min(calls++, steps.length - 1)]?.(request, response)
    })
    return fleetClient({ url: server.url, timeoutMs: 30_000 })
  }
  const good: RequestListener = (_, response) => response.end('[]')
  const cut: RequestListener = (request) => request.socket.destroy()
  const answers =
    (status: number, headers: Record<string, string> = {}): RequestListener =>
    (_, response) =>
      response.writeHead(status, headers).end('{"error":"not now"}')

  it.each([
    ['cuts the connection', cut],
    ['is a proxy without an upstream', answers(502)],
    ['is closing', answers(503, { 'Gamekeeper-Error': 'closed' })],
    ['does not lead', answers(500, { 'Gamekeeper-Error': 'not-leader' })],
    ['is overloaded', answers(503, { 'Gamekeeper-Error': 'overloaded', 'Retry-After': '1' })],
  ])('retries safe calls when it %s', async (_, step) => {
    const client = await host(step, good)
    await client.allocate({ buildID, sessionID })
    expect(calls).toBe(2)
  })

  it.each<[string, Record<string, string>, string, string]>([
    ['in the body', {}, '{"error":"no","code":"max-reached"}', 'max-reached'],
    ['in the header', { 'Gamekeeper-Error': 'draining' }, '{"error":"no"}', 'draining'],
    ['that it does not know', { 'Gamekeeper-Error': 'draining' }, '{"error":"no","code":"new"}', 'draining'],
    ['of another program', {}, '{"error":"no","code":7}', 'rate-limited'],
  ])('takes the code of an error %s', async (_, headers, body, code) => {
    const client = await host((__, response) => response.writeHead(429, { ...headers, 'Retry-After': '60' }).end(body))
    await expect(client.allocate({ buildID, sessionID })).rejects.toMatchObject({ code, message: 'no' })
  })

  it.each([
    [{}, ['', '']],
    [{ waitMs: 0 }, ['', '']],
    [{ confirm: false, waitMs: 2_000 }, ['?wait=2', /^\?wait=1\.\d{1,3}$/]],
    [{ confirm: true }, ['?confirm=true', '?confirm=true']],
    [{ confirm: true, waitMs: 0 }, ['?wait=0&confirm=true', '?wait=0&confirm=true']],
    [{ confirm: true, waitMs: 2_000 }, ['?wait=2&confirm=true', /^\?wait=1\.\d{1,3}&confirm=true$/]],
  ])('sends %j as the query, with the time that is left in a retry', async (options, queries) => {
    const urls: string[] = []
    const seen =
      (step: RequestListener): RequestListener =>
      (incoming, response) => {
        urls.push((incoming.url ?? '').replace('/api/v1/allocate', ''))
        step(incoming, response)
      }
    const client = await host(seen(cut), seen(good))
    await client.allocate({ buildID, sessionID }, options)
    expect(urls).toEqual(queries.map((query) => (typeof query === 'string' ? query : expect.stringMatching(query))))
  })

  it('does not retry creating a build, or changing or deleting a server, if the outcome is unknown', async () => {
    const change = { counters: { rooms: { increment: 1 } } }
    const asked: readonly ((on: FleetClient) => Promise<unknown>)[] = [
      (on) => on.builds.create(build()),
      (on) => on.servers.update('x', change),
      (on) => on.servers.delete('x'),
    ]
    for (const ask of asked) {
      const client = await host(cut, good)
      await expect(ask(client)).rejects.toMatchObject({ code: 'unavailable' })
      expect(calls).toBe(1)
      await server?.close()
    }
    const client = await host(answers(429, { 'Retry-After': '0' }), good)
    await client.builds.create(build())
    expect(calls).toBe(2)
  })

  it.each([
    [400, {}, 'invalid'],
    [401, {}, 'unauthenticated'],
    [404, { 'Gamekeeper-Error': 'not-found' }, 'not-found'],
    [418, {}, 'internal'],
    [429, { 'Gamekeeper-Error': 'none-standing-by' }, 'none-standing-by'],
    [503, { 'Gamekeeper-Error': 'not-confirmed' }, 'not-confirmed'],
    [429, { 'Retry-After': '600' }, 'rate-limited'],
    [500, { 'Gamekeeper-Error': 'a code of a later version' }, 'internal'],
  ] as const)('%i with %j fails at once, as %s', async (status, headers, code) => {
    const client = await host(answers(status, { ...headers }))
    await expect(client.allocate({ buildID, sessionID })).rejects.toMatchObject({ code, message: 'not now' })
    expect(calls).toBe(1)
  })

  it('fails after its retries with an error that includes the URL', async () => {
    const client = await host(cut)
    await expect(client.builds.list()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('/api/v1'),
    })
    expect(calls).toBe(3)
  })

  it('gives up waiting for a response after its timeout', async () => {
    await host(() => {})
    const impatient = fleetClient({ url: server?.url ?? '', timeoutMs: 50, retries: 0 })
    await expect(impatient.builds.list()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('50 ms'),
    })
  })

  it('reports a response that is not JSON', async () => {
    const client = await host((_, response) => response.end('<html>'))
    await expect(client.builds.list()).rejects.toMatchObject({ code: 'internal' })
  })

  it('resumes reading events at the same position after the connection is lost', async () => {
    const event = (seq: number) =>
      `id: abc-${seq}\nevent: BackendRecovered\ndata: ${JSON.stringify({ seq, type: 'BackendRecovered' })}\n\n`
    const asked: unknown[] = []
    const stream =
      (text: string): RequestListener =>
      (request, response) => {
        asked.push([request.url, request.headers['last-event-id']])
        response.writeHead(200, { 'Content-Type': 'text/event-stream' })
        response.write(text, () => response.destroy())
      }
    const client = await host(stream(`:\n\n${event(4)}${event(5)}id: abc-6\nda`), stream(event(6)))
    const seen: number[] = []
    for await (const { seq } of client.events({ from: 4 })) if (seen.push(seq) === 3) break
    expect(seen).toEqual([4, 5, 6])
    expect(asked).toEqual([
      ['/api/v1/events?from=4', undefined],
      ['/api/v1/events', 'abc-5'],
    ])
    // Reading a part ends with it.
    await server?.close()
    asked.length = 0
    const part = await host(stream(event(4)), stream(event(5)))
    seen.length = 0
    for await (const { seq } of part.events({ last: 2, to: 5 })) seen.push(seq)
    expect(seen).toEqual([4, 5])
    expect(asked).toEqual([
      ['/api/v1/events?last=2&to=5', undefined],
      ['/api/v1/events?to=5', 'abc-4'],
    ])
    await server?.close()
    const some = await host(stream(`${event(4)}id: abc-9\n\n`))
    seen.length = 0
    for await (const { seq } of some.events({ from: 4, to: 9, types: ['BackendRecovered'] })) seen.push(seq)
    expect(seen).toEqual([4])
    expect(asked.at(-1)).toEqual(['/api/v1/events?from=4&to=9&types=BackendRecovered', undefined])
    // A connection lost before the first event does not lose later events.
    await server?.close()
    asked.length = 0
    const again = await host(stream('retry: 1\nid: abc-3\n\n'), stream(event(4)))
    for await (const { seq } of again.events()) {
      expect(seq).toBe(4)
      break
    }
    expect(asked).toEqual([
      ['/api/v1/events', undefined],
      ['/api/v1/events', 'abc-3'],
    ])
  })

  it('never quotes a token or a password that cannot be sent', async () => {
    for (const token of ['the-secret\nof-two-lines', 'the-secret with spaces', 'the-secrét', '']) {
      const failed = fleetClient({ url: 'http://127.0.0.1:9', token }).builds.list()
      await expect(failed).rejects.toMatchObject({ code: 'invalid', message: expect.not.stringContaining('secr') })
    }
    expect(() => fleetClient({ url: 'http://amie:the-secret@127.0.0.1:9' })).toThrow(
      'fleetClient: a url must not contain a user or password; set token instead',
    )
  })

  it('fails at once when its token function fails', async () => {
    await host(good)
    const token = () => Promise.reject(new Error('the login has expired'))
    const client = fleetClient({ url: server?.url ?? '', token })
    const expected = { code: 'unauthenticated', message: expect.stringContaining('the login has expired') }
    await expect(client.builds.list()).rejects.toMatchObject(expected)
    await expect(client.events().next()).rejects.toMatchObject(expected)
    expect(calls).toBe(0)
  })

  it('reads a host that answers in the format of Thundernetes', async () => {
    const build = { metadata: { name: 'arena' }, spec: { buildMetadata: [{ key: 'map', value: 'dust' }] }, status: {} }
    const native = { ...build, spec: { buildMetadata: { map: 'dust' } } }
    const listing = await host((_request, response) => response.end(JSON.stringify({ metadata: {}, items: [build] })))
    expect(await listing.builds.list()).toEqual([native])
    expect((await listing.builds.page()).items).toEqual([native])
    expect(await (await host((_request, response) => response.end(JSON.stringify(build)))).builds.get('arena')).toEqual(
      native,
    )
    const detail = { metadata: { name: 'arena-x' }, spec: { connectedPlayers: ['amie'] } }
    const detailed = await host((_request, response) => response.end(JSON.stringify(detail)))
    expect(await detailed.details.get('arena-x')).toEqual(detail)
  })

  it('stops reading events if access is denied', async () => {
    const client = await host(answers(403, { 'Gamekeeper-Error': 'forbidden' }))
    await expect(client.events().next()).rejects.toMatchObject({ code: 'forbidden' })
  })
})

describe('in a browser', () => {
  it('the client bundles without Node modules', async () => {
    const options = { bundle: true, platform: 'browser', format: 'esm', write: false, metafile: true } as const
    const { metafile, warnings, outputFiles } = await bundle({
      ...options,
      entryPoints: [`${root}/src/client/index.ts`],
      minify: true,
      absWorkingDir: root,
    })
    expect(warnings).toEqual([])
    expect(Object.keys(metafile.inputs).filter((input) => input.includes('node_modules'))).toEqual([])
    // With the table of operations, 8.6 kB compressed.
    expect(outputFiles[0]?.contents.length).toBeLessThan(25_000)
  })

  it('the client runs with browser globals only', async () => {
    const { outputFiles } = await bundle({
      bundle: true,
      platform: 'browser',
      format: 'iife',
      globalName: 'gamekeeper',
      write: false,
      entryPoints: [`${root}/src/client/index.ts`],
    })
    const browser = createContext({
      fetch: () => Promise.resolve(new Response('[]')),
      AbortController,
      setTimeout,
      clearTimeout,
      performance,
    })
    runInContext(outputFiles[0]?.text ?? '', browser)
    const list: unknown = await runInContext(`gamekeeper.fleetClient({ url: '/fleet' }).builds.list()`, browser)
    expect(JSON.stringify(list)).toBe('[]')
  })
})
