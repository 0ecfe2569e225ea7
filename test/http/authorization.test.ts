/** Access control: the `authorize` hook, bearer tokens with roles, and the per-client rate limit. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { clientNetwork } from '../../src/http/access/per-client-rate-limit.js'
import {
  agentListener,
  allocationRoutes,
  type Authorize,
  bearerTokens,
  fleetRoutes,
  operations,
  perClientRateLimit,
  type Role,
  roles,
} from '../../src/http/index.js'
import { FleetError } from '../../src/index.js'
import { virtualClock } from '../../src/testing/index.js'
import { targetOf } from '../agent/target.js'
import { callFake as call, type Listener, listening } from './client.js'
import { entryPoints } from './entry-points.js'
import { build, buildID, fleetOf, sessionID } from './fleet.js'

const token = (name: string) => `${name}-${'x'.repeat(20)}`
const bearer = (name: string) => ({ headers: { Authorization: `Bearer ${token(name)}` } })
const answer = () => Promise.resolve({ done: true } as never)
const listed = { ...build(), metadata: { name: 'arena', namespace: 'default' } } as never
const fleet = {
  ...fleetOf(answer),
  builds: { ...fleetOf(answer).builds, list: () => Promise.resolve([listed]) },
  allocate: answer,
  drain: answer,
  explain: answer,
  stats: () => ({ done: true }) as never,
  problems: () => ({ done: true }) as never,
  activity: answer,
  health: answer,
  sessions: {
    ...{ get: answer, ended: answer, list: answer, ofPlayer: answer, end: answer },
    ...{ reserveSeats: answer, releaseSeats: answer, withRoom: answer, join: answer },
  },
}

const one = '/api/v1/gameserverbuilds/default/arena'
const server = '/api/v1/gameservers/default/arena-x7k2p'
const maintenance = { at: '2026-01-02T03:04:05Z' }
/** A request for every operation. */
const requests = {
  allocate: ['POST', '/api/v1/allocate', { buildID, sessionID }],
  allocateAsAgones: ['POST', '/gameserverallocation', {}],
  listBuilds: ['GET', '/api/v1/gameserverbuilds'],
  createBuild: ['POST', '/api/v1/gameserverbuilds', build()],
  getBuild: ['GET', one],
  patchBuild: ['PATCH', one, { max: 3 }],
  applyBuild: ['PUT', one, build()],
  updateBuild: ['PATCH', `${one}/spec`, { max: 3 }],
  readDemand: ['GET', `${one}/demand`],
  drainBuild: ['POST', `${one}/drain`],
  resumeBuild: ['POST', `${one}/resume`],
  deleteBuild: ['DELETE', one],
  listServers: ['GET', '/api/v1/gameservers'],
  listServersOfBuild: ['GET', `${one}/gameservers`],
  getServer: ['GET', server],
  updateServer: ['PATCH', server, { labels: { map: 'dust' } }],
  deleteServer: ['DELETE', server],
  listSessions: ['GET', '/api/v1/sessions'],
  listSessionsOfBuild: ['GET', `${one}/sessions`],
  getSession: ['GET', `/api/v1/sessions/${sessionID}`],
  getSessionOfPlayer: ['GET', '/api/v1/players/amie/session'],
  endSession: ['DELETE', `/api/v1/sessions/${sessionID}`],
  reserveSeats: ['POST', `/api/v1/sessions/${sessionID}/seats`, { players: ['amie'] }],
  releaseSeats: ['POST', `/api/v1/sessions/${sessionID}/seats/release`, { players: ['amie'] }],
  findSessionsWithRoom: ['POST', '/api/v1/sessions-with-room', { buildID }],
  joinSession: ['POST', '/api/v1/join', { buildID, players: ['amie'] }],
  drainServer: ['POST', `${server}/drain`, { active: 'terminate', deadlineMs: 0 }],
  readLogs: ['GET', `${server}/logs?follow&tail=3`],
  writeStdin: ['POST', `${server}/stdin`, { line: 'say hello' }],
  readUsage: ['GET', `${server}/usage`],
  explainServer: ['GET', `${server}/history`],
  reserveServer: ['POST', `${server}/reservation`, { forMs: 60_000 }],
  releaseServer: ['DELETE', `${server}/reservation`],
  announceServerMaintenance: ['POST', `${server}/maintenance`, maintenance],
  withdrawServerMaintenance: ['DELETE', `${server}/maintenance`],
  drainFleet: ['POST', '/api/v1/drain', {}],
  readStats: ['GET', '/api/v1/stats'],
  readActivity: ['GET', '/api/v1/activity'],
  readBuildActivity: ['GET', `${one}/activity`],
  readProblems: ['GET', '/api/v1/problems'],
  readHealth: ['GET', '/api/v1/health'],
  announceNodeMaintenance: ['POST', '/api/v1/nodes/node-1/maintenance', maintenance],
  withdrawNodeMaintenance: ['DELETE', '/api/v1/nodes/node-1/maintenance'],
  getBuildDetail: ['GET', `${one}/gameserverdetails`],
  getServerDetail: ['GET', '/api/v1/gameserverdetails/default/arena-x7k2p'],
} as const satisfies Readonly<Record<string, readonly [string, string, object?]>>
const rows = Object.entries(requests).map(([name, [method, path, body]]) => ({ name, method, path, body }))

