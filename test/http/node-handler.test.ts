/** `nodeHandler` where hosts put it, and what it must leave alone. */
import type { IncomingMessage, RequestListener } from 'node:http'
import { Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { allocationRoutes, nodeHandler } from '../../src/http/index.js'
import type { AllocationRequest } from '../../src/index.js'
import { call, listening } from './client.js'
import { buildID, sessionID } from './fleet.js'

const request = { buildID, sessionID, sessionCookie: 'é' }
const echo = {
  allocate: ({ sessionID: SessionID, sessionCookie = '' }: AllocationRequest) =>
    Promise.resolve({ IPV4Address: '127.0.0.1', Ports: sessionCookie, SessionID }),
}
const answer = { IPV4Address: '127.0.0.1', Ports: 'é', SessionID: sessionID }

type Parser = (incoming: IncomingMessage, bytes: Buffer) => unknown

/** As Express does it: what is before the mount is taken from `url`, and a body parser may have read the body. */
function expressLike(handler: RequestListener, parse?: Parser): RequestListener {
  return (incoming, outgoing) => {
    const url = incoming.url ?? ''
    Object.assign(incoming, { originalUrl: url, baseUrl: '/fleet', url: url.slice('/fleet'.length) })
    if (parse === undefined) return handler(incoming, outgoing)
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      Object.assign(incoming, { body: parse(incoming, Buffer.concat(chunks)) })
      // A later middleware may have waited for something.
      setImmediate(() => handler(incoming, outgoing))
    })
  }
}

const parsers: Record<string, Parser | undefined> = {
  'without a body parser': undefined,
  'behind express.json()': (_, bytes) => JSON.parse(bytes.toString()),
  'behind express.text()': (_, bytes) => bytes.toString(),
  'behind express.raw()': (_, bytes) => bytes,
}

describe.each(Object.keys(parsers))('in Express %s', (name) => {
  it.each([
    ['own routes', allocationRoutes(echo)],
    ["a host's app around them", new Hono().route('/', allocationRoutes(echo))],
  ])('%s are answered below the mount', async (_, app) => {
    const server = await listening(expressLike(nodeHandler(app), parsers[name]))
    const reply = await call('POST', `${server.url}/fleet/api/v1/allocate?wait=1`, { body: request })
    const empty = await call('POST', `${server.url}/fleet/api/v1/nothing`, { body: request })
    await server.close()
    expect(reply.status).toBe(200)
    expect(JSON.parse(reply.text)).toEqual(answer)
    expect(empty.status).toBe(404)
  })

  it('a body over the limit is 413', async () => {
    const app = allocationRoutes(echo, { maxBodyBytes: 100 })
    const server = await listening(expressLike(nodeHandler(app), parsers[name]))
    const reply = await call('POST', `${server.url}/fleet/api/v1/allocate`, {
      body: { ...request, sessionCookie: 'x'.repeat(100) },
    })
    await server.close()
    expect(reply.status).toBe(413)
  })
})

describe('in Express', () => {
  it('a parser that left the body alone and put {} there is not believed', async () => {
    const handler = nodeHandler(allocationRoutes(echo))
    const server = await listening(
      expressLike((incoming, outgoing) => handler(Object.assign(incoming, { body: {} }), outgoing)),
    )
    const reply = await call('POST', `${server.url}/fleet/api/v1/allocate`, { body: request })
    await server.close()
    expect(reply.status).toBe(200)
  })

  it('a middleware that took the body and left nothing is named', async () => {
    const server = await listening(expressLike(nodeHandler(allocationRoutes(echo)), () => undefined))
    const reply = await call('POST', `${server.url}/fleet/api/v1/allocate`, { body: request })
    await server.close()
    expect(reply.status).toBe(500)
    expect(reply.text).toContain('a middleware before these routes has taken it')
  })
})

describe("a host's Hono app", () => {
  it('mounts the routes below a path, and its middleware may change the answers', async () => {
    const host = new Hono()
    host.use(async (c, next) => {
      await next()
      c.header('X-Host', 'seen')
    })
    host.get('/', (c) => c.text('host'))
    host.route('/fleet', allocationRoutes(echo))
    const server = await listening(nodeHandler(host))
    const url = `${server.url}/fleet/api/v1/allocate`
    const ok = await call('POST', url, { body: request })
    const slash = await call('POST', `${url}/`, { body: request })
    const wrong = await call('GET', url)
    const own = await call('GET', server.url)
    await server.close()
    expect(ok).toMatchObject({ status: 200, headers: { 'x-host': 'seen', 'content-type': 'application/json' } })
    expect(JSON.parse(ok.text)).toEqual(answer)
    expect(slash.status).toBe(200)
    expect(wrong).toMatchObject({ status: 405, headers: { allow: 'POST, OPTIONS', 'x-host': 'seen' } })
    expect(own.text).toBe('host')
  })
})

describe('web standard', () => {
  it('fetch takes a Request and gives a Response', async () => {
    const reply = await allocationRoutes(echo).fetch(
      new Request('http://a/api/v1/allocate', { method: 'POST', body: JSON.stringify(request) }),
    )
    expect(reply.status).toBe(200)
    expect(reply.headers.get('content-type')).toBe('application/json')
    expect(await reply.json()).toEqual(answer)
  })
})
