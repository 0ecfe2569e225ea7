/** The prober against games that answer, games that do not, and strangers who answer for them: real sockets on this machine. */
import { createSocket, type Socket } from 'node:dgram'
import { createServer, type Server, type Socket as TcpSocket } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { ProbeAddress, Prober } from '../../src/contracts/prober.js'
import { openProber } from '../../src/probes/network-prober.js'
import type { NetworkProbe, PlayersProbe, PlayersReport, QueryProtocol } from '../../src/rules/game/probes.js'
import { aGame, openGame } from '../games/query-game.mjs'

const host = '127.0.0.1'
/** Long enough for a slow machine: only failures take as long. */
const timeoutMs = 20_000

let prober: Prober

beforeAll(() => {
  prober = openProber()
})

afterAll(() => prober.close())

async function game(protocol: QueryProtocol | 'http', ...players: string[]) {
  const state = aGame()
  state.players = players
  const { port, close } = await openGame(protocol, state)
  onTestFinished(close)
  return { state, at: { host, port }, close }
}

/** A UDP server of which each test decides what it does. */
async function udpServer(answer: (request: Buffer, reply: (datagram: Uint8Array) => void, nth: number) => void) {
  const socket = createSocket('udp4')
  let requests = 0
  const from: number[] = []
  socket.on('message', (request, sender) => {
    from.push(sender.port)
    answer(request, (datagram) => socket.send(datagram, sender.port, sender.address), ++requests)
  })
  await bound(socket)
  onTestFinished(() => new Promise((resolve) => socket.close(() => resolve())))
  return { at: { host, port: socket.address().port }, from, requests: () => requests }
}

async function bound(socket: Socket): Promise<void> {
  await new Promise<void>((resolve) => socket.bind(0, host, resolve))
}

async function tcpServer(onConnection: (socket: TcpSocket) => void): Promise<ProbeAddress> {
  const open = new Set<TcpSocket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of open) socket.destroy()
      }),
  )
  return { host, port: portOf(server) }
}

function portOf(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}

/** A port at which nobody listens. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const port = portOf(server)
  await new Promise((resolve) => server.close(resolve))
  return port
}

function players(probe: PlayersProbe | QueryProtocol, at: ProbeAddress, ms = timeoutMs): Promise<PlayersReport> {
  return prober.players(typeof probe === 'string' ? { query: { protocol: probe } } : probe, at, ms)
}

/** Nothing was heard. */
function unavailable(message: string) {
  return expect.objectContaining({ name: 'FleetError', code: 'unavailable', message })
}

/** Something else was heard than what was asked for. */
function wrong(message: string) {
  return expect.objectContaining({ name: 'FleetError', code: 'invalid', message })
}

function reasonOf(call: Promise<unknown>): Promise<unknown> {
  return call.catch((error: unknown) => error)
}

describe('a query', () => {
  it.each([
    ['a2s', ['amie', 'Zoë']],
    ['minecraft', ['amie', 'Zoë']],
    ['bedrock', []],
    ['sqp', []],
  ] as const)('of %s finds who plays', async (protocol, names) => {
    const { state, at } = await game(protocol)
    expect(await players(protocol, at)).toEqual({ count: 0, names: [] })
    state.players = ['amie', 'Zoë']
    expect(await players(protocol, at)).toEqual({ count: 2, names })
    expect(await prober.check({ query: { protocol } }, at, timeoutMs)).toBeUndefined()
    expect(await players(protocol, { ...at, host: 'localhost' })).toEqual({ count: 2, names })
    expect(await players(protocol, { ...at, host: '::ffff:127.0.0.1' })).toEqual({ count: 2, names })
  })

  it('of A2S puts a long list together from its parts', async () => {
    const names = Array.from({ length: 200 }, (_, i) => `a player with quite a long name, number ${i}`)
    const { at } = await game('a2s', ...names)
    expect(await players('a2s', at)).toEqual({ count: 200, names })
  })

  it('of A2S gives the number of players of a game that does not list them', async () => {
    const { state, at } = await game('a2s', 'amie', 'ben')
    state.listsPlayers = false
    expect(await players('a2s', at, 600)).toEqual({ count: 2, names: [] })
  })

  it('of A2S does not count bots, and counts hundreds in Rust', async () => {
    const { state, at } = await game('a2s', 'amie')
    state.bots = 4
    expect(await players('a2s', at)).toEqual({ count: 1, names: [] })
    Object.assign(state, { bots: 0, gameId: 252_490, tags: 'mp500,cp321' })
    expect(await players('a2s', at)).toEqual({ count: 321, names: ['amie'] })
  })

  it('works over IPv6', async () => {
    const state = aGame()
    state.players = ['amie']
    for (const protocol of ['a2s', 'minecraft'] as const) {
      const { port, close } = await openGame(protocol, state, { host: '::1' })
      onTestFinished(close)
      expect(await players(protocol, { host: '0:0:0:0:0:0:0:1', port })).toEqual({ count: 1, names: ['amie'] })
    }
  })

  it('may be asked of the same game many times at once', async () => {
    const { at } = await game('a2s', 'amie')
    const reports = await Promise.all(Array.from({ length: 16 }, () => players('a2s', at)))
    expect(reports).toEqual(reports.map(() => ({ count: 1, names: ['amie'] })))
    const many = await Promise.all(Array.from({ length: 40 }, () => reasonOf(players('a2s', at))))
    const refused = many.filter((error) => String(error).includes('the same port is asked 16 times at once'))
    expect(refused).toHaveLength(24)
  })

  it('may be asked of hundreds of games at once', async () => {
    const games = await Promise.all(Array.from({ length: 300 }, (_, i) => game('sqp', ...names(i % 7))))
    const reports = await Promise.all(games.map(({ at }) => players('sqp', at)))
    expect(reports.map(({ count }) => count)).toEqual(games.map((_, i) => i % 7))
  })
})

