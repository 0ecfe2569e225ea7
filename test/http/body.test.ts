/** Request bodies through both entry points: sizes, encodings, and slow or misbehaving clients. */
import { Buffer } from 'node:buffer'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { allocationRoutes, managementRoutes } from '../../src/http/index.js'
import type { AllocationRequest } from '../../src/index.js'
import { call, type Listener, rawConnection } from './client.js'
import { entryPoints } from './entry-points.js'
import { buildID, fleetOf, sessionID } from './fleet.js'

const request = { buildID, sessionID }
const mebibyte = 1_048_576
const path = '/api/v1/allocate'

const echo = {
  allocate: ({ sessionID: SessionID, sessionCookie = '' }: AllocationRequest) =>
    Promise.resolve({ IPV4Address: '127.0.0.1', Ports: sessionCookie, SessionID }),
}
const routes = allocationRoutes(echo)

describe.each(entryPoints)('through $name', ({ open }) => {
  let server: Listener
  let post: (body: unknown, headers?: Record<string, string>) => ReturnType<typeof call>

  beforeAll(async () => {
    server = await open(routes)
    post = (body, headers = {}) => call('POST', server.url + path, { body, headers })
  })
  afterAll(() => server.close())

  /** A valid request of exactly this size. */
  const sized = (bytes: number) => JSON.stringify(request).padEnd(bytes)
  const chunked = { 'Transfer-Encoding': 'chunked' }

  it.each([
    ['application/json'],
    ['application/json; charset=utf-8'],
    ['text/plain'],
    ['application/x-www-form-urlencoded'],
    ['nonsense'],
  ])('a body with content type %s is read as JSON', async (type) => {
    expect((await post(request, { 'Content-Type': type })).status).toBe(200)
  })

  it('non-ASCII text is preserved, including with chunked encoding', async () => {
    const cookie = 'é日本😀'
    for (const headers of [{}, chunked]) {
      const reply = await post({ ...request, sessionCookie: cookie }, headers)
      expect(JSON.parse(reply.text)).toMatchObject({ Ports: cookie })
      expect(reply.headers['content-length']).toBe(String(Buffer.byteLength(reply.text)))
    }
  })

  it.each([
    ['declared', {}],
    ['not declared', chunked],
  ])('1 MiB is accepted and one byte more gets 413, with length %s', async (_, headers) => {
    expect((await post(sized(mebibyte), headers)).status).toBe(200)
    const reply = await post(sized(mebibyte + 1), headers)
    expect(reply).toMatchObject({ status: 413, text: '{"error":"body is larger than 1048576 bytes","code":"invalid"}' })
  })

  it('a body that is far too large is rejected while the client is still sending it', async () => {
    const connection = rawConnection(
      server.url,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${9 * mebibyte}\r\n\r\n${'x'.repeat(mebibyte + 1)}`,
    )
    await connection.until(/ 413 /)
    connection.socket.destroy()
  })

  it.each([
    ['empty', '', /^body must be JSON, but is empty$/],
    ['not JSON', 'buildID=1', /^body is not JSON: /],
    ['cut off', '{"buildID":"', /^body is not JSON: /],
    ['only brackets', '['.repeat(500_000), /^body is nested deeper than 100 levels$/],
    ['deep', `{"buildID":${'['.repeat(200)}${']'.repeat(200)}}`, /^body is nested deeper than 100 levels$/],
  ])('a body that is %s gets 400', async (_, body, message) => {
    for (const headers of [{}, chunked]) {
      const reply = await post(body, headers)
      expect(reply.status).toBe(400)
      expect(JSON.parse(reply.text)).toEqual({ error: expect.stringMatching(message), code: 'invalid' })
    }
  })

  it('brackets in strings do not count towards nesting depth', async () => {
    const reply = await post({ ...request, sessionCookie: `${'[{'.repeat(200)}\\"[` })
    expect(reply.status).toBe(200)
  })

  it('a body that is not UTF-8 gets 400', async () => {
    const reply = await post(Buffer.concat([Buffer.from('{"buildID":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]))
    expect(reply.status).toBe(400)
    expect(reply.text).toBe(
      '{"error":"body must be JSON in UTF-8, but holds bytes that are not UTF-8","code":"invalid"}',
    )
  })

  it('a client that disconnects while sending its body does not affect others', async () => {
    const connection = rawConnection(
      server.url,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"buil`,
    )
    await post(request)
    connection.socket.resetAndDestroy()
    await connection.closed()
    expect((await post(request)).status).toBe(200)
  })

  it('a body in many small chunks is read', async () => {
    const body = JSON.stringify(request)
    const connection = rawConnection(
      server.url,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    for (const char of body) {
      connection.socket.write(char)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await connection.until(/200 OK/)
    connection.socket.destroy()
  })

  it('a client that waits for 100 Continue gets it', async () => {
    const body = JSON.stringify(request)
    const connection = rawConnection(
      server.url,
      `POST ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
    )
    await connection.until(/100 Continue\r\n\r\n$/)
    connection.socket.write(body)
    await connection.until(/200 OK/)
    connection.socket.destroy()
  })

  it('a cross-origin request without a CORS preflight is rejected', async () => {
    const Origin = 'https://evil.example'
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', '']) {
      const reply = await post(request, { Origin, 'Content-Type': type })
      expect(reply.status).toBe(400)
      expect(JSON.parse(reply.text)).toEqual({
        error: expect.stringMatching(/^Content-Type must be application\/json/),
        code: 'invalid',
      })
    }
    expect((await post(request, { Origin, 'Content-Type': 'application/json; charset=utf-8' })).status).toBe(200)
  })
})

it('a deeply nested template is rejected', async () => {
  const never = () => Promise.reject(new Error('was called'))
  const app = managementRoutes(fleetOf(never))
  const body = `{"metadata":{"name":"a"},"spec":{"template":${'['.repeat(100)}${']'.repeat(100)}}}`
  expect((await app.fetch(new Request('http://a/api/v1/gameserverbuilds', { method: 'POST', body }))).status).toBe(400)
})
