/** The routes in every supported framework, with and without its body parser. */
import 'reflect-metadata'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import express from 'express'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { mount } from 'hono/mount'
import Koa from 'koa'
import bodyParser from 'koa-bodyparser'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  fastifyPlugin,
  fleetRoutes,
  type FleetRoutesOptions,
  koaMiddleware,
  type Routes,
} from '../../src/http/index.js'
import { type AllocationRequest, FleetError } from '../../src/index.js'
import { callFake as call, rawConnection, until } from './client.js'
import { buildID, sessionID } from './fleet.js'

const request: AllocationRequest = { buildID, sessionID, sessionCookie: 'é日本😀' }
let waiting = 0

/** Echoes allocation requests. With `?wait=` it waits until it is aborted. */
const fleet = {
  allocate: async (input: AllocationRequest, { signal }: { readonly signal?: AbortSignal } = {}) => {
    if (signal === undefined) return { IPV4Address: '', Ports: input.sessionCookie ?? '', SessionID: input.sessionID }
    waiting++
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    throw new FleetError('aborted', 'the caller stopped waiting')
  },
  builds: {
    get: (ref: unknown) => Promise.reject(new FleetError('not-found', `no build ${JSON.stringify(ref)}`)),
  } as never,
  servers: {} as never,
  details: {} as never,
  async *events({ signal }: { readonly signal?: AbortSignal } = {}) {
    yield { type: 'BackendRecovered', seq: 7, at: 0, message: 'it is back' } as const
    await new Promise((resolve) => signal?.addEventListener('abort', resolve))
  },
}

interface Mounted {
  readonly origin: string
  /** Closes the framework's server. */
  close(): Promise<unknown>
}

type Mount = (routes: Routes, parses: boolean) => Promise<Mounted>

const onServer = (server: Server, routes: Routes): Mounted => ({
  origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  close: () => {
    routes.close()
    return new Promise((resolve) => server.close(resolve))
  },
})
const listen = (server: Server) =>
  new Promise<Server>((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))

class NestModule {
  readonly name = 'nest'
}
Module({})(NestModule)

const nest =
  (adapter: () => ExpressAdapter | FastifyAdapter): Mount =>
  async (routes, parses) => {
    const app = await NestFactory.create(NestModule, adapter(), { logger: false, bodyParser: parses })
    app.use((_: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
      response.setHeader('X-Host', 'seen')
      next()
    })
    app.use('/fleet', routes.nodeHandler)
    await app.listen(0, '127.0.0.1')
    const server: Server = app.getHttpServer()
    const { origin } = onServer(server, routes)
    return {
      origin,
      close: () => {
        routes.close()
        return app.close()
      },
    }
  }

const mounts: Readonly<Record<string, Mount>> = {
  async 'node:http'(routes) {
    const handle = routes.nodeHandler
    const server = createServer((incoming, outgoing) => {
      outgoing.setHeader('X-Host', 'seen')
      incoming.url = (incoming.url ?? '').replace(/^\/fleet/, '')
      handle(incoming, outgoing, () => outgoing.writeHead(404).end('not here'))
    })
    return onServer(await listen(server), routes)
  },
  async 'Express 5'(routes, parses) {
    const app = express()
    app.use((_, response, next) => {
      response.setHeader('X-Host', 'seen')
      next()
    })
    if (parses) app.use(express.json())
    app.use('/fleet', routes.nodeHandler)
    return onServer(await listen(createServer(app)), routes)
  },
  async 'Fastify 5'(routes, parses) {
    const app = Fastify()
    app.addHook('onRequest', async (_, reply) => {
      reply.header('X-Host', 'seen')
    })
    if (!parses) app.removeAllContentTypeParsers()
    await app.register(fastifyPlugin(routes), { prefix: '/fleet' })
    return { origin: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  async 'Koa 3'(routes, parses) {
    const app = new Koa()
    app.use((ctx, next) => {
      ctx.set('X-Host', 'seen')
      return next()
    })
    if (parses) app.use(bodyParser())
    app.use(koaMiddleware(routes, { prefix: '/fleet' }))
    app.silent = true
    const handle = app.callback()
    return onServer(await listen(createServer((incoming, outgoing) => void handle(incoming, outgoing))), routes)
  },
  async Hono(routes) {
    const app = new Hono()
    app.use(async (c, next) => {
      await next()
      c.header('X-Host', 'seen')
    })
    app.all('/fleet/*', mount(routes.fetch))
    const server = await new Promise<Server>((resolve) => {
      const made = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false }, () =>
        resolve(made as Server),
      )
    })
    return onServer(server, routes)
  },
  'NestJS on Express': nest(() => new ExpressAdapter()),
  'NestJS on Fastify': nest(() => new FastifyAdapter()),
}

// Hono has no body parsers that run before the handlers.
const cases = Object.keys(mounts).flatMap((name) =>
  (name === 'Hono' ? [false] : [true, false]).map((parses) => [name, parses] as const),
)

