/** Listener limits: requests beyond them are rejected and do not affect other calls. */
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { allocationRoutes, managementRoutes, serve, type Served, type ServeLimits } from '../../src/http/index.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { createFleet, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { closeServer, httpServer, listen } from '../../src/platform/http-server.js'
import { call, listening, rawConnection, until } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
let served: Served

beforeEach(async () => {
  fleet = await memoryFleet()
})
afterEach(async () => {
  await served.close()
  await fleet.close()
})

async function open(limits: Partial<ServeLimits> = {}): Promise<string> {
  served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, limits })
  return served.allocationUrl
}

const body = { buildID, sessionID }
const allocate = (wait = '') => call('POST', `${served.allocationUrl}/api/v1/allocate${wait}`, { body })

/** Calls of other clients, which must not be affected. */
async function othersAreServed(): Promise<void> {
  expect((await call('GET', `${served.managementUrl}/api/v1/gameservers`)).status).toBe(200)
  expect((await allocate()).status).toBe(404)
}

describe('concurrency limits:', () => {
  it('waiting callers beyond maxWaiting get 503 with Retry-After; other calls are unaffected', async () => {
    await fleet.close()
    fleet = await createFleet({
      backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }),
      limits: { maxWaiting: 2 },
    })
    await open()
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const gone = new AbortController()
    const url = `${served.allocationUrl}/api/v1/allocate?wait=30`
    const sessions = [2, 3].map((n) => sessionID.replace(/.$/, String(n)))
    const waiting = sessions.map((id) => call('POST', url, { body: { buildID, sessionID: id }, signal: gone.signal }))
    const ended = Promise.allSettled(waiting)
    await until(() => fleet.stats().builds[0]?.waiting === 2)
    const refused = await allocate('?wait=30')
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    expect(refused.text).toContain('2 callers are waiting, and maxWaiting is 2')
    expect((await allocate()).status).toBe(429)
    gone.abort()
    await ended
    // Callers that disconnect free their places in the queue.
    await until(async () => (await allocate('?wait=0.05')).status === 429)
  })

  it.each(entryPoints)('requests beyond maxInFlight get 503 through $name', async ({ open: at }) => {
    await open()
    let release = () => {}
    const released = new Promise<void>((resolve) => (release = resolve))
    let inside = 0
    const builds = {
      ...fleet.builds,
      async list() {
        inside++
        await released
        return []
      },
    }
    const host = await at(managementRoutes({ ...fleet, builds }, { maxInFlight: 2 }))
    const held = [1, 2].map(() => call('GET', `${host.url}/api/v1/gameserverbuilds`))
    await until(() => inside === 2)
    const refused = await call('GET', `${host.url}/api/v1/gameservers`)
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    release()
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200])
    expect((await call('GET', `${host.url}/api/v1/gameservers`)).status).toBe(200)
    await host.close()
  })

  it('waiting callers do not count as requests in flight', async () => {
    await open()
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const host = await listening(allocationRoutes(fleet, { maxInFlight: 1 }).nodeHandler)
    const gone = new AbortController()
    const waiting = call('POST', `${host.url}/api/v1/allocate?wait=60`, { body, signal: gone.signal })
    const ended = Promise.allSettled([waiting])
    await until(() => fleet.stats().builds[0]?.waiting === 1)
    expect((await call('POST', `${host.url}/api/v1/allocate`, { body })).status).toBe(429)
    gone.abort()
    await ended
    await host.close()
  })

  it('the longest wait is the fleet’s limits.maxWaitMs', async () => {
    await fleet.close()
    fleet = await createFleet({
      backend: memoryBackend({ clock: systemClock, heartbeatIntervalMs: 25 }),
      limits: { maxWaitMs: 2_500 },
    })
    await open()
    const refused = await allocate('?wait=3')
    expect(refused).toMatchObject({ status: 400, headers: { 'gamekeeper-error': 'invalid' } })
    expect(refused.text).toBe(
      '{"error":"wait must be a number of seconds from 0 to 2.5, but is \\"3\\"","code":"invalid"}',
    )
    expect((await allocate('?wait=2.5')).status).toBe(404)
  })

  it.each<[object, string]>([
    [{ maxInFlight: 0 }, 'limits.maxInFlight must be an integer ≥ 1, but is 0'],
    [{ requestTimeoutMs: 1.5 }, 'limits.requestTimeoutMs must be an integer ≥ 1, but is 1.5'],
    [{ maxBodyByte: 1 }, 'limits.maxBodyByte is not a limit of serve; known are '],
  ])('cannot be %j', async (limits, message) => {
    await open()
    await expect(serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, limits })).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining(message),
    })
  })
})

