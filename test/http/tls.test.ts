/** TLS and client certificates on the listeners of `serve`, with real certificates over real sockets. */
import { execFile } from 'node:child_process'
import { copyFile, readFile, rename, writeFile } from 'node:fs/promises'
import { createServer, request as httpsRequest } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type ApiRequest, fleetRoutes, serve, type Served, type ServeOptions } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { type Authority, type Certified, certificates, type Workshop } from './certificates.js'
import { until } from './client.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'

const exec = promisify(execFile)

let workshop: Workshop
let ours: Authority
let foreign: Authority
let server: Certified
let matchmaker: Certified
let stranger: Certified

beforeAll(async () => {
  workshop = await certificates()
  ours = await workshop.authority('ours')
  foreign = await workshop.authority('foreign')
  server = await ours.issue('server')
  matchmaker = await ours.issue('matchmaker')
  stranger = await foreign.issue('matchmaker')
})
afterAll(() => workshop.remove())

let fleet: Fleet
let served: Served | undefined
const said: { readonly level: string; readonly message: string; readonly fields: object }[] = []
const say = (level: string) => (fields: object, message: string) => {
  said.push({ level, message, fields })
}
const logger = { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') }

beforeEach(async () => {
  fleet = await memoryFleet()
  said.length = 0
  served = undefined
})
afterEach(async () => {
  await served?.close()
  await fleet.close()
})

async function open(options: Omit<ServeOptions, 'fleet'>): Promise<Served> {
  served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, logger, ...options })
  return served
}

interface Client {
  readonly certified?: Certified
}

