/** Heartbeats that reach a host that does not lead: the leader answers them, also those that it holds. */
import { agentListener } from 'gamekeeper/http'
import { expect, it, onTestFinished } from 'vitest'
import { targetOf } from '../../agent/target.js'
import { call, listening } from '../client.js'
import { build, buildID, sessionID } from '../fleet.js'
import { hosts, until } from './hosts.js'

/** Two hosts, and a server whose game sends no heartbeats but those of the test. */
async function scene() {
  const { backend, election, open } = hosts(
    { capabilities: { template: 'pod', agent: true } },
    { script: 'manual', heartbeatIntervalMs: 0 },
  )
  const [leader, other] = [await open(), await open()]
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  await leader.fleet.builds.create(build({ standingBy: 1, max: 1 }))
  await until(() => backend.servers().length === 1)
  const id = backend.servers()[0]?.spec.sdk.sessionHostId ?? ''
  const beat = (body: unknown, more: { readonly id?: string; readonly wait?: number } = {}) =>
    call('PATCH', `http://${other.fleet.agentAddress}/v1/sessionHosts/${more.id ?? id}`, {
      body,
      validate: false,
      headers: { Connection: 'keep-alive', ...(more.wait !== undefined && { Prefer: `wait=${more.wait}` }) },
    })
  return { backend, election, leader, other, id, beat }
}

