/** A host that does not lead answers all the same: it forwards to the leader. */
import { Agent, request } from 'node:https'
import { bearerTokens } from 'gamekeeper/http'
import { createFleet, type EventOf, memoryStore } from 'gamekeeper'
import { memoryBackend } from 'gamekeeper/memory'
import { describe, expect, it } from 'vitest'
import { deriveKey, sharedKeyClient } from '../../../src/platform/tls.js'
import { call } from '../client.js'
import { build, buildID } from '../fleet.js'
import { hosts, secret, until } from './hosts.js'
import { pair, session } from './pair.js'

describe('a host that does not lead', () => {
  it('allocates through the leader', async () => {
    const { leader, other } = await pair()
    const body = session()
    const answer = await call('POST', other.allocate, { body })
    expect(answer).toMatchObject({ status: 200 })
    expect(JSON.parse(answer.text)).toMatchObject({ SessionID: body.sessionID })
    expect((await leader.fleet.servers.list()).filter(({ status }) => status.state === 'Active')).toHaveLength(1)
    // Again: the session has its server.
    expect((await call('POST', other.allocate, { body })).text).toBe(answer.text)
    expect((await call('POST', leader.allocate, { body })).text).toBe(answer.text)
  })

  it('uses the same connection again', async () => {
    const { leader, other } = await pair()
    for (let count = 0; count < 4; count++) {
      expect((await call('POST', other.allocate, { body: session() })).status).toBe(200)
    }
    expect(leader.proxy.connections).toBe(1)
  })

  it('manages through the leader, and passes its refusals on', async () => {
    const { leader, other } = await pair()
    const created = await call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    expect(created.status).toBe(200)
    expect((await leader.fleet.builds.get('second')).spec.buildID).toBe('b2')
    expect((await call('GET', `${other.manage}/gameserverbuilds/default/second?x=1`)).status).toBe(200)
    const again = await call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    expect(again).toMatchObject({ status: 400, headers: { 'gamekeeper-error': 'exists' } })
    expect((await call('DELETE', `${other.manage}/gameserverbuilds/default/second`)).status).toBe(200)
    const none = await call('POST', other.allocate, { body: { ...session(), buildID: 'none' } })
    expect(none.status).toBe(404)
    expect((await call('GET', `${other.manage}/stats`)).text).toContain('"leads":true')
    expect((await call('GET', `${other.manage}/health`)).text).toContain('"leads":false')
    expect((await call('HEAD', `${other.manage}/gameserverbuilds`)).status).toBe(200)
  })

  it('is ready while it reaches the leader, or could lead itself', async () => {
    const { election, leader, other } = await pair()
    const ready = async () => (await other.fleet.health()).ready
    expect(await other.fleet.health()).toMatchObject({ ready: true, leads: false, problems: [] })
    expect((await call('GET', `${other.served.managementUrl}/readyz`)).status).toBe(200)
    // Calls are held until a host leads.
    election.lead(undefined)
    await until(async () => !(await leader.fleet.health()).leads)
    expect(await ready()).toBe(true)
    election.block('leases are forbidden', other.address)
    await until(async () => !(await ready()))
    expect((await other.fleet.health()).problems).toEqual([
      expect.stringContaining('no host leads the fleet now'),
      expect.stringContaining('leases are forbidden'),
    ])
    leader.lead()
    await until(ready)
    // So that a load balancer leaves it out.
    await leader.served.handOver()
    expect(await leader.fleet.health()).toMatchObject({ ready: false })
  })

  it('is not ready before it could lead, although it reaches the leader: a rollout would replace the leader with it', async () => {
    const { election, open } = await pair()
    election.block('leases are forbidden')
    const next = await open()
    const ready = async () => (await next.fleet.health()).ready
    expect(await next.fleet.health()).toMatchObject({ ready: false, problems: [expect.stringContaining('forbidden')] })
    const answer = await call('GET', `${next.served.managementUrl}/readyz`)
    expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1' } })
    election.block(undefined, next.address)
    await until(ready)
    election.block('leases are forbidden', next.address)
    expect(await ready()).toBe(true)
  })

  it('is not ready while it is to lead, and cannot read what the fleet has', async () => {
    const broken = { list: () => Promise.reject(new Error('the engine speaks another version')) }
    const { election, open } = hosts({ ...broken, probe: () => Promise.resolve() })
    const host = await open()
    expect(await host.fleet.health()).toMatchObject({ ready: true })
    host.lead()
    await until(async () => !(await host.fleet.health()).ready)
    expect((await host.fleet.health()).problems.join()).toContain('the engine speaks another version')
    // Another host may be able to.
    election.lead(undefined)
    await until(async () => (await host.fleet.health()).ready)
  })

  it('refuses a caller itself, and tells the leader who the others are', async () => {
    const authorize = bearerTokens([{ token: 'a-token-of-the-lobby', roles: ['allocate'], name: 'lobby' }])
    const { leader, other } = await pair(4, { serve: { authorize } })
    expect((await call('POST', other.allocate, { body: session() })).status).toBe(401)
    expect(leader.proxy.connections).toBe(0)
    const audited: EventOf<'Audited'>[] = []
    leader.fleet.on('Audited', (event) => void audited.push(event))
    const headers = {
      Authorization: 'Bearer a-token-of-the-lobby',
      // Callers cannot choose who they are.
      'Gamekeeper-Caller': Buffer.from('{"kind":"host","name":"root"}').toString('base64url'),
    }
    expect((await call('POST', other.allocate, { body: session(), headers })).status).toBe(200)
    expect(audited.map(({ caller }) => caller)).toEqual([{ kind: 'token', name: 'lobby', address: '127.0.0.1' }])
    expect((await call('POST', leader.allocate, { body: session(), headers })).status).toBe(200)
    expect(audited.at(-1)?.caller).toEqual(audited[0]?.caller)
  })
})