function names(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `player-${i}`)
}

describe('datagrams', () => {
  const infoOfNone = Buffer.concat([
    Buffer.from('ffffffff4911', 'hex'),
    Buffer.from('a\0b\0c\0d\0'),
    Buffer.from('0100000900', 'hex'),
    Buffer.from('dl\0\x011\0'),
  ])

  it('that are lost once are sent again', async () => {
    const { at, requests } = await udpServer((_, reply, nth) => nth > 1 && reply(infoOfNone))
    expect(await players('a2s', at, 900)).toEqual({ count: 0, names: [] })
    expect(requests()).toBe(2)
  })

  it('that are lost do not cost what is known already', async () => {
    const infoOfTwo = Buffer.from(infoOfNone)
    infoOfTwo[16] = 2
    const { at, requests } = await udpServer((_, reply, nth) => nth === 2 && reply(infoOfTwo))
    expect(await players('a2s', at, 900)).toEqual({ count: 2, names: [] })
    expect(requests()).toBe(4)
  })

  it('are sent twice at most', async () => {
    const { at, requests } = await udpServer(() => {})
    expect(await reasonOf(players('a2s', at, 300))).toEqual(
      unavailable(`A2S query of ${host}:${at.port} failed: no answer within 0.3 s`),
    )
    expect(requests()).toBe(2)
  })

  it('that come twice, or late, do no harm', async () => {
    const challenge = Buffer.from('ffffffff41deadbeef', 'hex')
    const late: (() => void)[] = []
    const { at } = await udpServer((request, reply, nth) => {
      if (nth <= 2) return void late.push(() => reply(infoOfNone))
      for (let i = 0; i < 3; i++) reply(request.byteLength > 25 ? infoOfNone : challenge)
    })
    await expect(players('a2s', at, 200)).rejects.toThrow('no answer within 0.2 s')
    for (const reply of late) reply()
    expect(await players('a2s', at)).toEqual({ count: 0, names: [] })
  })

  it('that are wrong may be forged, so the right one is waited for', async () => {
    const { at } = await udpServer((_, reply) => {
      for (let i = 0; i < 20; i++) reply(Buffer.from('nonsense'))
      reply(infoOfNone)
    })
    expect(await players('a2s', at)).toEqual({ count: 0, names: [] })
  })

  it('that are all wrong are the reason of the failure', async () => {
    const { at } = await udpServer((_, reply) => reply(Buffer.from('nonsense')))
    const reasons = ['is not A2S', 'is not a pong of Minecraft Bedrock', 'is not SQP']
    for (const [i, protocol] of (['a2s', 'bedrock', 'sqp'] as const).entries())
      await expect(players(protocol, at, 200)).rejects.toThrow(`failed: the answer ${reasons[i]}`)
  })

  it('of strangers are ignored, however many', async () => {
    const stranger = createSocket('udp4')
    await bound(stranger)
    onTestFinished(() => new Promise((resolve) => stranger.close(() => resolve())))
    const forged = Buffer.from(infoOfNone)
    // Two more players than there are.
    forged[16] = 2
    const flood = async (port: number) => {
      for (let sent = 0; sent < 10_000; sent += 50) {
        const sends = Array.from({ length: 50 }, () => sendTo(stranger, forged, port))
        await Promise.all(sends)
      }
    }
    let flooded: Promise<void> | undefined
    const { at, from } = await udpServer((_, reply) => {
      // Each request is answered, since the flood may have taken all room for the answer to the first.
      flooded ??= flood(from[0] ?? 0)
      void flooded.then(() => reply(infoOfNone))
    })
    const begunAt = performance.now()
    expect(await players('a2s', at)).toEqual({ count: 0, names: [] })
    expect(performance.now() - begunAt).toBeLessThan(timeoutMs / 2)
    await flooded
  })

  it('of the game itself are read up to a number', async () => {
    const { at } = await udpServer((_, reply) => {
      for (let i = 0; i < 1_000; i++) reply(Buffer.from('nonsense'))
      reply(infoOfNone)
    })
    await expect(players('a2s', at, 500)).rejects.toThrow('failed: the answer is not A2S')
  })

  it('to a port at which nobody listens fail only their own query', async () => {
    const { at } = await game('a2s', 'amie')
    const [refused, report] = await Promise.all([
      reasonOf(players('a2s', { host, port: await freePort() }, 300)),
      players('a2s', at),
    ])
    expect(refused).toMatchObject({ code: 'unavailable' })
    expect(report).toEqual({ count: 1, names: ['amie'] })
  })
})