let listeners: Listener[] = []
beforeEach(() => {
  listeners = []
})
afterEach(() => Promise.all(listeners.map((listener) => listener.close())))

/** Serves the routes through both entry points; returns their URLs. */
async function served(options: object): Promise<readonly string[]> {
  const opened = await Promise.all(
    entryPoints.map(({ open }) => open(fleetRoutes(fleet, { compat: 'agones', ...options }))),
  )
  listeners.push(...opened)
  return opened.map(({ url }) => url)
}

describe('the authorize hook', () => {
  it.each(rows)('is called for $name', async ({ name, method, path, body }) => {
    const asked: unknown[] = []
    const authorize: Authorize = (request, operation) => {
      const { remoteAddress } = request
      asked.push([operation, request.method, request.path, request.header('x-who'), remoteAddress])
      expect(request.clientCertificate()).toBeUndefined()
      return true
    }
    for (const url of await served({ authorize })) {
      expect((await call(method, url + path, { body, headers: { 'X-Who': 'me' } })).status).toBe(200)
      const role = operations[name as keyof typeof operations].role
      expect(asked.pop()).toEqual([{ name, role }, method, path.split('?')[0], 'me', '127.0.0.1'])
    }
    expect(asked).toEqual([])
  })

  it.each([
    ['returns false', () => false, 403],
    ['resolves with false', () => Promise.resolve(false), 403],
    ['returns undefined', () => undefined, 403],
    ['returns another value', () => ({}), 403],
    ['throws unauthenticated', () => Promise.reject(new FleetError('unauthenticated', 'who are you?')), 401],
    [
      'throws',
      () => {
        throw new Error('secret')
      },
      500,
    ],
    ['rejects', () => Promise.reject(new FleetError('unavailable', 'secret')), 500],
  ])('prevents the operation if it %s', async (_, verdict, status) => {
    let done = 0
    const counting = { ...fleet, allocate: () => Promise.resolve(++done as never) }
    const errors: unknown[] = []
    const nothing = () => {}
    const logger = { debug: nothing, info: nothing, warn: nothing, error: (fields: object) => errors.push(fields) }
    const options = { authorize: verdict as unknown as Authorize, logger }
    const host = await listening(allocationRoutes(counting, options).nodeHandler)
    listeners.push(host)
    const reply = await call('POST', `${host.url}/api/v1/allocate`, { body: { buildID, sessionID } })
    expect(reply.status).toBe(status)
    expect(reply.headers['www-authenticate']).toBe(status === 401 ? 'Bearer' : undefined)
    expect(reply.text).not.toContain('secret')
    expect(errors).toHaveLength(status === 500 ? 1 : 0)
    expect(done).toBe(0)
  })

  it('is called before the body is read', async () => {
    for (const url of await served({ authorize: () => false })) {
      expect((await call('POST', `${url}/api/v1/gameserverbuilds`, { body: 'no JSON' })).status).toBe(403)
    }
  })

  it('is called for HEAD as for GET, but not for OPTIONS, 405, or 404', async () => {
    for (const url of await served({ authorize: () => false })) {
      expect((await call('HEAD', `${url}${one}`)).status).toBe(403)
      expect((await call('OPTIONS', `${url}${one}`)).status).toBe(204)
      expect((await call('POST', `${url}${one}`)).status).toBe(405)
      expect((await call('GET', `${url}/nothing`)).status).toBe(404)
    }
  })

  it('can allow or reject heartbeats to the agent', async () => {
    let verdict: () => boolean | Promise<boolean> = () => true
    const asked: string[] = []
    const host = await listening(
      agentListener(targetOf({}), {
        authorize(request, operation) {
          asked.push(`${operation} ${request.socket.remoteAddress}`)
          return verdict()
        },
      }),
    )
    listeners.push(host)
    const body = { CurrentGameState: 'StandingBy' }
    const beat = async () => (await call('PATCH', `${host.url}/v1/sessionHosts/a`, { body })).status
    expect(await beat()).toBe(200)
    verdict = () => Promise.resolve(false)
    expect(await beat()).toBe(403)
    verdict = () => Promise.reject(new Error('away'))
    expect(await beat()).toBe(403)
    expect((await call('POST', `${host.url}/v1/metrics/a/gsdkinfo`)).status).toBe(403)
    expect((await call('GET', `${host.url}/elsewhere`)).status).toBe(404)
    expect(asked).toEqual([...Array.from({ length: 3 }, () => 'heartbeat 127.0.0.1'), 'gsdkInfo 127.0.0.1'])
  })
})

