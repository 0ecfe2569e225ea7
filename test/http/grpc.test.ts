/** Agones' allocator over gRPC: the client of @grpc/grpc-js with the messages of Agones, on real sockets and a real fleet. */
import { readFile } from 'node:fs/promises'
import { connect, type ClientHttp2Session } from 'node:http2'
import { type ChannelCredentials, credentials, type ServiceClientConstructor } from '@grpc/grpc-js'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Fleet } from '../../src/contracts/fleet.js'
import { bearerTokens, serve, type ServeOptions } from '../../src/http/index.js'
import { certificates, type Workshop } from './certificates.js'
import { until } from './client.js'
import { build, memoryFleet, noServers, standingBy } from './fleet.js'
import { grpcClient, serviceIn } from './grpc-client.js'

const arena = { gameServerSelectors: [{ matchLabels: { 'agones.dev/fleet': 'arena' } }] }

let fleet: Fleet
let Service: ServiceClientConstructor
let Health: ServiceClientConstructor

beforeAll(async () => {
  fleet = await memoryFleet({ script: () => ({ takesSeveral: true }) })
  Service = serviceIn('agones-allocation.proto', 'allocation.AllocationService')
  Health = serviceIn('grpc-health.proto', 'grpc.health.v1.Health')
})
afterAll(() => fleet.close())
beforeEach(async () => {
  for (const { metadata } of await fleet.builds.list()) await fleet.builds.delete(metadata)
  await noServers(fleet)
})

async function served(options: Partial<ServeOptions> = {}) {
  const port = { port: 0 }
  const opened = await serve({
    fleet,
    allocation: port,
    management: port,
    grpc: port,
    compat: 'agones',
    logger: false,
    ...options,
  })
  onTestFinished(() => opened.close())
  return opened
}

const clientOf = (url: string | undefined, secured?: ChannelCredentials, made = Service) => {
  const client = grpcClient(made, url ?? '', secured)
  onTestFinished(() => client.close())
  return client.call
}