function sendTo(socket: Socket, datagram: Uint8Array, port: number): Promise<void> {
  return new Promise((resolve) => socket.send(datagram, port, host, () => resolve()))
}

describe('a probe over UDP', () => {
  it('passes if the answer begins as expected', async () => {
    const { at } = await udpServer((request, reply) => reply(Buffer.concat([Buffer.from([0xff]), request])))
    const check = (udp: NonNullable<NetworkProbe['udp']>) => prober.check({ udp }, at, 300)
    await check({ send: '0a0b' })
    await check({ send: '0a0b', expect: 'FF0A' })
    await check({ send: '', expect: 'ff' })
    await expect(check({ send: '0a0b', expect: 'fe' })).rejects.toEqual(
      wrong(`UDP probe of ${host}:${at.port} failed: the answer does not begin as expected`),
    )
    await expect(check({ send: '0' })).rejects.toThrow('send and expect must be hexadecimal')
  })
})

describe('a probe over TCP', () => {
  it('passes if the game accepts a connection', async () => {
    const at = await tcpServer(() => {})
    await prober.check({ tcp: {} }, at, timeoutMs)
    await prober.check({ tcp: {} }, { ...at, host: 'localhost' }, timeoutMs)
  })

  it('says that the connection was refused', async () => {
    const port = await freePort()
    expect(await reasonOf(prober.check({ tcp: {} }, { host, port }, timeoutMs))).toEqual(
      wrong(`TCP connection to ${host}:${port} failed: connection refused`),
    )
  })

  it('says that there is no such host, and no such port', async () => {
    await expect(prober.check({ tcp: {} }, { host: 'game.invalid', port: 1 }, timeoutMs)).rejects.toThrow(
      'TCP connection to game.invalid:1 failed: the host name does not resolve',
    )
    await expect(prober.check({ tcp: {} }, { host, port: 70_000 }, timeoutMs)).rejects.toThrow('there is no port 70000')
    await expect(players('a2s', { host, port: 0 })).rejects.toThrow('there is no port 0')
  })
})

describe('a query over TCP', () => {
  it('ends in time if the game sends one byte at a time', async () => {
    const at = await tcpServer((socket) => {
      const timer = setInterval(() => socket.write(Buffer.of(0xff, 0x7f)), 5)
      // 16,383 bytes are announced, and never arrive.
      socket.on('close', () => clearInterval(timer))
    })
    await expect(players('minecraft', at, 300)).rejects.toThrow(/is not a status|was not complete within 0.3 s/)
  })

  it('says what was missing', async () => {
    const silent = await tcpServer(() => {})
    await expect(players('minecraft', silent, 200)).rejects.toThrow('no answer within 0.2 s')
    const slow = await tcpServer((socket) => void socket.write(Buffer.of(0xff, 0x7f, 0x00)))
    await expect(players('minecraft', slow, 200)).rejects.toThrow('the answer was not complete within 0.2 s')
    const short = await tcpServer((socket) => void socket.end(Buffer.of(0xff, 0x7f, 0x00)))
    await expect(players('minecraft', short)).rejects.toThrow(
      'the connection was closed before the answer was complete',
    )
    const large = await tcpServer((socket) => void socket.write(Buffer.of(0xff, 0xff, 0x7f, 0x00)))
    await expect(players('minecraft', large)).rejects.toThrow('the answer has more than 64 KiB')
  })
})