describe.each(cases)('in %s, body parser %s', (name, parses) => {
  async function mounted(options?: FleetRoutesOptions): Promise<Mounted & { readonly url: string }> {
    const routes = fleetRoutes(fleet, options)
    const mount = await mounts[name]?.(routes, parses)
    if (mount === undefined) throw new Error(`no mount: ${name}`)
    let closed: Promise<unknown> | undefined
    const close = () => (closed ??= mount.close())
    onTestFinished(async () => void (await close()))
    return { ...mount, close, url: `${mount.origin}/fleet/api/v1` }
  }

  it('requests below the mount path are handled, and pass through earlier middleware', async () => {
    const { url } = await mounted()
    const headers = { 'Content-Type': 'application/json' }
    const reply = await call('POST', `${url}/allocate`, { body: request, headers })
    expect(reply).toMatchObject({ status: 200, headers: { 'x-host': 'seen' } })
    expect(reply.headers['content-type']).toMatch(/^application\/json/)
    expect(JSON.parse(reply.text)).toMatchObject({ Ports: 'é日本😀' })
    const untyped = await call('POST', `${url}/allocate?wait=0`, { body: request })
    expect(untyped.status).toBe(200)
    // With a body parser before the routes, the app's error handler responds.
    expect((await call('POST', `${url}/allocate`, { body: '{', headers, validate: false })).status).toBe(400)
    const none = await call('GET', `${url}/gameserverbuilds/default/a%20b/`)
    expect(none).toMatchObject({ status: 404, headers: { 'gamekeeper-error': 'not-found', 'x-host': 'seen' } })
    expect(none.text).toContain('a b')
    expect(await call('PUT', `${url}/allocate`, { body: 'x' })).toMatchObject({ status: 405 })
    expect((await call('GET', `${url.replace('/api/v1', '')}/openapi.json`)).text).toContain('"openapi":"3.1.0"')
  })

  it("callers of Agones' allocator are answered in its format", async () => {
    const { origin } = await mounted({ compat: 'agones' })
    const headers = { 'Content-Type': 'application/json' }
    const body = { gameServerSelectors: [{ matchLabels: { 'agones.dev/fleet': 'arena' } }] }
    const reply = await call('POST', `${origin}/fleet/gameserverallocation`, { body, headers })
    expect([reply.status, JSON.parse(reply.text)]).toEqual([429, { code: 8, message: expect.any(String), details: [] }])
  })

  it('authorize gets the path relative to the mount', async () => {
    const seen: string[] = []
    const { url } = await mounted({ authorize: ({ path }) => seen.push(path) < 0 })
    for (const path of ['/gameservers', '/gameservers/', '/gameservers/default/arena-1?a=b', '/events']) {
      expect((await call('GET', url + path)).status).toBe(403)
    }
    expect(seen).toEqual(
      ['gameservers', 'gameservers/', 'gameservers/default/arena-1', 'events'].map((path) => `/api/v1/${path}`),
    )
  })

  it('HEAD returns the same content type as GET', async () => {
    const { url } = await mounted()
    const head = await call('HEAD', `${url}/events`)
    expect(head).toMatchObject({ status: 200, text: '', headers: { 'content-type': 'text/event-stream' } })
    expect((await call('OPTIONS', `${url}/events`)).status).toBe(204)
  })

  it('the app handles all other paths', async () => {
    const { origin, url } = await mounted()
    for (const path of [`${url}/nothing`, `${origin}/nothing`, `${origin}/fleetx/api/v1/allocate`]) {
      const reply = await call('GET', path)
      expect(reply.status).toBe(404)
      // In Hono, the mounted handler gets every path below the mount.
      const isMounted = name === 'Hono' && path.startsWith(url)
      expect(reply.text.includes('nothing is served at')).toBe(isMounted)
    }
  })

  it('events are streamed, and closing ends both streams and waiting calls', async () => {
    const { url, close } = await mounted()
    const path = url.slice(new URL(url).origin.length)
    const head = 'HTTP/1.1\r\nHost: localhost\r\n'
    const events = rawConnection(url, `GET ${path}/events ${head}\r\n`)
    expect(await events.until(/it is back/)).toMatch(/x-host: seen/i)
    const before = waiting
    const body = JSON.stringify({ buildID, sessionID })
    const length = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const waiter = rawConnection(url, `POST ${path}/allocate?wait=60 ${head}${length}`)
    await until(() => waiting > before)
    const closed = close()
    expect(await waiter.until(/is closing/)).toMatch(/^HTTP\/1\.1 503 /)
    for (const { socket } of [waiter, events]) socket.end()
    await closed
  })
})

it('koaMiddleware rejects a prefix without a leading slash', () => {
  expect(() => koaMiddleware(fleetRoutes(fleet), { prefix: 'fleet' })).toThrow(/^koaMiddleware: prefix must begin/)
})
