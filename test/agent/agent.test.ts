/** The agent on real sockets: every rule of the game server protocol. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Agent, agentListener, maxHeartbeatBytes, startAgent } from '../../src/agent/index.js'
import { closeServer, httpServer, listen } from '../../src/platform/http-server.js'
import {
  type Heartbeat,
  type HeartbeatAnswer,
  type ParkedHeartbeat,
  maintenanceNotice,
} from '../../src/rules/game/heartbeat.js'
import { call, until, listening, rawConnection } from '../http/client.js'
import { targetOf } from './target.js'

const id = 'arena-x7k2p.6f1c0a'
const sessionId = 'd3b07384-d9a0-4d5b-8f3c-1f1c3f0e9a11'
const beat = { CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy', CurrentPlayers: [{ PlayerId: 'amie' }] }
const proceed: HeartbeatAnswer = { operation: 'Continue', nextHeartbeatIntervalMs: 1_000 }

let answer: HeartbeatAnswer
let beats: [string, Heartbeat][]
let agent: Agent
let url: string

const target = targetOf({
  heartbeat(sessionHostId: string, heartbeat: Heartbeat) {
    beats.push([sessionHostId, heartbeat])
    return answer
  },
})

beforeEach(async () => {
  answer = proceed
  beats = []
  agent = await startAgent({ target, port: 0 })
  url = `http://${agent.host}:${agent.port}`
})

afterEach(() => agent.close())

const sessionText = `,"sessionConfig":{"sessionId":"${sessionId}","initialPlayers":[]}`
const noticeText =
  ',"nextScheduledMaintenanceUtc":"2026-11-22T20:15:30Z","maintenanceSchedule":{' +
  '"documentIncarnation":"1795378530","DocumentIncarnation":"1795378530","Events":[{' +
  '"eventId":"maintenance-1795378530","EventId":"maintenance-1795378530","eventType":"Reboot","EventType":"Reboot",' +
  '"resourceType":"VirtualMachine","ResourceType":"VirtualMachine","Resources":["knoten-\\u00fc"],' +
  '"eventStatus":"Scheduled","EventStatus":"Scheduled","notBefore":"2026-11-22T20:15:30Z","NotBefore":"2026-11-22T20:15:30Z",' +
  '"description":"Maintenance of knoten-\\u00fc","Description":"Maintenance of knoten-\\u00fc",' +
  '"eventSource":"Platform","EventSource":"Platform","durationInSeconds":-1,"DurationInSeconds":-1}]}'

const request = (method: string, path: string, body: string, headers = '') =>
  `${method} ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${headers}\r\n${body}`

describe('the agent accepts', () => {
  it.each([
    ['PATCH', `/v1/sessionHosts/${id}`],
    ['POST', `/v1/sessionHosts/${id}`],
    ['PATCH', `/v1/sessionHosts/${id}/heartbeats`],
    ['POST', `/v1/sessionHosts/${id}/heartbeats`],
    ['POST', `/v1/sessionHosts/${id}/heartbeats/`],
    ['PATCH', `/v1/sessionHosts/${id}/`],
    ['PATCH', `/v1/sessionHosts/${id}?api-version=1`],
    ['POST', `/v1/sessionHosts/${id}/heartbeats?a=/b`],
    ['PATCH', `/v1/sessionHosts/${encodeURIComponent(id).replace('.', '%2E')}`],
    ['POST', `http://10.0.0.4:56001/v1/sessionHosts/${id}/heartbeats`],
  ])('a heartbeat as %s %s', async (method, path) => {
    const connection = rawConnection(url, request(method, path, JSON.stringify(beat)))
    const text = await connection.until(/1000}$/)
    connection.socket.destroy()
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
    expect(beats).toEqual([[id, { state: 'StandingBy', health: 'Healthy', players: ['amie'] }]])
  })

  it('an id with percent-encoded characters', async () => {
    await call('PATCH', `${url}/v1/sessionHosts/a%2Fb%20%C3%A9`, { body: beat })
    expect(beats[0]?.[0]).toBe('a/b é')
  })

  it('keys in any case', async () => {
    await call('PATCH', `${url}/v1/sessionHosts/${id}`, {
      body: { currentGameState: 'Active', CURRENTGAMEHEALTH: 'Unhealthy', currentPlayers: [{ playerId: 'bo' }] },
    })
    expect(beats[0]?.[1]).toEqual({ state: 'Active', health: 'Unhealthy', players: ['bo'] })
  })

  it.each([[undefined], [null], [[]]])('%j as an empty list of players', async (players) => {
    await call('PATCH', `${url}/v1/sessionHosts/${id}`, {
      body: { CurrentGameState: 'Active', CurrentGameHealth: '', CurrentPlayers: players },
    })
    expect(beats[0]?.[1]).toEqual({ state: 'Active', players: [] })
  })

  it('a list of about 5,000 players', async () => {
    const players = Array.from({ length: 4_900 }, (_, i) => ({ PlayerId: String(i).padStart(36, '0') }))
    const reply = await call('PATCH', `${url}/v1/sessionHosts/${id}`, { body: { ...beat, CurrentPlayers: players } })
    expect(reply.status).toBe(200)
    expect(beats[0]?.[1].players).toHaveLength(4_900)
  })

  it('a chunked body that arrives byte by byte', async () => {
    const connection = rawConnection(
      url,
      `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`,
    )
    for (const char of JSON.stringify(beat)) {
      connection.socket.write(`1\r\n${char}\r\n`)
      await new Promise((resolve) => setImmediate(resolve))
    }
    connection.socket.write('0\r\n\r\n')
    await connection.until(/200 OK/)
    connection.socket.destroy()
    expect(beats).toHaveLength(1)
  })

  it('an HTTP/1.0 request, and closes the connection after it', async () => {
    const body = JSON.stringify(beat)
    const connection = rawConnection(
      url,
      `PATCH /v1/sessionHosts/${id} HTTP/1.0\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    const text = await connection.closed()
    expect(text).toMatch(/200 OK/)
    expect(text.endsWith('{"operation":"Continue","nextHeartbeatIntervalMs":1000}')).toBe(true)
  })

  it('a client that waits for 100 Continue, as libcurl does', async () => {
    const body = JSON.stringify(beat)
    const head = `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`
    const connection = rawConnection(url, head)
    await connection.until(/100 Continue\r\n\r\n$/)
    connection.socket.write(body)
    await connection.until(/200 OK/)
    connection.socket.destroy()
  })

  it('several heartbeats on one connection, whether or not they are pipelined', async () => {
    const one = request('PATCH', `/v1/sessionHosts/${id}`, JSON.stringify(beat))
    const connection = rawConnection(url, one)
    await connection.until(/1000}$/)
    connection.socket.write(one + one)
    await connection.until(/(1000}[^]*){3}$/)
    connection.socket.destroy()
    expect(beats).toHaveLength(3)
  })

  it.each([[{ Flavor: 'C++', Version: '2.0.0' }], ['not JSON'], [undefined]])(
    'start-up information %j with 200 and no content',
    async (body) => {
      const reply = await call('POST', `${url}/v1/metrics/${id}/gsdkinfo`, { body })
      expect(reply).toMatchObject({ status: 200, text: '', headers: { 'content-length': '0' } })
      expect(beats).toEqual([])
    },
  )
})

describe('the agent responds', () => {
  it('on a host that is not the leader, and closes the connection so that the next one can reach the leader', async () => {
    answer = { ...proceed, isElsewhere: true }
    const connection = rawConnection(url, request('PATCH', `/v1/sessionHosts/${id}`, JSON.stringify(beat)))
    const text = await connection.closed()
    expect(text).toMatch(/\r\nConnection: close\r\n/i)
    expect(text).toMatch(/\r\n\r\n{"operation":"Continue","nextHeartbeatIntervalMs":1000}$/)
  })

  const ask = () => call('PATCH', `${url}/v1/sessionHosts/${id}`, { body: beat })

  it('with an operation and an interval, and no session before the allocation', async () => {
    const reply = await ask()
    expect(reply.text).toBe('{"operation":"Continue","nextHeartbeatIntervalMs":1000}')
    expect(reply.headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(reply.text.length),
    })
    expect(reply.headers).not.toHaveProperty('transfer-encoding')
  })

  it('with the session after the allocation', async () => {
    const sessionConfig = { sessionId, sessionCookie: 'cookie', initialPlayers: ['p1', 'p2'] }
    answer = { operation: 'Active', nextHeartbeatIntervalMs: 1_000, sessionConfig }
    const expected = `"nextHeartbeatIntervalMs":1000,"sessionConfig":{"sessionId":"${sessionId}","sessionCookie":"cookie","initialPlayers":["p1","p2"]}}`
    expect((await ask()).text).toBe(`{"operation":"Active",${expected}`)
    answer = { ...answer, operation: 'Continue' }
    expect((await ask()).text).toBe(`{"operation":"Continue",${expected}`)
  })

  it('with Terminate and the fleet’s interval', async () => {
    answer = { operation: 'Terminate', nextHeartbeatIntervalMs: 2_500 }
    expect((await ask()).text).toBe('{"operation":"Terminate","nextHeartbeatIntervalMs":2500}')
  })

  it('with a session that omits a missing cookie instead of sending null', async () => {
    answer = { ...proceed, sessionConfig: { sessionId, initialPlayers: [] } }
    expect((await ask()).text).toContain(`{"sessionId":"${sessionId}","initialPlayers":[]}`)
  })

  it('in ASCII for any cookie and players', async () => {
    const sessionConfig = {
      sessionId,
      sessionCookie: 'é \u2028 日本 😀 "quoted" \\ \u007f \ud800 \n',
      initialPlayers: ['Zoë', '👾'],
    }
    answer = { ...proceed, sessionConfig }
    const reply = await ask()
    expect(reply.text).toMatch(/^[\x20-\x7f]*$/)
    expect(reply.text).toContain('\\u00e9 \\u2028 \\u65e5\\u672c \\ud83d\\ude00')
    expect(Number(reply.headers['content-length'])).toBe(reply.text.length)
    expect(JSON.parse(reply.text)).toEqual({ ...proceed, sessionConfig })
  })

  it.each([
    ['idle', {}, ''],
    ['Active', { sessionConfig: { sessionId, initialPlayers: [] } }, sessionText],
  ])('with announced maintenance, in both forms that GSDK clients read: %s', async (_, fields, sessionPart) => {
    answer = { ...proceed, ...fields, maintenance: maintenanceNotice(Date.UTC(2026, 10, 22, 20, 15, 30), 'knoten-ü') }
    for (const path of ['', '/heartbeats']) {
      const reply = await call('POST', `${url}/v1/sessionHosts/${id}${path}`, { body: beat })
      expect(reply.text).toBe(`{"operation":"Continue","nextHeartbeatIntervalMs":1000${sessionPart}${noticeText}}`)
      expect(Number(reply.headers['content-length'])).toBe(reply.text.length)
    }
  })

  it('with Continue if the fleet fails, since some SDKs stop permanently after an error', async () => {
    const errors: string[] = []
    const nothing = () => {}
    const logger = {
      debug: nothing,
      info: nothing,
      warn: nothing,
      error: (_: object, text: string) => errors.push(text),
    }
    const failing = targetOf({
      heartbeat() {
        throw new Error('broken')
      },
    })
    const server = await listening(agentListener(failing, { logger }))
    const reply = await call('PATCH', `${server.url}/v1/sessionHosts/${id}`, { body: beat })
    await server.close()
    expect(reply).toMatchObject({ status: 200, text: '{"operation":"Continue","nextHeartbeatIntervalMs":1000}' })
    expect(errors).toEqual(['heartbeat failed'])
  })
})

describe('the agent holds its answer', () => {
  let holds: { readonly id: string; readonly waitMs: number; answer(answer: HeartbeatAnswer): void }[]
  let cancelled: number
  let holding: Agent
  let holdUrl: string
  beforeEach(async () => {
    holds = []
    cancelled = 0
    const holdingTarget = {
      ...target,
      parkHeartbeat(sessionHostId: string, hold: ParkedHeartbeat) {
        holds.push({ id: sessionHostId, waitMs: hold.waitMs, answer: (later) => hold.answer(later) })
        return () => void cancelled++
      },
    }
    holding = await startAgent({ target: holdingTarget, port: 0 })
    holdUrl = `http://${holding.host}:${holding.port}`
  })
  afterEach(() => holding.close())

  const waiting = () => `Prefer: wait=1\r\n`
  const sent = (body: object, headers = waiting()) =>
    rawConnection(holdUrl, request('PATCH', `/v1/sessionHosts/${id}`, JSON.stringify(body), headers))

  it('to a StandingBy heartbeat until the fleet has one', async () => {
    const connection = sent(beat)
    await until(() => holds.length === 1)
    expect(holds[0]).toMatchObject({ id, waitMs: 1_000 })
    expect(beats).toHaveLength(1)
    expect(connection.received()).toBe('')
    holds[0]?.answer({
      ...proceed,
      operation: 'Active',
      sessionConfig: { sessionId, initialPlayers: [] },
    })
    expect(await connection.until(/"initialPlayers":\[\]\}\}$/)).toMatch(
      /200 OK[^]*"operation":"Active"[^]*"sessionId"/,
    )
    connection.socket.destroy()
  })

  it('and closes the connection if another host leads by then', async () => {
    const connection = sent(beat)
    await until(() => holds.length === 1)
    holds[0]?.answer({ ...proceed, isElsewhere: true })
    expect(await connection.closed()).toMatch(/200 OK[^]*1000}$/)
  })

  it('until the game disconnects', async () => {
    const connection = sent(beat)
    await until(() => holds.length === 1)
    connection.socket.destroy()
    await until(() => cancelled === 1)
  })

  it.each([
    ['', 0],
    ['Prefer: wait=10\r\n', 10_000],
    ['Prefer: respond-async, wait=2\r\n', 2_000],
    ['Prefer: return=minimal\r\nPrefer: Wait = "3"\r\n', 3_000],
    ['Prefer: wait\r\n', 0],
    ['Prefer: wait=-1\r\n', 0],
    ['Prefer: await=5\r\n', 0],
  ])('as long as the fleet allows: %j prefers %i ms', async (headers, waitMs) => {
    const connection = sent(beat, headers)
    await until(() => holds.length === 1)
    expect(holds[0]?.waitMs).toBe(waitMs)
    connection.socket.destroy()
  })

  it.each(['Initializing', 'Active', 'Terminating', 'Invalid'])('not to a heartbeat %s', async (state) => {
    const connection = sent({ ...beat, CurrentGameState: state })
    await connection.until(/1000}$/)
    expect(holds).toEqual([])
    connection.socket.destroy()
  })

  it.each([
    { ...proceed, operation: 'Terminate' as const },
    { ...proceed, isElsewhere: true as const },
    { ...proceed, sessionConfig: { sessionId, initialPlayers: [] } },
  ])('not if the answer is %j', async (final) => {
    answer = final
    const connection = sent(beat)
    await connection.until(/ 200 OK/)
    expect(holds).toEqual([])
    connection.socket.destroy()
  })

  it('only if the fleet supports it', async () => {
    const body = JSON.stringify(beat)
    const connection = rawConnection(url, request('PATCH', `/v1/sessionHosts/${id}`, body, waiting()))
    await connection.until(/1000}$/)
    connection.socket.destroy()
  })
})

describe('the agent rejects', () => {
  const heartbeatPath = `/v1/sessionHosts/${id}`

  it.each([
    ['POST', '/', 404],
    ['POST', '/v1/sessionHosts', 404],
    ['POST', '/v1/sessionHosts/', 404],
    ['POST', '/v1/sessionHosts//heartbeats', 404],
    ['POST', `${heartbeatPath}/heartbeats/more`, 404],
    ['POST', `${heartbeatPath}/other`, 404],
    ['POST', `/v1/metrics/${id}`, 404],
    ['POST', `/v2/sessionHosts/${id}`, 404],
    ['POST', '/v1/sessionHosts/%ZZ', 400],
    ['GET', heartbeatPath, 405],
    ['PUT', `${heartbeatPath}/heartbeats`, 405],
    ['DELETE', heartbeatPath, 405],
    ['OPTIONS', heartbeatPath, 405],
    ['GET', `/v1/metrics/${id}/gsdkinfo`, 405],
    ['PATCH', `/v1/metrics/${id}/gsdkinfo`, 405],
  ])('%s %s with %i', async (method, path, status) => {
    const reply = await call(method, url + path, method === 'POST' ? { body: beat } : {})
    expect(reply.status).toBe(status)
    expect(JSON.parse(reply.text)).toEqual({ error: expect.any(String) })
    expect(beats).toEqual([])
  })

  it('a wrong method with 405 and Allow', async () => {
    expect((await call('GET', url + heartbeatPath)).headers['allow']).toBe('PATCH, POST')
    expect((await call('GET', `${url}/v1/metrics/${id}/gsdkinfo`)).headers['allow']).toBe('POST')
  })

  it('HEAD with 405 and no body', async () => {
    expect(await call('HEAD', url + heartbeatPath)).toMatchObject({ status: 405, text: '' })
  })

  it.each([[''], ['{'], ['hello'], ['{"CurrentGameState":'], [Buffer.from([0xff, 0xfe])]])(
    'a body that is not JSON with 400: %j',
    async (body) => {
      const reply = await call('PATCH', url + heartbeatPath, { body })
      expect(reply.status).toBe(400)
      expect(reply.text).toMatch(/^\{"error":"body is not JSON/)
    },
  )

  it.each([['null'], ['5'], ['[]'], ['"x"'], ['{"CurrentGameState":7,"CurrentPlayers":"many"}']])(
    'no JSON body: %s counts as a heartbeat in state Invalid',
    async (body) => {
      expect((await call('PATCH', url + heartbeatPath, { body })).status).toBe(200)
      expect(beats[0]?.[1]).toEqual({ state: 'Invalid', players: [] })
    },
  )

  it.each([
    ['an object that cannot be converted to a string', '{"CurrentGameState":{"toString":1,"valueOf":1}}'],
    ['a very deep array', `{"CurrentGameState":${'['.repeat(60_000)}${']'.repeat(60_000)}}`],
  ])('neither this heartbeat nor the next if the state is %s', async (_, body) => {
    expect((await call('PATCH', url + heartbeatPath, { body })).status).toBe(200)
    expect((await call('PATCH', url + heartbeatPath, { body: beat })).status).toBe(200)
  })

  it('a body over 256 KiB with 413, whether or not its length is declared', async () => {
    const tooLarge = `{"CurrentGameState":"Active","x":"${'x'.repeat(maxHeartbeatBytes)}"}`
    const declared = await call('PATCH', url + heartbeatPath, { body: tooLarge })
    expect(declared.status).toBe(413)
    expect(JSON.parse(declared.text)).toEqual({ error: 'body is larger than 262144 bytes' })
    const chunked = await call('PATCH', url + heartbeatPath, {
      body: tooLarge,
      headers: { 'Transfer-Encoding': 'chunked' },
    })
    expect(chunked.status).toBe(413)
    expect(beats).toEqual([])
  })

  it('endless bodies, by disconnecting clients that keep sending after a 413', async () => {
    const connection = rawConnection(
      url,
      `PATCH ${heartbeatPath} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n`,
    )
    connection.socket.write('x'.repeat(maxHeartbeatBytes + 1))
    await connection.until(/413/)
    await connection.closed()
  })

  it.each([
    ['garbage', 'garbage\r\n\r\n'],
    ['an unknown version', 'GET / HTTP/9.9\r\n\r\n'],
    ['no Host header', 'PATCH / HTTP/1.1\r\n\r\n'],
    ['an endless path', `GET /${'x'.repeat(20_000)}\r\n`],
  ])('data that is not HTTP, and keeps serving: %s', async (_, bytes) => {
    const text = await rawConnection(url, bytes).closed()
    expect(text).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect((await call('PATCH', url + heartbeatPath, { body: beat })).status).toBe(200)
  })
})

describe('the agent survives', () => {
  it('a client that disconnects in the middle of its body', async () => {
    const connection = rawConnection(
      url,
      `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"Cur`,
    )
    // When the agent has answered a later request, it has received the earlier data.
    await call('GET', url)
    connection.socket.resetAndDestroy()
    await connection.closed()
    expect((await call('PATCH', `${url}/v1/sessionHosts/${id}`, { body: beat })).status).toBe(200)
    expect(beats).toHaveLength(1)
  })

  it('clients that send headers or body too slowly, by disconnecting them', async () => {
    const server = httpServer(agentListener(target), {
      headersTimeoutMs: 100,
      requestTimeoutMs: 200,
      checkIntervalMs: 50,
    })
    const { host, port } = await listen(server, { host: '127.0.0.1', port: 0, option: 'agent' })
    const slowHead = rawConnection(`http://${host}:${port}`, 'PATCH /v1/sessionHosts/x HTTP/1.1\r\nHo')
    const slowBody = rawConnection(
      `http://${host}:${port}`,
      'PATCH /v1/sessionHosts/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{',
    )
    expect(await slowHead.closed()).toMatch(/ 408 /)
    expect(await slowBody.closed()).toMatch(/ 408 /)
    await closeServer(server)
  })

  it('overload with the default limits', () => {
    const server = httpServer(() => {})
    expect(server).toMatchObject({
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      keepAliveTimeout: 75_000,
      maxConnections: 20_000,
    })
  })
})

describe('the agent behind Express', () => {
  it('accepts heartbeats below a mount, after a body parser has read the body', async () => {
    const listener = agentListener(target)
    const server = await listening((incoming, outgoing) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () => {
        const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
        const path = (incoming.url ?? '').slice('/v1'.length)
        listener(Object.assign(incoming, { body, originalUrl: incoming.url, url: path }), outgoing)
      })
    })
    const reply = await call('POST', `${server.url}/v1/sessionHosts/${id}/heartbeats`, { body: beat })
    await server.close()
    expect(reply.status).toBe(200)
    expect(beats[0]?.[1].players).toEqual(['amie'])
  })
})

describe('starting and closing the agent', () => {
  it('reports which port is in use and how to choose another', async () => {
    await expect(startAgent({ target, port: agent.port })).rejects.toMatchObject({
      code: 'port-in-use',
      message: expect.stringContaining(
        `port ${agent.port} on 127.0.0.1 is in use by another program; choose another with agent: { port }`,
      ),
    })
  })

  it.each([
    [{ port: -1 }, 'agent.port must be an integer from 0 to 65535, but is -1'],
    [{ port: 70_000 }, 'agent.port must be an integer from 0 to 65535, but is 70000'],
    [{ port: Number('x') }, 'agent.port must be an integer from 0 to 65535, but is NaN'],
    [{ port: 0, host: '' }, 'agent.host must not be empty'],
    [{ port: 0, host: '192.0.2.1' }, '192.0.2.1 is not an address of this machine; set agent: { host }'],
  ])('rejects %j', async (where, message) => {
    await expect(startAgent({ target, ...where })).rejects.toMatchObject({ code: 'invalid', message })
  })

  it('closes idle connections at once, and answers a heartbeat in flight', async () => {
    const idle = rawConnection(url, request('PATCH', `/v1/sessionHosts/${id}`, JSON.stringify(beat)))
    await idle.until(/1000}$/)
    const body = JSON.stringify(beat)
    const inFlight = rawConnection(
      url,
      `PATCH /v1/sessionHosts/${id} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n{`,
    )
    // When the agent has answered a later request, it has received this head.
    await call('PATCH', `${url}/v1/sessionHosts/${id}`, { body: beat })
    const closed = agent.close()
    // If idle connections were only closed at the end, the other one would be closed as well.
    await idle.closed()
    inFlight.socket.write(body.slice(1))
    expect(await inFlight.closed()).toMatch(/200 OK[^]*1000}$/)
    await closed
    await expect(call('PATCH', `${url}/v1/sessionHosts/${id}`, { body: beat })).rejects.toThrow(/ECONNREFUSED/)
  })

  it('can be closed twice', async () => {
    await Promise.all([agent.close(), agent.close()])
  })

  it('closes a connection that is still open after the grace period', async () => {
    let asked = false
    const server = createServer(() => (asked = true))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const stuck = rawConnection(`http://127.0.0.1:${port}`, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => asked)
    await closeServer(server, 100)
    await stuck.closed()
  })

  it('finishes closing with its last connection, before the grace period ends', async () => {
    let finish: (() => void) | undefined
    const server = httpServer((_, response) => (finish = () => response.end('late')))
    const { port } = await listen(server, { host: '127.0.0.1', port: 0, option: 'test' })
    const last = rawConnection(`http://127.0.0.1:${port}`, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => finish !== undefined)
    const closed = closeServer(server, 600_000)
    finish?.()
    expect(await last.closed()).toMatch(/ 200 OK[^]*late$/)
    await closed
  })
})
