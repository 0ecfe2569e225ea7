/** `serve`: starts all its listeners or none, and closes them. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serve, type Served } from '../../src/http/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { call, rawConnection, until } from './client.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'
import { validator } from './validated.js'

let fleet: Fleet
let served: Served | undefined

const free = { port: 0 }
const request = { buildID, sessionID }

beforeEach(async () => {
  fleet = await memoryFleet()
  served = undefined
})

afterEach(async () => {
  await served?.close()
  await fleet.close()
})

describe('serve', () => {
  it('serves both APIs, each on its own address', async () => {
    served = await serve({ fleet, allocation: free, management: free })
    expect(served.allocationUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(served.managementUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(served.agentAddress).toBe(fleet.agentAddress)
    const created = await call('POST', `${served.managementUrl}/api/v1/gameserverbuilds/`, { body: build() })
    expect(created.status).toBe(200)
    await standingBy(fleet, 2)
    const allocated = await call('POST', `${served.allocationUrl}/api/v1/allocate`, { body: request })
    expect(allocated).toMatchObject({ status: 200, text: expect.stringContaining(sessionID) })
    const elsewhere = await call('POST', `${served.managementUrl}/api/v1/allocate`, { body: request })
    expect(elsewhere.status).toBe(404)
  })

  it('serves probes and metrics on a port of their own, to callers without a token', async () => {
    const metrics = { contentType: 'text/plain', text: () => Promise.resolve('gamekeeper_up 1\n') }
    const authorize = () => false
    served = await serve({ fleet, ...{ allocation: free, management: free, health: free, metrics, authorize } })
    const { healthUrl = '', managementUrl } = served
    expect(healthUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(await call('GET', `${healthUrl}/healthz`)).toMatchObject({ status: 200, text: '{"status":"ok"}' })
    expect(await call('GET', `${healthUrl}/readyz`)).toMatchObject({ status: 200 })
    expect(await call('GET', `${healthUrl}/metrics`)).toMatchObject({ status: 200, text: 'gamekeeper_up 1\n' })
    expect((await call('GET', `${managementUrl}/metrics`)).status).toBe(403)
    expect((await call('GET', `${healthUrl}/api/v1/gameserverbuilds`)).status).toBe(404)
    await served.close()
    await expect(call('GET', `${healthUrl}/healthz`)).rejects.toThrow()
  })

  it('applies compat and allowedOrigins', async () => {
    const origin = 'https://console.example'
    served = await serve({
      fleet,
      ...{ allocation: free, management: free, compat: 'thundernetes', allowedOrigins: [origin] },
    })
    const validate = validator({ compat: 'thundernetes' })
    const { managementUrl, allocationUrl } = served
    const headers = { Origin: origin, 'Content-Type': 'application/json' }
    const created = await call('POST', `${managementUrl}/api/v1/gameserverbuilds`, { body: build(), headers, validate })
    expect(created).toMatchObject({ status: 201, headers: { 'access-control-allow-origin': origin } })
    expect((await call('GET', `${managementUrl}/openapi.json`)).text).toContain('GameServerBuildList')
    await standingBy(fleet, 2)
    const allocated = await call('POST', `${allocationUrl}/api/v1/allocate`, { body: request, headers })
    expect(allocated).toMatchObject({ status: 200, headers: { 'access-control-allow-origin': origin } })
    const preflight = await call('OPTIONS', `${allocationUrl}/api/v1/allocate`, { headers: { Origin: origin } })
    expect(preflight.headers).toMatchObject({ 'access-control-allow-methods': 'POST' })
  })

  it('returns a loopback URL when it listens on all interfaces', async () => {
    served = await serve({
      fleet,
      allocation: { host: '0.0.0.0', port: 0 },
      management: { host: 'localhost', port: 0 },
      insecure: true,
    })
    expect(served.allocationUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await call('GET', `${served.managementUrl}/api/v1/gameservers/`)).status).toBe(200)
  })
})

describe('DNS rebinding', () => {
  const ask = (url: string, method: string, Host: string | undefined) => {
    const path = method === 'POST' ? '/api/v1/gameserverbuilds' : '/api/v1/gameserverbuilds/default/arena'
    const headers = {
      ...(Host !== undefined && { Host, Origin: `http://${Host}` }),
      'Content-Type': 'application/json',
    }
    return call(method, url + path, { headers, body: method === 'POST' ? build() : undefined })
  }

  it.each(['POST', 'GET', 'PATCH', 'DELETE'])('is blocked on loopback without authentication: %s', async (method) => {
    served = await serve({ fleet, allocation: free, management: free, allowedHosts: ['fleet.example'] })
    for (const host of ['evil.example', 'evil.example:5001', 'localhost.evil.example', '127.0.0.1.evil.example']) {
      const { status, headers, text } = await ask(served.managementUrl, method, host)
      expect(status).toBe(403)
      expect(headers['gamekeeper-error']).toBe('forbidden')
      expect(text).toContain('allowedHosts')
    }
    expect(await fleet.builds.list()).toEqual([])
    const evil = { Host: 'evil.example' }
    const allocate = { headers: evil, body: request }
    expect((await call('POST', `${served.allocationUrl}/api/v1/allocate`, allocate)).status).toBe(403)
    // Probes are public for every host name.
    expect((await call('GET', `${served.managementUrl}/healthz`, { headers: evil })).status).toBe(200)
  })

  it.each([undefined, 'localhost', 'LOCALHOST:80', 'a.localhost', '127.0.0.1:5001', '[::1]:5001', 'fleet.example:80'])(
    'is not suspected for the host name %s',
    async (host) => {
      served = await serve({ fleet, allocation: free, management: free, allowedHosts: ['Fleet.example'] })
      expect((await ask(served.managementUrl, 'POST', host)).status).toBe(200)
    },
  )

  it('is left to the authorize hook if one is set', async () => {
    served = await serve({ fleet, allocation: free, management: free, authorize: () => true })
    expect((await ask(served.managementUrl, 'POST', 'fleet.example')).status).toBe(200)
  })
})

describe('when serve cannot listen, it', () => {
  const occupied = async (port = 0): Promise<Server> => {
    const server = createServer()
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
    return server
  }
  const portOf = (server: Server) => (server.address() as AddressInfo).port
  const closed = (server: Server) => new Promise((resolve) => server.close(resolve))

  it.each(['management', 'health'])('releases the allocation port if the port of %s is in use', async (name) => {
    const other = await occupied()
    const probe = await occupied()
    const port = portOf(probe)
    await closed(probe)
    const options = { fleet, allocation: { port }, management: free, [name]: { port: portOf(other) } }
    await expect(serve(options)).rejects.toMatchObject({
      name: 'FleetError',
      code: 'port-in-use',
      message: `port ${portOf(other)} on 127.0.0.1 is in use by another program; choose another with ${name}: { port }, or 0 for a free one`,
    })
    await closed(await occupied(port))
    await closed(other)
  })

  it('suggests the AirPlay receiver as the cause for port 5000', async () => {
    // The port is in use by this test or by another program.
    const other = await occupied(5_000).catch(() => undefined)
    await expect(serve({ fleet, management: free })).rejects.toMatchObject({
      code: 'port-in-use',
      message: expect.stringContaining(
        'port 5000 on 127.0.0.1 is in use by another program (on macOS usually the AirPlay receiver); choose another with allocation: { port }',
      ),
    })
    if (other) await closed(other)
  })

  it.each([
    [
      { allocation: { host: '192.0.2.1', port: 0 } },
      '192.0.2.1 is not an address of this machine; set allocation: { host }',
    ],
    [
      { management: { host: 'no.such.host.invalid', port: 0 } },
      'no.such.host.invalid is not an address of this machine; set management: { host }',
    ],
    [{ management: { port: 65_536 } }, 'management.port must be an integer from 0 to 65535, but is 65536'],
    [{ allocation: { port: 1.5 } }, 'allocation.port must be an integer from 0 to 65535, but is 1.5'],
    [{ allocation: { host: '', port: 0 } }, 'allocation.host must not be empty'],
  ])('rejects %j', async (where, message) => {
    const attempt = serve({ fleet, allocation: free, management: free, insecure: true, ...where })
    await expect(attempt).rejects.toMatchObject({ code: 'invalid', message })
  })
})

describe('closing', () => {
  it('sends waiting callers 503, finishes requests in flight, and closes idle connections', async () => {
    const held = holding(fleet)
    served = await serve({ fleet: held, allocation: free, management: free })
    await fleet.builds.create(build({ standingBy: 0, max: 0 }))
    const body = JSON.stringify(request)
    const head = `POST /api/v1/allocate HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n`
    const idle = rawConnection(served.allocationUrl, head + body)
    await idle.until(/ 429 [^]*}$/)
    const waiting = call('POST', `${served.allocationUrl}/api/v1/allocate?wait=60`, { body: request })
    const listing = call('GET', `${served.managementUrl}/api/v1/gameserverbuilds/`)
    await until(() => held.allocating === 1 && held.listing === 1)

    const closing = served.close()
    expect(await waiting).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    // The connection closes now. If connections were only cut at the end, the call in flight would be lost as well.
    await idle.closed()
    await expect(call('GET', served.managementUrl)).rejects.toThrow(/ECONNREFUSED/)
    held.release()
    expect((await listing).status).toBe(200)
    await closing
    await served.close()
  })
})

/** The fleet, with a list of builds that blocks until `release`. Counts calls in flight. */
function holding(real: Fleet) {
  let release = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  const held = {
    ...real,
    allocating: 0,
    listing: 0,
    release,
    builds: {
      ...real.builds,
      async list() {
        held.listing++
        await released
        return real.builds.list()
      },
    },
    async allocate(...args: Parameters<Fleet['allocate']>) {
      held.allocating++
      try {
        return await real.allocate(...args)
      } finally {
        held.allocating--
      }
    },
  }
  return held
}