describe('a slow client', () => {
  const slow = { headersTimeoutMs: 300, requestTimeoutMs: 600, checkIntervalMs: 50 }
  const line = 'POST /api/v1/allocate HTTP/1.1\r\n'
  const head = `${line}Host: localhost\r\nContent-Length: 1000000\r\n\r\n`

  it.each([
    ['head', line, 'X'],
    ['body', head, ' '],
  ])('does not delay others if it sends its %s slowly', async (_, begin, byte) => {
    const url = await open({ headersTimeoutMs: 600_000, requestTimeoutMs: 600_000 })
    const connections = Array.from({ length: 50 }, () => rawConnection(url, begin))
    const dripping = connections.map(({ socket }) => drip(socket, byte))
    await othersAreServed()
    expect(connections.every(({ socket }) => !socket.closed)).toBe(true)
    for (const each of dripping) each.stop()
    for (const { socket } of connections) socket.destroy()
  })

  it('gets 408 if it sends its headers byte by byte, or sends nothing', async () => {
    const url = await open(slow)
    const silent = rawConnection(url)
    const loris = rawConnection(url, line)
    const dripping = drip(loris.socket, 'X')
    expect(await loris.closed()).toMatch(/^(HTTP\/1\.1 408 |$)/)
    expect(await silent.closed()).toMatch(/^(HTTP\/1\.1 408 |$)/)
    dripping.stop()
  })

  it('gets 408 if it sends its body byte by byte, and others are served afterwards', async () => {
    const url = await open(slow)
    const connections = Array.from({ length: 50 }, () => rawConnection(url, head))
    const dripping = connections.map(({ socket }) => drip(socket, ' '))
    await until(() => connections.every(({ socket }) => socket.closed))
    for (const connection of connections) expect(connection.received()).toMatch(/^(HTTP\/1\.1 408 |$)/)
    for (const each of dripping) each.stop()
    await othersAreServed()
  })

  it('is disconnected after stallTimeoutMs if it does not read its response', async () => {
    const large = Array.from({ length: 100_000 }, (_, i) => ({ name: `${'x'.repeat(200)}${i}` }))
    const servers = { ...fleet.servers, list: () => Promise.resolve(large as never) }
    await open()
    const server = httpServer(managementRoutes({ ...fleet, servers }).nodeHandler, { stallTimeoutMs: 300 })
    const { port } = await listen(server, { host: '127.0.0.1', port: 0, option: 'test' })
    const held = rawConnection(
      `http://127.0.0.1:${port}`,
      'GET /api/v1/gameservers HTTP/1.1\r\nHost: localhost\r\n\r\n',
    )
    await held.until(/^HTTP\/1\.1 200 /)
    held.socket.pause()
    const connections = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)))
    await until(async () => (await connections()) === 0)
    // Data in transit can still be read; the rest is lost.
    held.socket.resume()
    await held.closed()
    expect(held.received().length).toBeLessThan(20_000_000)
    await closeServer(server)
  })
})