describe('bearer tokens', () => {
  const authorize = bearerTokens([
    ...roles.map((role) => ({ token: token(role), roles: [role] })),
    { token: token('both'), roles: ['allocate', 'read'] },
  ])
  const may: Readonly<Record<string, readonly Role[]>> = {
    allocate: ['allocate'],
    read: ['read'],
    manage: ['manage', 'read'],
    both: ['allocate', 'read'],
  }

  it.each(rows)('allow $name for its role only', async ({ name, method, path, body }) => {
    const role = operations[name as keyof typeof operations].role
    for (const url of await served({ authorize })) {
      for (const [who, known] of Object.entries(may)) {
        const { status } = await call(method, url + path, { body, ...bearer(who) })
        expect([who, status]).toEqual([who, known.includes(role) ? 200 : 403])
      }
    }
  })

  it.each([
    ['none', {}],
    ['an unknown one', bearer('other')],
    ['a part of one', { headers: { Authorization: `Bearer ${token('read').slice(0, -1)}` } }],
    ['one with more behind it', { headers: { Authorization: `Bearer ${token('read')}x` } }],
    ['two', { headers: { Authorization: `Bearer ${token('read')} ${token('read')}` } }],
    ['another scheme', { headers: { Authorization: `Basic ${token('read')}` } }],
    ['no scheme', { headers: { Authorization: token('read') } }],
    ['an empty one', { headers: { Authorization: 'Bearer ' } }],
  ])('get 401 for a request with %s', async (_, options) => {
    for (const url of await served({ authorize })) {
      const reply = await call('GET', `${url}/api/v1/gameservers`, options)
      expect(reply).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer' } })
      expect(reply.text).not.toContain('xxx')
    }
  })

  it('accept the scheme in any case', async () => {
    for (const url of await served({ authorize })) {
      const headers = { Authorization: `bearer ${token('read')}` }
      expect((await call('GET', `${url}/api/v1/gameservers`, { headers })).status).toBe(200)
    }
  })

  it.each([
    [[], 'bearerTokens needs at least one token'],
    [[{ token: 'short', roles: ['read'] }], 'tokens[0].token must have at least 16 characters'],
    [
      [{ token: `${'x'.repeat(20)} y`, roles: ['read'] }],
      'tokens[0].token may contain only letters, digits and -._~+/=',
    ],
    [[{ token: token('a'), roles: [] }], 'tokens[0].roles must list one or more of allocate, read, manage'],
    [[{ token: token('a'), roles: ['admin'] }], 'tokens[0].roles must list one or more of allocate, read, manage'],
  ])('refuse %j', (tokens, message) => {
    expect(() => bearerTokens(tokens as never)).toThrow(expect.objectContaining({ code: 'invalid', message }))
  })
})