describe('between hosts', () => {
  it('only those with the shared key are admitted', async () => {
    const { leader, other } = await pair()
    const ask = (key: Uint8Array) =>
      new Promise<string>((resolve) => {
        const agent = new Agent(sharedKeyClient(() => key))
        const { port } = new URL(leader.served.forwardingUrl ?? '')
        const asked = request({ agent, host: '127.0.0.1', port, path: '/api/v1/gameserverbuilds' }, (response) => {
          response.resume()
          resolve(String(response.statusCode))
        })
        asked.on('error', () => resolve('refused'))
        asked.end()
      })
    expect(await ask(deriveKey(secret, 'forwarding'))).toBe('200')
    expect(await ask(deriveKey('another secret of somebody else', 'forwarding'))).toBe('refused')
    expect(await ask(deriveKey(secret, 'another purpose'))).toBe('refused')
    expect(other.proxy.connections).toBe(0)
  })

  it('a host with another secret gets nothing through', async () => {
    const { leader, open } = await pair()
    const stranger = await open({ secret: 'a secret that only this host has' })
    const answer = await call('POST', `${stranger.allocate}?wait=0.3`, { body: session() })
    expect(answer).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
    expect(leader.proxy.connections).toBeGreaterThan(0)
    expect((await leader.fleet.servers.list()).every(({ status }) => status.state !== 'Active')).toBe(true)
  })

  it('a forwarded request is never forwarded again', async () => {
    const { election, leader, other } = await pair()
    election.lead(undefined)
    // Each takes the other for the leader.
    election.pretend(leader.address)
    const answer = await call('POST', `${other.allocate}?wait=0.5`, { body: session() })
    expect(answer).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
    expect(answer.text).toContain('stepping down')
    expect(other.proxy.connections).toBe(0)
    // Changes nothing, and is held all the same, since the host that was asked did not begin.
    const created = call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    leader.lead()
    expect((await created).status).toBe(200)
  })

  it('forwarding needs an elector that knows the leader, and a secret', async () => {
    const { election } = hosts()
    const options = { backend: memoryBackend(), store: memoryStore(), forwarding: { address: '127.0.0.1:5002' } }
    await expect(createFleet(options)).rejects.toThrow('follow')
    await expect(createFleet({ ...options, elector: election.elector })).rejects.toThrow('forwarding.secret')
    await expect(createFleet({ ...options, forwarding: { address: 'nowhere' } })).rejects.toThrow('host:port')
    const port = { ...options, forwarding: { address: '127.0.0.1:70000' } }
    await expect(createFleet(port)).rejects.toThrow('host:port')
    const short = { ...options.forwarding, secret: 'short' }
    await expect(createFleet({ ...options, forwarding: short })).rejects.toThrow('16 characters')
  })
})