describe('hostile input:', () => {
  it('a body of 1 GiB gets 413 and is not buffered', { timeout: 300_000 }, async () => {
    const url = await open()
    const before = process.memoryUsage().rss
    const head = (length: string) => `POST /api/v1/allocate HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\r\n`
    const declared = rawConnection(url, head(`Content-Length: ${1024 ** 3}`))
    const chunked = rawConnection(url, head('Transfer-Encoding: chunked'))
    const piece = 'x'.repeat(64 * 1024)
    const sending = [pour(declared.socket, piece, 1024 ** 3), pour(chunked.socket, `10000\r\n${piece}\r\n`, 1024 ** 3)]
    await othersAreServed()
    for (const connection of [declared, chunked]) expect(await connection.closed()).toMatch(/^HTTP\/1\.1 413 /)
    const sent = await Promise.all(sending)
    for (const bytes of sent) expect(bytes).toBeLessThan(256 * 1024 ** 2)
    expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 ** 2)
    await othersAreServed()
  })

  it.each([
    ['malformed UTF-8', Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['UTF-8 that is cut off', Buffer.from('{"buildID":"é"}').subarray(0, 13)],
    ['a lone surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['UTF-16', Buffer.from('{"buildID":"x"}', 'utf16le')],
    ['deeply nested arrays', Buffer.from('['.repeat(500_000) + ']'.repeat(500_000))],
    ['deeply nested objects', Buffer.from('{"a":'.repeat(150_000) + '1' + '}'.repeat(150_000))],
    ['brackets that never close', Buffer.from('[{'.repeat(400_000))],
  ])('%s gets 400 from both APIs', async (_, bytes) => {
    const url = await open()
    const answers = await Promise.all(
      [`${url}/api/v1/allocate`, `${served.managementUrl}/api/v1/gameserverbuilds`].map((at) =>
        call('POST', at, { body: bytes }),
      ),
    )
    for (const { status, text } of answers) {
      expect(status).toBe(400)
      expect(JSON.parse(text)).toEqual({ error: expect.any(String), code: 'invalid' })
    }
    await othersAreServed()
  })

  it('10,000 idle connections do not block other calls', { timeout: 300_000 }, async () => {
    // Node raises its soft limit for open files to the hard limit. Each side of the connections is a separate process.
    const files = Number(
      execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim().replace('unlimited', '1e9'),
    )
    const count = Math.min(10_000, files - 500)
    if (count < 10_000)
      console.warn(`ONLY ${count} IDLE CONNECTIONS: a process may open no more than ${files} files here`)
    // No connection times out while the last ones are being opened.
    const longMs = 300_000
    const url = await open({ headersTimeoutMs: longMs, requestTimeoutMs: longMs, keepAliveTimeoutMs: longMs })
    await fleet.builds.create(build({ standingBy: 1, max: 1 }))
    await standingBy(fleet, 1)
    const holder = fork(new URL('idle-connections.mjs', import.meta.url), [url, String(count)], { stdio: 'inherit' })
    const exited = once(holder, 'exit')
    try {
      const opened = await Promise.race([once(holder, 'message'), exited])
      expect(opened).toEqual(['open', undefined])
      expect((await allocate()).status).toBe(200)
      expect((await call('GET', `${served.managementUrl}/api/v1/gameservers`)).status).toBe(200)
    } finally {
      holder.kill('SIGKILL')
      await exited
    }
    expect((await allocate()).status).toBe(200)
  })

  it.each(['stays', 'leaves'])(
    'a client that has thousands of allocations wait behind each other and %s is disconnected, and none waits on',
    async (how) => {
      const url = await open()
      await fleet.builds.create(build({ standingBy: 0, max: 0 }))
      const requests = Array.from({ length: 3_000 }, (_, n) => {
        const text = JSON.stringify({ buildID, sessionID: `00000000-0000-4000-8000-${String(n).padStart(12, '0')}` })
        return `POST /api/v1/allocate?wait=60 HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${text.length}\r\n\r\n${text}`
      })
      let mostWaiting = 0
      const caller = rawConnection(url, requests.join(''))
      const waiting = () => {
        const count = fleet.stats().builds[0]?.waiting ?? 0
        mostWaiting = Math.max(mostWaiting, count)
        return count
      }
      if (how === 'leaves') caller.socket.end()
      await until(() => waiting() === 0 && caller.socket.destroyed)
      expect(mostWaiting).toBeLessThanOrEqual(100)
    },
  )

  it('connections beyond maxConnections are dropped, and existing ones keep working', async () => {
    const url = await open({ maxConnections: 3 })
    const request = 'GET /api/v1/allocate HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const first = rawConnection(url, request)
    await first.until(/^HTTP\/1\.1 405 [^]*}$/)
    const others: Socket[] = []
    for (let i = 0; i < 6; i++) others.push(connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}))
    await until(() => others.filter((socket) => socket.closed).length === 4)
    first.socket.write(request)
    await first.until(/405 [^]*405 [^]*}$/)
    for (const socket of [...others, first.socket]) socket.destroy()
  })
})

/** Writes a byte every 20 ms while the socket is writable. */
function drip(socket: Socket, byte: string): { stop(): void } {
  const timer = setInterval(() => {
    if (socket.writable) socket.write(byte)
  }, 20)
  return { stop: () => clearInterval(timer) }
}

/** Writes until `total` bytes are sent or the other side closes; resolves with the bytes sent. */
async function pour(socket: Socket, piece: string, total: number): Promise<number> {
  let sent = 0
  while (sent < total && socket.writable) {
    sent += piece.length
    if (socket.write(piece)) continue
    await new Promise<void>((resolve) => {
      const on = () => {
        socket.off('drain', on).off('close', on)
        resolve()
      }
      socket.on('drain', on).on('close', on)
    })
  }
  return sent
}