describe('perClientRateLimit', () => {
  const who = (name: string) => ({ headers: { 'X-Who': name } })
  const callerOf = (request: { header(name: string): string | undefined }) => request.header('x-who') ?? ''

  it('returns 429 with Retry-After only to clients over their limit', async () => {
    const clock = virtualClock()
    const rateLimit = perClientRateLimit({ perSecond: 0.25, burst: 2, callerOf, clock })
    const [url = ''] = await served({ rateLimit })
    const ask = async (name: string) => {
      const { status, headers } = await call('GET', `${url}/api/v1/gameservers`, who(name))
      return `${status} ${String(headers['retry-after'] ?? '')}`.trim()
    }
    expect(await ask('a')).toBe('200')
    expect(await ask('a')).toBe('200')
    expect(await ask('a')).toBe('429 4')
    expect(await ask('b')).toBe('200')
    await clock.advance(3_000)
    expect(await ask('a')).toBe('429 1')
    await clock.advance(1_000)
    expect(await ask('a')).toBe('200')
    expect(await ask('a')).toBe('429 4')
  })

  it('counts each valid token of an address separately, and all other requests of the address together', () => {
    const limit = perClientRateLimit({
      ...{ perSecond: 0.001, burst: 1, clock: virtualClock() },
      tokens: [{ token: token('one') }, { token: token('two') }],
    })
    const ask = (remoteAddress: string, authorization?: string) =>
      limit({ remoteAddress, header: () => authorization } as never, { name: 'getBuild', role: 'read' }) ?? 'allowed'
    const first = '192.0.2.1'
    expect(ask(first)).toBe('allowed')
    expect(ask(first)).toBeGreaterThan(0)
    expect(ask(first, `Bearer ${token('a guess')}`)).toBeGreaterThan(0)
    expect(ask(first, `Bearer ${token('another guess')}`)).toBeGreaterThan(0)
    expect(ask(first, `Bearer ${token('one')}`)).toBe('allowed')
    expect(ask(first, `Bearer ${token('one')}`)).toBeGreaterThan(0)
    expect(ask(first, `bearer  ${token('two')}`)).toBe('allowed')
    expect(ask('192.0.2.2', `Bearer ${token('one')}`)).toBe('allowed')
  })

  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:0:42:1:2:3:4', '2001:db8:0:42::/64'],
    ['2001:db8:0:42:ffff::', '2001:db8:0:42::/64'],
    ['2001:0db8:0:0042::9', '2001:db8:0:42::/64'],
    ['2001:db8:0:43::9', '2001:db8:0:43::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0::/64'],
    ['1:2:3:4:5:6:192.0.2.7', '1:2:3:4::/64'],
    ['', ''],
  ])('takes %s as the client %s', (address, network) => {
    expect(clientNetwork(address)).toBe(network)
  })

  it('runs before authorize', async () => {
    let asked = 0
    const authorize = () => {
      asked++
      return false
    }
    for (const url of await served({ authorize, rateLimit: perClientRateLimit({ perSecond: 0.001, burst: 3 }) })) {
      asked = 0
      const statuses: number[] = []
      for (let i = 0; i < 5; i++) statuses.push((await call('GET', `${url}/api/v1/gameservers`)).status)
      // Both entry points share one limit.
      expect(statuses.filter((status) => status === 403)).toHaveLength(asked)
      expect(statuses.at(-1)).toBe(429)
    }
  })

  it('forgets the least recently seen clients first', () => {
    const clock = virtualClock()
    const limit = perClientRateLimit({ perSecond: 0.001, burst: 1, callerOf, maxCallers: 2, clock })
    const ask = (name: string) => limit({ header: () => name } as never, { name: 'getBuild', role: 'read' })
    expect([ask('a'), ask('b')]).toEqual([undefined, undefined])
    expect(ask('a')).toBeGreaterThan(0)
    expect(ask('c')).toBeUndefined()
    expect(ask('a')).toBeGreaterThan(0)
    expect(ask('b')).toBeUndefined()
  })

  it.each([{ perSecond: 0 }, { perSecond: NaN }, { perSecond: 1, burst: 0.5 }, { perSecond: 1, maxCallers: -1 }])(
    'rejects %j',
    (options) => {
      expect(() => perClientRateLimit(options)).toThrow(expect.objectContaining({ code: 'invalid' }))
    },
  )
})