describe('while nobody leads', () => {
  it('callers who wait are held, and none is refused', async () => {
    const { election, leader, other } = await pair(20)
    election.lead(undefined)
    const bodies = Array.from({ length: 20 }, session)
    const answers = bodies.map((body, at) =>
      call('POST', `${(at % 2 === 0 ? leader : other).allocate}?wait=50`, { body }),
    )
    // One of them has certainly arrived before another host leads.
    await call('POST', `${other.allocate}?wait=0.1`, { body: session() })
    other.lead()
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(bodies.map(() => 200))
    const active = (await other.fleet.servers.list()).filter(({ status }) => status.state === 'Active')
    expect(new Set(active.map(({ status }) => status.sessionID)).size).toBe(20)
  })

  it('a caller without wait is held for some seconds', async () => {
    const { election, other } = await pair()
    election.lead(undefined)
    const answer = call('POST', other.allocate, { body: session() })
    await call('POST', `${other.allocate}?wait=0.1`, { body: session() })
    other.lead()
    expect((await answer).status).toBe(200)
  })

  it('an allocation without wait is refused while other calls are still held', async () => {
    const { election, other } = await pair(1, { holdMs: 'usual' })
    election.lead(undefined)
    const reading = call('GET', `${other.manage}/gameserverbuilds`)
    const refused = await call('POST', other.allocate, { body: session() })
    expect(refused).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader', 'retry-after': '1' } })
    other.lead()
    expect((await reading).status).toBe(200)
  })

  it('callers who wait for a server move to the next leader', async () => {
    const { leader, other } = await pair(1)
    const bodies = [session(), session(), session(), session()]
    const answers = bodies.map((body, at) =>
      call('POST', `${(at % 2 === 0 ? leader : other).allocate}?wait=50`, { body }),
    )
    await until(() => leader.fleet.stats().builds.some(({ waiting }) => waiting === 2))
    other.lead()
    await until(async () => (await other.fleet.health()).leads)
    await other.fleet.builds.patch('arena', { standingBy: 3, max: 8 })
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(bodies.map(() => 200))
  })

  it('a caller who has waited does not wait as long again at the next leader', async () => {
    const paths: string[] = []
    const { leader, other } = await pair(1, { onSend: (path: string) => paths.push(path) })
    const answers = [session(), session(), session()].map((body) =>
      call('POST', `${leader.allocate}?wait=50`, { body }),
    )
    await until(() => leader.fleet.stats().builds.some(({ waiting }) => waiting === 1))
    other.lead()
    await until(() => paths.some((path) => path.includes('wait=')))
    await other.fleet.builds.patch('arena', { standingBy: 3, max: 8 })
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
    for (const path of paths) expect(Number(path.split('wait=')[1])).toBeLessThan(50)
  })

  it('callers who wait do not count as requests in flight', async () => {
    const { election, other } = await pair(2, { serve: { limits: { maxInFlight: 1 } } })
    election.lead(undefined)
    const waiting = call('POST', `${other.allocate}?wait=50`, { body: session() })
    for (let count = 0; count < 3; count++) {
      const answer = await call('POST', `${other.allocate}?wait=0.1`, { body: session() })
      expect(answer).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
    }
    other.lead()
    expect((await waiting).status).toBe(200)
  })

  it('an address that is none is like a leader that cannot be reached', async () => {
    const { election, other } = await pair(1, { holdMs: 100 })
    for (const address of ['127.0.0.1:70000', 'nowhere']) {
      election.pretend(address)
      const answer = await call('GET', `${other.manage}/gameserverbuilds`)
      expect(answer).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
    }
  })

  it('what would be refused anyway is refused at once', async () => {
    const { election, open } = hosts()
    const other = await open({ serve: { sessionIDs: 'guid' } })
    election.lead(undefined)
    const tooLong = await call('POST', `${other.allocate}?wait=9999`, { body: session() })
    expect(tooLong).toMatchObject({ status: 400 })
    const noGuid = await call('POST', `${other.allocate}?wait=50`, { body: { buildID, sessionID: 'match-1' } })
    expect(noGuid).toMatchObject({ status: 400 })
  })
})
