/** The dashboard's files over HTTP: their headers, where they are, and what needs authorization. */
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import express from 'express'
import Fastify from 'fastify'
import Koa from 'koa'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { dashboardPage, dashboardRoutes } from '../../src/dashboard/index.js'
import { pageFileNames, readPageFile } from '../../src/dashboard/page-files.js'
import { bearerTokens, fastifyPlugin, koaMiddleware, serve } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { memoryFleet } from '../http/fleet.js'

const reader = 'a-token-that-reads-only'
const matchmaker = 'a-token-that-allocates'
const authorize = bearerTokens([
  { token: reader, roles: ['read'] },
  { token: matchmaker, roles: ['allocate', 'manage'] },
])

async function openFleet(): Promise<Fleet> {
  const fleet = await memoryFleet()
  onTestFinished(() => fleet.close())
  return fleet
}

async function served(options: Partial<Parameters<typeof serve>[0]> = {}): Promise<string> {
  const ports = { allocation: { port: 0 }, management: { port: 0 } }
  const all = await serve({ fleet: await openFleet(), ...ports, dashboard: dashboardPage(), ...options })
  onTestFinished(() => all.close())
  return all.managementUrl
}

interface RawAnswer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** Unlike `fetch`, leaves the body as it was sent. */
async function raw(url: string, headers: Readonly<Record<string, string>>): Promise<RawAnswer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { headers }, resolve).once('error', reject)
  })
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part)
  return { status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }
}

describe('the dashboard', () => {
  it('is at the root of the management API, with a policy that allows only its own files', async () => {
    const url = await served()
    for (const [path, type] of [
      ['/', 'text/html; charset=utf-8'],
      ['/dashboard/app.js', 'text/javascript; charset=utf-8'],
      ['/dashboard/app.css', 'text/css; charset=utf-8'],
      ['/dashboard/icon.svg', 'image/svg+xml'],
      ['/dashboard/licences.txt', 'text/plain; charset=utf-8'],
    ] as const) {
      const response = await fetch(`${url}${path}`)
      expect([path, response.status, response.headers.get('content-type')]).toEqual([path, 200, type])
      expect(response.headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
      )
      expect(response.headers.get('x-content-type-options')).toBe('nosniff')
      const etag = response.headers.get('etag') ?? ''
      expect((await fetch(`${url}${path}`, { headers: { 'If-None-Match': etag } })).status).toBe(304)
    }
  })

  it('has nothing inline, and is less than 120 KB compressed', async () => {
    const files = await Promise.all(pageFileNames.map((name) => readPageFile(name)))
    const html = files[0]?.content.toString() ?? ''
    expect(html).toContain('<script type="module" src="dashboard/app.js"></script>')
    expect(html).not.toMatch(/<style|style=|<script[^>]*>[^<]|\son\w+=/)
    const bytes = files.reduce((sum, { content, encoded }) => sum + (encoded.gzip ?? { content }).content.byteLength, 0)
    expect(bytes).toBeLessThan(120_000)
  })

  it('is sent compressed to callers that accept it, and each form has an ETag of its own', async () => {
    const url = `${await served()}/dashboard/app.js`
    const plain = await raw(url, {})
    const br = await raw(url, { 'Accept-Encoding': 'gzip, deflate, br, zstd' })
    const gzip = await raw(url, { 'Accept-Encoding': 'gzip, br;q=0' })
    expect([plain, br, gzip].map(({ headers }) => headers['content-encoding'])).toEqual([undefined, 'br', 'gzip'])
    expect(brotliDecompressSync(br.body).equals(plain.body)).toBe(true)
    expect(gunzipSync(gzip.body).equals(plain.body)).toBe(true)
    expect(br.body.byteLength).toBeLessThan(plain.body.byteLength / 2)
    for (const { headers, body } of [plain, br, gzip]) {
      expect([headers['vary'], headers['content-length']]).toEqual(['Accept-Encoding', String(body.byteLength)])
    }
    const etags = [plain, br, gzip].map(({ headers }) => headers.etag ?? '')
    expect(new Set(etags).size).toBe(3)
    const again = await raw(url, { 'Accept-Encoding': 'br', 'If-None-Match': `"other", W/${etags[1]}` })
    expect([again.status, again.headers.etag, again.headers['vary']]).toEqual([304, etags[1], 'Accept-Encoding'])
    const other = await raw(url, { 'Accept-Encoding': 'gzip', 'If-None-Match': etags[1] ?? '' })
    expect(other.status).toBe(200)
    const none = await raw(url, { 'Accept-Encoding': 'identity;q=0.5, *;q=0' })
    expect(none.headers['content-encoding']).toBeUndefined()
  })

  it('needs no authorization for its files, and says what the caller may do', async () => {
    const url = await served({ authorize })
    const rights = async (token: string) => {
      const response = await fetch(`${url}/dashboard/rights`, { headers: { Authorization: `Bearer ${token}` } })
      const body: { readonly operations: readonly string[] } = JSON.parse(await response.text())
      return body.operations
    }
    expect((await fetch(`${url}/`)).status).toBe(200)
    expect((await fetch(`${url}/dashboard/rights`)).status).toBe(401)
    expect(await rights(reader)).toContain('listBuilds')
    expect(await rights(reader)).not.toContain('deleteBuild')
    expect(await rights(reader)).not.toContain('allocate')
    expect(await rights(matchmaker)).toEqual(expect.arrayContaining(['deleteBuild', 'allocate', 'listBuilds']))
  })

  it('lets the management API answer allocations, for callers with the role', async () => {
    const url = await served({ authorize })
    const allocate = async (token: string) =>
      (
        await fetch(`${url}/api/v1/allocate`, {
          method: 'POST',
          headers: { Authorization: `Bearer ${token}` },
          body: JSON.stringify({ buildID: 'none', sessionID: 'one' }),
        })
      ).status
    expect(await allocate(reader)).toBe(403)
    expect(await allocate(matchmaker)).toBe(404)
  })

  it('is absent without the option, and with another format', async () => {
    for (const options of [{ dashboard: undefined }, { compat: 'thundernetes' } as const]) {
      const fleet = await openFleet()
      const both = { fleet, allocation: { port: 0 }, management: { port: 0 } }
      const all = await serve('compat' in options ? { ...both, ...options, dashboard: dashboardPage() } : both)
      onTestFinished(() => all.close())
      expect((await fetch(`${all.managementUrl}/`)).status).toBe(404)
      expect((await fetch(`${all.managementUrl}/api/v1/allocate`, { method: 'POST' })).status).toBe(404)
    }
  })
})