describe('allocation.AllocationService', () => {
  it('allocates, and answers with what the server has', async () => {
    const counters = { rooms: { count: 0, capacity: 300 } }
    const lists = { players: { values: ['zoë'], capacity: 4 } }
    await fleet.builds.create(build({ counters, lists, sessionsPerServer: 2, standingBy: 1 }))
    await standingBy(fleet, 1)
    const { grpcUrl } = await served()
    const allocate = clientOf(grpcUrl)
    const first = await allocate(
      {
        gameServerSelectors: [
          {
            matchLabels: { 'agones.dev/fleet': 'arena' },
            matchExpressions: [{ key: 'mode', operator: 'NotIn', values: ['ranked'] }],
            counters: { rooms: { minAvailable: '300' } },
            lists: { players: { containsValue: 'zoë', minAvailable: 1 } },
          },
        ],
        priorities: [{ type: 'Counter', key: 'rooms', order: 'Descending' }],
        metadata: {
          labels: { mode: 'ranked' },
          annotations: { match: '42', 'mps.gamekeeper.com/session-id': 'first' },
        },
        counters: { rooms: { action: { value: 'Increment' }, amount: { value: '200' } } },
        lists: { players: { addValues: ['amie', 'bo'], deleteValues: ['zoë'] } },
        multiClusterSetting: { enabled: false, policySelector: { matchLabels: { region: 'eu' } } },
        fromTheFuture: 'x',
        alsoUnknown: 1.5,
        andThis: 2.5,
      },
      {},
    )
    const session = await fleet.sessions.get('first')
    if (session.state === 'Ended') throw new Error('the session has ended')
    const { server, address, ports } = session
    expect(first).toMatchObject({
      gameServerName: server.name,
      address,
      addresses: [{ type: 'ExternalIP', address }],
      ports: [{ name: ports[0]?.name, port: ports[0]?.public }],
      nodeName: 'memory',
      source: 'local',
      metadata: { labels: { mode: 'ranked' }, annotations: { match: '42' } },
      counters: { rooms: { count: { value: '200' }, capacity: { value: '300' } } },
      lists: { players: { values: ['amie', 'bo'], capacity: { value: '4' } } },
    })
    const room = { ...arena.gameServerSelectors[0], gameServerState: 'ALLOCATED' }
    const second = await allocate(
      { gameServerSelectors: [room] },
      { metadata: { 'idempotency-key': 'second' }, timeoutMs: 60_000 },
    )
    expect(second['gameServerName']).toBe(server.name)
    expect(await allocate(arena, { metadata: { 'idempotency-key': 'second' } })).toEqual(second)
  })

  it.each([
    ['a deadline', { timeoutMs: 60_000 }],
    ['a preference', { metadata: { prefer: 'wait=60' } }],
  ])('lets a caller with %s wait for a server', async (_, options) => {
    await fleet.builds.create(build({ standingBy: 0 }))
    const allocate = clientOf((await served()).grpcUrl)
    expect(await allocate(arena, options)).toMatchObject({ address: '127.0.0.1' })
  })

  it('says before the deadline that there is no server', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const allocate = clientOf((await served()).grpcUrl)
    await expect(allocate(arena, { timeoutMs: 2_000 })).rejects.toMatchObject({ code: 8 })
  })

  it('answers errors with the codes of gRPC', async () => {
    const { grpcUrl } = await served({ limits: { maxBodyBytes: 1_000 } })
    const allocate = clientOf(grpcUrl)
    await expect(allocate(arena)).rejects.toMatchObject({
      code: 8,
      details: expect.stringContaining('no build in namespace'),
    })
    const limited = { gameServerSelectors: [{ counters: { rooms: { maxCount: 3 } } }] }
    await expect(allocate(limited)).rejects.toMatchObject({
      code: 3,
      details: 'gameServerSelectors[0].counters.rooms.maxCount is not supported: a selector has minimums only',
    })
    await expect(allocate({ gameServerSelectors: [{ counters: { rooms: { minCount: -1 } } }] })).rejects.toMatchObject({
      code: 3,
    })
    await expect(allocate({ multiClusterSetting: { enabled: true } })).rejects.toMatchObject({ code: 3 })
    await expect(allocate({ namespace: 'x'.repeat(2_000) })).rejects.toMatchObject({
      code: 8,
      details: 'the request is larger than 1000 bytes',
    })
    await expect(allocate({}, { method: 'Other' })).rejects.toMatchObject({
      code: 12,
      details: expect.stringContaining('/allocation.AllocationService/Other is not served here'),
    })
  })

  it('asks for the role allocate', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const token = 'a-token-of-sixteen'
    const allocate = clientOf((await served({ authorize: bearerTokens([{ token, roles: ['allocate'] }]) })).grpcUrl)
    await expect(allocate(arena)).rejects.toMatchObject({ code: 16 })
    expect(await allocate(arena, { metadata: { authorization: `Bearer ${token}` } })).toMatchObject({ source: 'local' })
  })

  it('says whether the host is ready', async () => {
    const check = clientOf((await served()).grpcUrl, undefined, Health)
    expect(await check({ service: '' }, { method: 'Check' })).toEqual({ status: 'SERVING' })
  })

  it('answers waiting callers when it closes', async () => {
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const opened = await served()
    const waiting = clientOf(opened.grpcUrl)(arena, { timeoutMs: 60_000 })
    const outcome = waiting.catch((error: unknown) => error)
    await until(() => fleet.stats().builds.some(({ waiting: count }) => count > 0))
    await opened.close()
    expect(await outcome).toMatchObject({ code: 14 })
  })
})

describe('with client certificates', () => {
  let workshop: Workshop
  beforeAll(async () => {
    workshop = await certificates()
  })
  afterAll(() => workshop.remove())

  it('the audit names the holder, and a caller without one is refused', async () => {
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const authority = await workshop.authority('root')
    const [own, matchmaker] = [await authority.issue('host'), await authority.issue('matchmaker')]
    const { grpcUrl } = await served({ grpc: { port: 0, tls: { ...own, ca: authority.cert } } })
    const [ca, key, cert] = await Promise.all(
      [authority.cert, matchmaker.key, matchmaker.cert].map((path) => readFile(path)),
    )
    const callers: unknown[] = []
    onTestFinished(fleet.on('Audited', ({ caller }) => callers.push(caller)))
    expect(await clientOf(grpcUrl, credentials.createSsl(ca, key, cert))(arena)).toMatchObject({ source: 'local' })
    await until(() => callers.length > 0)
    expect(callers).toMatchObject([{ kind: 'certificate', name: 'matchmaker' }])
    await expect(clientOf(grpcUrl, credentials.createSsl(ca))(arena, { timeoutMs: 10_000 })).rejects.toMatchObject({
      code: 14,
    })
  })
})