const standingBy = { CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy', CurrentPlayers: [] }

/** Until the leader has heard one: it may be too slow to answer the first in time. */
async function heard({ leader, beat }: Awaited<ReturnType<typeof scene>>) {
  await until(async () => {
    await beat(standingBy)
    return (await leader.fleet.builds.get('arena')).status.currentStandingBy === 1
  })
}

it('the leader hears them, and its answers reach the game', async () => {
  const all = await scene()
  const { leader, beat } = all
  await heard(all)
  await leader.fleet.allocate({ buildID, sessionID })
  const answers: string[] = []
  const isAnswered = async (body: unknown, pattern: RegExp, more = {}) => {
    const { status, text } = await beat(body, more)
    answers.push(`${status} ${text}`)
    return pattern.test(answers.at(-1) ?? '')
  }
  await until(() => isAnswered(standingBy, /^200 \{"operation":"Active"/))
  expect(answers.at(-1)).toContain(sessionID)
  await until(() => isAnswered('{', /^400 /))
  await until(() => isAnswered(standingBy, /^200 \{"operation":"Terminate"/, { id: 'unknown' }))
})

it('a change of the data of a server reaches the leader, and its errors the game', async () => {
  const all = await scene()
  const { leader, other, id } = all
  await heard(all)
  const change = async (body: unknown) => {
    const url = `http://${other.fleet.agentAddress}/v1/sessionHosts/${id}/data`
    const { status, text } = await call('PATCH', url, { body, validate: false })
    return { status, ...JSON.parse(text) }
  }
  await until(async () => (await change({ labels: { map: 'dust' } })).status === 200)
  expect((await leader.fleet.servers.list())[0]?.metadata.labels).toEqual({ map: 'dust' })
  await until(async () => (await change({ counters: { rooms: { count: 1 } } })).code === 'invalid')
})

it('a game whose host does not lead takes its own server', async () => {
  const all = await scene()
  const { leader, other, id } = all
  await heard(all)
  const take = async (body: unknown) => {
    const url = `http://${other.fleet.agentAddress}/v1/sessionHosts/${id}/session`
    const { status, text } = await call('PATCH', url, { body, validate: false })
    return { status, ...JSON.parse(text) }
  }
  await until(async () => (await take({ sessionID })).status === 200)
  expect((await leader.fleet.servers.list())[0]?.status.sessionID).toBe(sessionID)
  await until(async () => (await take({ sessionID: 'another' })).code === 'in-use')
})

/** Resolves once the leader holds a heartbeat. */
async function hold({ leader, beat }: Awaited<ReturnType<typeof scene>>) {
  const before = leader.fleet.stats().heartbeats
  const answer = beat(standingBy, { wait: 600 })
  await until(() => leader.fleet.stats().heartbeats > before)
  return { answer }
}

it('one that the leader holds is answered with the session', async () => {
  const all = await scene()
  await heard(all)
  const held = await hold(all)
  await all.leader.fleet.allocate({ buildID, sessionID })
  expect(JSON.parse((await held.answer).text)).toMatchObject({
    operation: 'Active',
    sessionConfig: { sessionId: sessionID },
  })
})

it('one that is held ends when another host leads, or when the host between closes', async () => {
  const all = await scene()
  const { leader, other } = all
  await heard(all)
  const first = await hold(all)
  other.lead()
  expect(await first.answer).toMatchObject({ headers: { connection: 'close' } })
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  const second = await hold(all)
  await other.close()
  expect(JSON.parse((await second.answer).text)).toMatchObject({ operation: 'Continue' })
})

it('a leader that does not answer one is not waited for', async () => {
  const all = await scene()
  await heard(all)
  all.leader.proxy.mute(true)
  const answer = await all.beat(standingBy)
  expect(answer).toMatchObject({ status: 200, headers: { connection: 'close' } })
  expect(JSON.parse(answer.text)).toMatchObject({ operation: 'Continue' })
  // Nor is it asked at once again, but later.
  all.leader.proxy.mute(false)
  const before = all.leader.fleet.stats().heartbeats
  await until(async () => {
    await all.beat(standingBy)
    return all.leader.fleet.stats().heartbeats > before
  })
})

it('without a leader the answer is Continue, and the connection closes', async () => {
  const { election, leader, beat } = await scene()
  election.lead(undefined)
  const alone = await beat(standingBy)
  expect(alone).toMatchObject({ status: 200, headers: { connection: 'close' } })
  expect(JSON.parse(alone.text)).toMatchObject({ operation: 'Continue' })
  // It does not lead: it answers, and passes nothing on.
  election.pretend(leader.address)
  expect(JSON.parse((await beat(standingBy)).text)).toMatchObject({ operation: 'Continue' })
  await leader.proxy.close()
  expect(JSON.parse((await beat(standingBy)).text)).toMatchObject({ operation: 'Continue' })
})

it('some of the answers that another host has given close their connection, so that games move to it', async () => {
  const { url, close } = await listening(
    agentListener(targetOf({ forwardHeartbeat: () => Promise.resolve({ status: 200, text: '{}' }) })),
  )
  onTestFinished(close)
  const answers = []
  for (let count = 0; count < 8; count++) {
    const options = { body: standingBy, validate: false as const, headers: { Connection: 'keep-alive' } }
    answers.push(await call('PATCH', `${url}/v1/sessionHosts/id`, options))
  }
  expect(answers.filter(({ headers }) => headers['connection'] === 'close')).toHaveLength(2)
})

it('a host that is thought to lead, and does not yet, keeps the connection to the host that asks it', async () => {
  const all = await scene()
  await heard(all)
  all.election.lead(undefined)
  all.election.pretend(all.leader.address)
  await all.beat(standingBy)
  const { connections } = all.leader.proxy
  for (let count = 0; count < 3; count++) {
    const answer = await all.beat(standingBy)
    expect(answer).toMatchObject({ status: 200, headers: { connection: 'close' } })
  }
  expect(all.leader.proxy.connections).toBeLessThanOrEqual(connections + 1)
})

it('a listener of the host app passes them on, too', async () => {
  const all = await scene()
  await heard(all)
  const { url, close } = await listening(agentListener(all.other.fleet))
  onTestFinished(close)
  await until(async () => {
    const answer = await call('PATCH', `${url}/v1/sessionHosts/unknown`, { body: standingBy, validate: false })
    return answer.text.includes('Terminate')
  })
})

it('a leader that closes leaves games that are ending to the next one, from which they hear Terminate', async () => {
  const all = await scene()
  const { backend, leader, other, beat } = all
  await heard(all)
  const [game] = backend.servers()
  await leader.fleet.builds.patch('arena', { standingBy: 0 })
  const isTerminating = async () =>
    (await leader.fleet.servers.list()).some(({ status }) => status.state === 'Terminating')
  await until(isTerminating)
  // As a readiness probe has it do every few seconds.
  expect(await other.fleet.health()).toMatchObject({ ready: true })
  await leader.close()
  expect(game?.isSignalled).toBe(false)
  other.lead()
  await until(async () => /"operation":"Terminate"/.test((await beat(standingBy)).text))
  expect(game?.isSignalled).toBe(false)
})