describe('dashboardRoutes', () => {
  it('works under a prefix in Express, and redirects to the address with a slash at its end', async () => {
    const app = express()
    app.use('/ops/fleet', dashboardRoutes(await openFleet()).nodeHandler)
    const server = app.listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('not listening')
    const url = `http://127.0.0.1:${address.port}/ops/fleet`
    const moved = await fetch(`${url}?x`, { redirect: 'manual' })
    expect([moved.status, moved.headers.get('location')]).toEqual([308, './fleet/'])
    expect((await fetch(`${url}/`)).headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect((await fetch(`${url}/dashboard/app.js`)).status).toBe(200)
    expect(await (await fetch(`${url}/api/v1/gameserverbuilds`)).json()).toEqual([])
  })

  it('works under a prefix in Fastify', async () => {
    const app = Fastify()
    await app.register(fastifyPlugin(dashboardRoutes(await openFleet())), { prefix: '/fleet' })
    onTestFinished(() => app.close())
    const page = await app.inject('/fleet/')
    expect([page.statusCode, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
    const script = await app.inject({ url: '/fleet/dashboard/app.js', headers: { 'accept-encoding': 'br' } })
    expect(brotliDecompressSync(script.rawPayload).toString()).toContain('gamekeeper')
  })

  it('fails nothing after a request that Fastify has injected, which has no connection to cut', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const app = Fastify()
    await app.register(fastifyPlugin(dashboardRoutes(await openFleet())))
    onTestFinished(() => app.close())
    expect((await app.inject('/')).statusCode).toBe(200)
    expect(() => vi.advanceTimersByTime(60_000)).not.toThrow()
  })

  it('works under a prefix in Koa, and with web-standard requests', async () => {
    const routes = dashboardRoutes(await openFleet())
    const koa = new Koa()
    koa.use(koaMiddleware(routes, { prefix: '/fleet' }))
    const server = koa.listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('not listening')
    const script = await raw(`http://127.0.0.1:${address.port}/fleet/dashboard/app.js`, { 'Accept-Encoding': 'br' })
    expect(brotliDecompressSync(script.body).toString()).toContain('gamekeeper')
    const request = new Request('http://localhost/dashboard/app.js', { headers: { 'accept-encoding': 'br' } })
    const answer = await routes.fetch(request)
    expect(
      brotliDecompressSync(Buffer.from(await answer.arrayBuffer())).equals(brotliDecompressSync(script.body)),
    ).toBe(true)
  })

  it('rejects options of another format', async () => {
    const fleet = await openFleet()
    const options: object = { compat: 'thundernetes' }
    expect(() => dashboardRoutes(fleet, options)).toThrow('dashboardRoutes: unknown option compat')
  })
})
