/** Over HTTP, every change is audited: who made it, from where, and to what. Never with a secret. */
import { readFile } from 'node:fs/promises'
import { request as httpsRequest } from 'node:https'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { bearerTokens, serve, type Served, type ServeOptions } from '../../src/http/index.js'
import type { EventOf } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { type Certified, certificates } from './certificates.js'
import { call } from './client.js'
import { build, buildID, memoryFleet, sessionID, standingBy } from './fleet.js'

let fleet: Fleet
let served: Served | undefined
let audited: EventOf<'Audited'>[]

beforeEach(async () => {
  fleet = await memoryFleet()
  served = undefined
  audited = []
  fleet.on('Audited', (event) => audited.push(event))
})
afterEach(async () => {
  await served?.close()
  await fleet.close()
})

async function open(options: Omit<ServeOptions, 'fleet'> = {}): Promise<Served> {
  served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, ...options })
  return served
}

const arena = { namespace: 'default', name: 'arena' }
const secrets = { matchmaker: 'm'.repeat(40), ops: 'o'.repeat(40), unnamed: 'u'.repeat(40) }
const authorize = bearerTokens([
  { token: secrets.matchmaker, roles: ['allocate'], name: 'matchmaker' },
  { token: secrets.ops, roles: ['manage'], name: 'ops' },
  { token: secrets.unnamed, roles: ['manage'] },
])
const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })

describe('the audit of HTTP requests', () => {
  it('names the token, the address and the target of every change, and never a secret', async () => {
    const { allocationUrl, managementUrl } = await open({ authorize })
    const builds = `${managementUrl}/api/v1/gameserverbuilds`
    const template = { spec: { containers: [{ name: 'game', stdin: true }] } }
    await call('POST', builds, { ...as(secrets.ops), body: build({ template }) })
    await standingBy(fleet, 2)
    const allocation = { buildID, sessionID, sessionCookie: 'a-secret-cookie' }
    await call('POST', `${allocationUrl}/api/v1/allocate`, { ...as(secrets.matchmaker), body: allocation })
    await call('PATCH', `${builds}/default/arena`, { ...as(secrets.unnamed), body: { standingBy: 1 } })
    const server = audited.flatMap((event) => ('server' in event ? [event.server] : []))[0]
    const one = `${managementUrl}/api/v1/gameservers/default/${server?.name}`
    const at = new Date(Date.now() + 3_600_000).toISOString()
    await call('POST', `${one}/maintenance`, { ...as(secrets.ops), body: { at } })
    await call('DELETE', `${one}/maintenance`, as(secrets.ops))
    const line = { line: 'op amie a-secret-line' }
    expect((await call('POST', `${one}/stdin`, { ...as(secrets.ops), body: line })).status).toBe(200)
    await call('DELETE', one, as(secrets.ops))
    await call('DELETE', `${builds}/default/arena`, as(secrets.ops))

    const ops = { kind: 'token', name: 'ops', address: '127.0.0.1' }
    const done = { outcome: 'done', build: arena }
    expect(audited.map(({ type: _, at: _at, seq: _seq, message: _message, ...fields }) => fields)).toEqual([
      { action: 'createBuild', caller: ops, ...done },
      { action: 'allocate', caller: { ...ops, name: 'matchmaker' }, sessionID, server, ...done },
      { action: 'patchBuild', caller: { ...ops, name: 'tokens[2]' }, ...done },
      { action: 'announceMaintenance', caller: ops, server, ...done },
      { action: 'withdrawMaintenance', caller: ops, server, ...done },
      { action: 'writeStdin', caller: ops, server, ...done },
      { action: 'deleteServer', caller: ops, server, ...done },
      { action: 'deleteBuild', caller: ops, ...done },
    ])
    expect(audited[0]?.message).toBe('token ops at 127.0.0.1 created build default/arena')
    const text = JSON.stringify(audited)
    for (const secret of [...Object.values(secrets), 'a-secret-cookie', 'a-secret-line'])
      expect(text).not.toContain(secret)
  })

  it('leaves out reads and rejected requests', async () => {
    const { allocationUrl, managementUrl } = await open({ authorize })
    const builds = `${managementUrl}/api/v1/gameserverbuilds`
    const allocate = `${allocationUrl}/api/v1/allocate`
    expect((await call('GET', builds, as(secrets.ops))).status).toBe(200)
    expect((await call('POST', builds, { body: build() })).status).toBe(401)
    expect((await call('POST', builds, { ...as(secrets.matchmaker), body: build() })).status).toBe(403)
    expect((await call('POST', builds, { ...as(secrets.ops), body: {} })).status).toBe(400)
    expect((await call('POST', allocate, { ...as(secrets.matchmaker), body: { buildID, sessionID } })).status).toBe(404)
    expect((await call('POST', allocate, { ...as(secrets.matchmaker), body: null })).status).toBe(400)
    expect((await call('DELETE', `${builds}/default/arena`, as(secrets.ops))).status).toBe(404)
    expect(audited).toEqual([])
  })

  it("names the host app's own identity of a caller", async () => {
    const { managementUrl } = await open({ authorize: async (request) => ({ caller: request.header('x-user') ?? '' }) })
    const builds = `${managementUrl}/api/v1/gameserverbuilds`
    expect((await call('POST', builds, { body: build() })).status).toBe(403)
    expect((await call('POST', builds, { headers: { 'X-User': 'amie' }, body: build() })).status).toBe(200)
    expect(audited.map(({ caller }) => caller)).toEqual([{ kind: 'host', name: 'amie', address: '127.0.0.1' }])
  })

  it('calls a caller without authentication anonymous', async () => {
    const { managementUrl } = await open()
    await call('POST', `${managementUrl}/api/v1/gameserverbuilds`, { body: build() })
    expect(audited.map(({ caller }) => caller)).toEqual([{ kind: 'anonymous', address: '127.0.0.1' }])
  })

  it('names the subject of a client certificate, on every request of its connection', async () => {
    const workshop = await certificates()
    onTestFinished(() => workshop.remove())
    const ours = await workshop.authority('ours')
    const [own, client] = [await ours.issue('server'), await ours.issue('matchmaker')]
    const management = { port: 0, tls: { cert: own.cert, key: own.key, ca: ours.cert } }
    const { managementUrl } = await open({ management })
    const send = await certified(managementUrl, client, ours)
    expect(await send('POST', '/api/v1/gameserverbuilds', build())).toBe(200)
    expect(await send('DELETE', '/api/v1/gameserverbuilds/default/arena')).toBe(200)
    expect(audited.map(({ action, caller: { kind, name } }) => [action, kind, name])).toEqual([
      ['createBuild', 'certificate', 'matchmaker'],
      ['deleteBuild', 'certificate', 'matchmaker'],
    ])
  })
})

/** Sends requests with a client certificate and returns their statuses. */
async function certified(url: string, { cert, key }: Certified, authority: Certified) {
  const [certPem, keyPem, ca] = await Promise.all([readFile(cert), readFile(key), readFile(authority.cert)])
  return (method: string, path: string, body?: object) =>
    new Promise<number | undefined>((resolve, reject) => {
      const request = httpsRequest(url + path, { method, cert: certPem, key: keyPem, ca }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode))
      })
      request.on('error', reject)
      request.end(body && JSON.stringify(body))
    })
}