describe('hostile input', () => {
  let session: ClientHttp2Session
  const frame = (bytes: readonly number[], { flag = 0, length = bytes.length } = {}) => {
    const prefix = Buffer.alloc(5)
    prefix[0] = flag
    prefix.writeUInt32BE(length, 1)
    return Buffer.concat([prefix, Buffer.from(bytes)])
  }
  const send = (
    headers: Readonly<Record<string, string>>,
    body: Uint8Array,
  ): Promise<Readonly<Record<string, unknown>>> =>
    new Promise((resolve, reject) => {
      const stream = session.request({
        ':method': 'POST',
        ':path': '/allocation.AllocationService/Allocate',
        'content-type': 'application/grpc',
        ...headers,
      })
      stream.on('response', (answer) => resolve(answer))
      stream.on('error', reject)
      stream.end(body)
    })

  it.each<[string, Uint8Array, string]>([
    ['nothing', Buffer.alloc(0), '3'],
    ['a frame that is cut off', frame([10, 3, 97], { length: 9 }), '3'],
    ['two messages', Buffer.concat([frame([]), frame([])]), '3'],
    ['a compressed message', frame([1], { flag: 1 }), '12'],
    ['a field that is cut off', frame([10, 9, 97]), '3'],
    ['an endless number', frame([16, ...Array<number>(20).fill(255)]), '3'],
    ['a group', frame([11]), '3'],
    ['a number in place of a text', frame([8, 1]), '3'],
    ['a text in place of a number', frame([42, 1, 97]), '3'],
    ['a text that is not UTF-8', frame([10, 1, 255]), '3'],
    ['an enum without a name', frame([40, 9]), '3'],
  ])('%s is refused', async (_, body, code) => {
    const { grpcUrl } = await served()
    session = connect(grpcUrl ?? '')
    onTestFinished(() => session.close())
    expect(await send({}, body)).toMatchObject({ ':status': 200, 'grpc-status': code })
    expect(await send({ 'content-type': 'text/plain' }, body)).toMatchObject({ ':status': 415 })
    expect(await send({ ':authority': 'elsewhere.example' }, frame([]))).toMatchObject({ 'grpc-status': '7' })
    expect(await send({ 'grpc-timeout': '1S' }, frame([]))).toMatchObject({ 'grpc-status': '8' })
  })
})

it('answers the next caller after names of methods that all objects have, and half a character in a message', async () => {
  const { grpcUrl } = await served()
  for (const path of ['__proto__', 'toString', 'constructor', '/toString']) {
    const stranger = connect(grpcUrl ?? '')
    stranger.on('error', () => {})
    const headers = { ':method': 'POST', ':scheme': 'x', ':path': path, 'content-type': 'application/grpc' }
    const stream = stranger.request(headers)
    await new Promise<void>((resolve) => {
      stream.on('error', () => resolve())
      stream.on('response', () => resolve())
      stream.on('close', () => resolve())
      stream.end()
    })
    stranger.destroy()
  }
  const allocate = clientOf(grpcUrl)
  // The message shows the beginning of what was given, which ends amid a character.
  for (let length = 50; length < 60; length++) {
    const annotations = { 'mps.gamekeeper.com/initial-players': `${'x'.repeat(length)}${'😀'.repeat(20)}` }
    await expect(allocate({ ...arena, metadata: { annotations } })).rejects.toMatchObject({ code: 3 })
  }
  await expect(allocate(arena)).rejects.toMatchObject({ code: 8 })
})

it('a request with very many elements is read in a row, and refused', async () => {
  const { grpcUrl } = await served()
  const allocate = clientOf(grpcUrl)
  const gameServerSelectors = Array.from({ length: 200_000 }, () => ({}))
  await expect(allocate({ gameServerSelectors })).rejects.toMatchObject({ code: 3 })
})

it('needs compat', async () => {
  await expect(serve({ fleet, grpc: { port: 0 } })).rejects.toMatchObject({
    code: 'invalid',
    message: "serve: grpc needs compat: 'agones'",
  })
})