/** One call over TLS on its own connection. */
async function call(url: string, { certified }: Client, body?: unknown) {
  const identity = certified && { cert: await readFile(certified.cert), key: await readFile(certified.key) }
  const ca = await readFile(ours.cert)
  return new Promise<{ readonly status: number; readonly text: string }>((resolve, reject) => {
    const options = { method: body === undefined ? 'GET' : 'POST', agent: false, ca, ...identity }
    const request = httpsRequest(url, options, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    request.on('error', reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** The common name of the listener's certificate on a new connection. */
function shownBy(url: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket: TLSSocket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false }, () => {
      const { CN } = socket.getPeerCertificate().subject
      socket.destroy()
      resolve(String(CN))
    })
    socket.on('error', reject)
  })
}

describe('with client certificates', () => {
  const withCertificates = () => ({
    allocation: { port: 0, tls: { cert: server.cert, key: server.key, ca: ours.cert, requestCert: true } },
  })
  const request = { buildID, sessionID }

  it('a client with a trusted certificate gets a server; with an untrusted or no certificate, the handshake fails', async () => {
    const { allocationUrl, managementUrl } = await open(withCertificates())
    expect(allocationUrl).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(managementUrl).toMatch(/^http:/)
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const url = `${allocationUrl}/api/v1/allocate`
    await expect(call(url, {}, request)).rejects.toThrow(/alert|ECONNRESET|socket/)
    await expect(call(url, { certified: stranger }, request)).rejects.toThrow(/alert|ECONNRESET|socket/)
    expect((await fleet.builds.get('arena')).status.currentActive).toBe(0)
    expect(await call(url, { certified: matchmaker }, request)).toMatchObject({
      status: 200,
      text: expect.stringContaining(sessionID),
    })
  })

  it('plain HTTP gets no response', async () => {
    const { allocationUrl } = await open(withCertificates())
    const socket = connectPlain(Number(new URL(allocationUrl).port), '127.0.0.1')
    let received = ''
    socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
    socket.on('error', () => {})
    socket.write('GET /api/v1/allocate HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => socket.closed)
    expect(received).not.toContain('HTTP/1.1')
  })

  it('the authorize hook gets the certificate', async () => {
    const seen: unknown[] = []
    const { allocationUrl } = await open({
      ...withCertificates(),
      authorize(request) {
        const { commonName, fingerprint = '' } = request.clientCertificate() ?? {}
        seen.push(commonName, /^([\dA-F]{2}:){31}[\dA-F]{2}$/.test(fingerprint))
        return commonName === 'matchmaker'
      },
    })
    const other = await ours.issue('other-client')
    const url = `${allocationUrl}/api/v1/allocate`
    expect((await call(url, { certified: other }, request)).status).toBe(403)
    expect((await call(url, { certified: matchmaker }, request)).status).toBe(404)
    expect(seen).toEqual(['other-client', true, 'matchmaker', true])
  })

  it('the example in docs/guides/securing.md works', async () => {
    const { allocationUrl } = await open(withCertificates())
    await fleet.builds.create(build())
    await standingBy(fleet, 2)
    const page = await readFile(join(import.meta.dirname, '../../docs/guides/securing.md'), 'utf8')
    const line = /^curl --cacert [^]*?'$/m.exec(page)?.[0] ?? ''
    const real = line
      .replace('https://127.0.0.1:5000', allocationUrl)
      .replace('--cacert ca.pem', `--cacert ${ours.cert}`)
      .replace('--cert client.pem', `--cert ${matchmaker.cert}`)
      .replace('--key client.key', `--key ${matchmaker.key}`)
    const { stdout } = await exec('sh', ['-c', real.replace('curl ', 'curl -sS ')])
    expect(JSON.parse(stdout)).toMatchObject({ IPV4Address: '127.0.0.1' })
    const without = real.replace(/--cert \S+ --key \S+/, '')
    await expect(exec('sh', ['-c', without.replace('curl ', 'curl -sS ')])).rejects.toThrow(/alert|reset|SSL/i)
  })
})

it('without a client CA no certificate is required', async () => {
  const { managementUrl } = await open({ management: { port: 0, tls: { cert: server.cert, key: server.key } } })
  expect(await call(`${managementUrl}/api/v1/gameservers`, {})).toEqual({ status: 200, text: '[]' })
})

describe('TLS files that change', () => {
  async function following() {
    const at = (name: string) => join(workshop.folder, `live-${name}`)
    const place = async ({ cert, key }: Certified) => {
      await copyFile(key, at('key'))
      // As in a certificate renewal, the files are replaced one after the other, each atomically.
      await copyFile(cert, at('new'))
      await rename(at('new'), at('cert'))
    }
    await place(server)
    await copyFile(ours.cert, at('ca'))
    const tls = { cert: at('cert'), key: at('key'), ca: at('ca'), requestCert: false, checkMs: 20 }
    const { managementUrl } = await open({ management: { port: 0, tls } })
    return { at, place, url: managementUrl }
  }

  it('are reloaded without a restart', async () => {
    const { place, url } = await following()
    expect(await shownBy(url)).toBe('server')
    await place(await ours.issue('renewed'))
    await until(async () => (await shownBy(url)) === 'renewed')
    expect(said.filter(({ level }) => level === 'info')).toEqual([
      expect.objectContaining({
        message: 'reloaded changed TLS files',
        fields: expect.objectContaining({ option: 'management.tls' }),
      }),
    ])
  })

  it.each([
    ['a key of another certificate', 'key', () => readFile(stranger.key)],
    ['half a certificate', 'cert', async () => (await readFile(server.cert)).subarray(0, 200)],
    ['an empty key', 'key', () => Promise.resolve('')],
    ['an empty client CA file', 'ca', () => Promise.resolve('')],
  ])('are ignored with one log line if they are unusable: %s', async (_, file, content) => {
    const { at, place, url } = await following()
    // Replaced atomically: a half-written file would cause another error.
    await writeFile(at('new'), await content())
    await rename(at('new'), at(file))
    const errors = () => said.filter(({ level }) => level === 'error')
    await until(() => errors().length > 0)
    expect(await shownBy(url)).toBe('server')
    expect(errors()).toEqual([
      expect.objectContaining({
        message: 'changed TLS files are unusable; keeping the current ones',
        fields: expect.objectContaining({ option: 'management.tls' }),
      }),
    ])
    await copyFile(ours.cert, at('ca'))
    await place(await ours.issue('mended'))
    await until(async () => (await shownBy(url)) === 'mended')
  })

  it('can replace the client CA', async () => {
    const ca = join(workshop.folder, 'live-authorities')
    await copyFile(ours.cert, ca)
    const tls = { cert: server.cert, key: server.key, ca, checkMs: 20 }
    const { managementUrl } = await open({ management: { port: 0, tls } })
    const ask = async (certified: Certified) =>
      (await call(`${managementUrl}/api/v1/gameservers`, { certified }).catch(() => undefined))?.status
    expect([await ask(matchmaker), await ask(stranger)]).toEqual([200, undefined])
    await writeFile(ca, Buffer.concat([await readFile(foreign.cert), await readFile(ours.cert)]))
    await until(async () => (await ask(stranger)) === 200)
    expect(await ask(matchmaker)).toBe(200)
    await copyFile(foreign.cert, ca)
    await until(async () => (await ask(matchmaker)) === undefined)
    expect(await ask(stranger)).toBe(200)
  })
})

it('an optional client certificate is passed to authorize', async () => {
  const names: unknown[] = []
  const authorize = (request: ApiRequest) => names.push(request.clientCertificate()?.commonName) > 0
  const tls = { cert: server.cert, key: server.key, ca: ours.cert, requestCert: false }
  const { managementUrl } = await open({ management: { port: 0, tls }, authorize })
  for (const client of [{ certified: matchmaker }, {}, { certified: stranger }]) {
    expect((await call(`${managementUrl}/api/v1/gameservers`, client)).status).toBe(200)
  }
  expect(names).toEqual(['matchmaker', undefined, undefined])
})

describe('serve fails at startup with', () => {
  it.each([
    ['a missing file', () => ({ ...server, cert: '/nowhere.pem' }), /^allocation\.tls: ENOENT.*nowhere\.pem/],
    [
      'a key of another certificate',
      () => ({ ...server, key: stranger.key }),
      /the key does not match the certificate/,
    ],
    ['a client CA file without certificates', () => ({ ...server, ca: server.key }), /contains no certificate/],
    [
      'requestCert without a client CA',
      () => ({ ...server, requestCert: true }),
      /requestCert needs allocation\.tls\.ca/,
    ],
    ['checkMs 0', () => ({ ...server, checkMs: 0 }), /checkMs must be an integer ≥ 10/],
    ['checkMs NaN', () => ({ ...server, checkMs: NaN }), /checkMs must be an integer ≥ 10/],
  ])('%s', async (_, tls, message) => {
    const attempt = serve({ fleet, allocation: { port: 0, tls: tls() }, management: { port: 0 } })
    await expect(attempt).rejects.toMatchObject({ code: 'invalid', message: expect.stringMatching(message) })
  })
})

it("routes in the host app's node:https server get the client certificate", async () => {
  const names: unknown[] = []
  const authorize = (request: ApiRequest) => names.push(request.clientCertificate()?.commonName) > 0
  const [cert, key, ca] = await Promise.all([server.cert, server.key, ours.cert].map((path) => readFile(path)))
  const pair = { ...(cert && { cert }), ...(key && { key }), ...(ca && { ca }) }
  const host = createServer({ ...pair, requestCert: true }, fleetRoutes(fleet, { authorize }).nodeHandler)
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
  const address = host.address()
  const url = `https://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/api/v1`
  expect(await call(`${url}/gameservers`, { certified: matchmaker })).toEqual({ status: 200, text: '[]' })
  expect((await call(`${url}/allocate`, { certified: matchmaker }, { buildID, sessionID })).status).toBe(404)
  await expect(call(`${url}/gameservers`, { certified: stranger })).rejects.toThrow()
  expect(names).toEqual(['matchmaker', 'matchmaker'])
  await new Promise((resolve) => host.close(resolve))
})

it('serve closes while a client is still in its handshake', async () => {
  const management = { port: 0, tls: { cert: server.cert, key: server.key } }
  const { managementUrl, close } = await open({
    management,
    limits: { headersTimeoutMs: 600_000, requestTimeoutMs: 600_000 },
  })
  const socket = connectPlain(Number(new URL(managementUrl).port), '127.0.0.1')
  socket.on('error', () => {})
  await until(() => !socket.connecting)
  await close()
  await until(() => socket.closed)
})
