/** A leader that breaks, is silent, or goes, while other hosts forward calls to it. */
import { describe, expect, it } from 'vitest'
import { call } from '../client.js'
import { build } from '../fleet.js'
import { hosts, until } from './hosts.js'
import { pair, serverOf, session } from './pair.js'

describe('a leader whose connection breaks', () => {
  it('while it allocates: the session still gets one server', async () => {
    const { leader, other } = await pair()
    await call('GET', `${other.manage}/gameserverbuilds`)
    leader.proxy.mute(true)
    const body = session()
    const answer = call('POST', `${other.allocate}?wait=50`, { body })
    await until(async () => (await serverOf(leader, body.sessionID)) !== undefined)
    const server = await serverOf(leader, body.sessionID)
    other.lead()
    const { status, text } = await answer
    expect(status).toBe(200)
    expect(JSON.parse(text)).toMatchObject({ details: { server: { name: server } } })
    expect((await other.fleet.servers.list()).filter((one) => one.status.state === 'Active')).toHaveLength(1)
  })

  it('while it changes something: the caller learns that the outcome is unknown, and nothing is repeated', async () => {
    const { leader, other } = await pair()
    await call('GET', `${other.manage}/gameserverbuilds`)
    leader.proxy.mute(true)
    const answer = call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    await until(async () => (await leader.fleet.builds.list()).length === 2)
    leader.proxy.cut()
    const { status, text } = await answer
    expect(status).toBe(500)
    expect(text).toContain('it may have been carried out')
  })

  it('while it sends a line to a game: the caller learns that the outcome is unknown, and the line is not sent again', async () => {
    const { leader, other } = await pair()
    const template = { spec: { containers: [{ name: 'game', stdin: true }] } }
    await leader.fleet.builds.create(build({ buildID: 'b2', standingBy: 1, max: 1, template }, 'console'))
    const servers = () => leader.fleet.servers.list({ build: 'console' })
    await until(async () => (await servers())[0]?.status.state === 'StandingBy')
    const [server] = await servers()
    await call('GET', `${other.manage}/gameserverbuilds`)
    let sent = 0
    leader.fleet.on('Audited', ({ action }) => void (sent += action === 'writeStdin' ? 1 : 0))
    leader.proxy.mute(true)
    const url = `${other.manage}/gameservers/default/${server?.metadata.name}/stdin`
    const answer = call('POST', url, { body: { line: 'give amie gold' } })
    await until(() => sent === 1)
    leader.proxy.cut()
    const { status, text } = await answer
    expect(status).toBe(500)
    expect(text).toContain('it may have been carried out')
    expect(sent).toBe(1)
  })

  it('its address is lost for a moment: what it has begun goes on', async () => {
    const { election, leader, other } = await pair()
    await call('GET', `${other.manage}/gameserverbuilds`)
    const release = leader.proxy.hold()
    const answer = call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    await until(async () => (await leader.fleet.builds.list()).length === 2)
    election.pretend(undefined)
    election.pretend(leader.address)
    release()
    expect((await answer).status).toBe(200)
  })

  it('it is silent: calls that can be repeated are given up', async () => {
    const { leader, other } = await pair(1, { holdMs: 100 })
    /** On a connection that is established. */
    const silence = async () => {
      leader.proxy.mute(false)
      await until(async () => (await call('GET', `${other.manage}/gameserverbuilds`)).status === 200)
      leader.proxy.mute(true)
    }
    await silence()
    const read = await call('GET', `${other.manage}/gameserverbuilds`)
    expect(read).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
    await silence()
    const allocation = await call('POST', `${other.allocate}?wait=0.1`, { body: session() })
    expect(allocation).toMatchObject({ status: 503, headers: { 'gamekeeper-error': 'not-leader' } })
  })

  it('it is frozen: a call that cannot be repeated fails, and a caller who waits moves to the next leader, without a cut connection', async () => {
    const { leader, other } = await pair()
    await call('GET', `${other.manage}/gameserverbuilds`)
    leader.proxy.mute(true)
    const created = await call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    expect(created).toMatchObject({ status: 500, headers: { 'gamekeeper-error': 'unavailable' } })
    expect(created.text).toContain('it may have been carried out')
    const answer = call('POST', `${other.allocate}?wait=50`, { body: session() })
    other.lead()
    expect((await answer).status).toBe(200)
  })

  it('it takes long to answer a caller who waits, and is asked meanwhile whether it is there', async () => {
    const { leader, other } = await pair(1)
    await leader.fleet.builds.patch('arena', { standingBy: 1, max: 1 })
    expect((await call('POST', `${other.allocate}?wait=1`, { body: session() })).status).toBe(200)
    const waiting = call('POST', `${other.allocate}?wait=50`, { body: session() })
    await until(() => leader.fleet.stats().builds.some(({ waiting: callers }) => callers === 1))
    const { connections } = leader.proxy
    await until(() => leader.proxy.connections > connections)
    await leader.fleet.builds.patch('arena', { standingBy: 1, max: 4 })
    expect((await waiting).status).toBe(200)
  })

  it('before it has received anything: the call goes to the next leader', async () => {
    const { leader, other } = await pair()
    await leader.proxy.close()
    const answer = call('POST', `${other.manage}/gameserverbuilds`, { body: build({ buildID: 'b2' }, 'second') })
    other.lead()
    expect((await answer).status).toBe(200)
    expect(await other.fleet.builds.list()).toHaveLength(2)
  })
})

it('a host whose backend does not close gives up the lead all the same', async () => {
  const { election, open } = hosts()
  const leader = await open({ closeBackend: () => Promise.reject(new Error('the engine is stuck')) })
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  await expect(leader.served.handOver()).rejects.toThrow('the engine is stuck')
  expect(election.leader).toBeUndefined()
})

it('a closed fleet asks nobody', async () => {
  const { leader, other } = await pair(1, { holdMs: 100 })
  await other.fleet.close()
  const { connections } = leader.proxy
  expect((await call('GET', `${other.manage}/gameserverbuilds`)).status).toBe(503)
  expect(leader.proxy.connections).toBe(connections)
})

it('a host that hands over answers until it closes', async () => {
  const { leader, other } = await pair()
  await leader.served.handOver()
  const body = session()
  const answer = call('POST', `${leader.allocate}?wait=50`, { body })
  other.lead()
  expect((await answer).status).toBe(200)
  await leader.close()
  expect(await serverOf(other, body.sessionID)).toBeDefined()
})