describe('a probe over HTTP', () => {
  it('passes with a status from 200 to 299', async () => {
    const { state, at } = await game('http')
    for (const status of [200, 204, 299]) {
      state.status = status
      await prober.check({ http: { path: '/health' } }, at, timeoutMs)
    }
    for (const status of [301, 404, 503]) {
      state.status = status
      expect(await reasonOf(prober.check({ http: { path: '/health' } }, at, timeoutMs))).toEqual(
        wrong(`GET http://${host}:${at.port}/health failed: HTTP status ${status}`),
      )
    }
  })

  it('finds the number of players, and their names', async () => {
    const { at } = await game('http', 'amie', 'ben')
    const http = (field: string) => players({ http: { path: '/players', field } }, at)
    expect(await http('players.online')).toEqual({ count: 2, names: [] })
    expect(await http('players.names')).toEqual({ count: 2, names: ['amie', 'ben'] })
    await expect(http('players.bots')).rejects.toThrow(
      'failed: the answer has neither a number nor a list at players.bots',
    )
    await expect(players({ http: { path: '/other', field: 'x' } }, at)).rejects.toThrow('the answer is not JSON')
  })

  it.each([
    ['too much', `HTTP/1.1 200 OK\r\n\r\n${' '.repeat(65_537)}`, 'the answer has more than 64 KiB'],
    [
      'too little',
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{',
      /connection reset|closed before the answer was complete/,
    ],
    ['another protocol', 'SSH-2.0-OpenSSH\r\n', /Parse Error/],
    [
      'a switch of protocols',
      'HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
      /closed without an answer/,
    ],
    ['nothing', '', 'connection reset'],
  ])('refuses %s', async (_, answer, reason) => {
    const at = await tcpServer((socket) => void socket.once('data', () => socket.end(answer)))
    await expect(players({ http: { path: '/', field: 'players' } }, at)).rejects.toThrow(reason)
  })

  it('reads an answer that ends with its connection', async () => {
    const answer = 'HTTP/1.1 200 OK\r\n\r\n{"players":3}'
    const at = await tcpServer((socket) => void socket.once('data', () => socket.end(answer)))
    expect(await players({ http: { path: '/', field: 'players' } }, at)).toEqual({ count: 3, names: [] })
  })

  it('ends in time, whether the game is silent or slow', async () => {
    const probe = { http: { path: '/players', field: 'players' } }
    const { state, at } = await game('http')
    state.isSilent = true
    await expect(players(probe, at, 200)).rejects.toThrow('no answer within 0.2 s')
    const slow = await tcpServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n')
      const timer = setInterval(() => socket.write(' '), 5)
      socket.on('close', () => clearInterval(timer))
    })
    await expect(players(probe, slow, 300)).rejects.toThrow('the answer was not complete within 0.3 s')
    const headers = await tcpServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const timer = setInterval(() => socket.write('X: y\r\n'), 5)
      socket.on('close', () => clearInterval(timer))
    })
    await expect(prober.check({ http: { path: '/' } }, headers, 300)).rejects.toThrow('no answer within 0.3 s')
  })
})

describe('a prober', () => {
  const opened: Prober[] = []
  afterEach(() => {
    for (const each of opened.splice(0)) each.close()
  })

  it('that is closed ends what is in progress, and begins nothing', async () => {
    const own = openProber()
    opened.push(own)
    const { at } = await udpServer(() => own.close())
    const silent = await game('http')
    silent.state.isSilent = true
    const message = 'failed: the prober was closed'
    await Promise.all([
      expect(own.players({ query: { protocol: 'a2s' } }, at, timeoutMs)).rejects.toThrow(message),
      expect(own.check({ http: { path: '/' } }, silent.at, timeoutMs)).rejects.toThrow(message),
    ])
    await expect(own.check({ tcp: {} }, silent.at, timeoutMs)).rejects.toThrow(message)
    own.close()
  })

  it('refuses a probe that asks nothing', async () => {
    await expect(prober.check({}, { host, port: 1 }, timeoutMs)).rejects.toThrow('the probe {} names nothing to ask')
    await expect(prober.players({}, { host, port: 1 }, timeoutMs)).rejects.toThrow('the probe {} names nothing to ask')
  })
})
