/** Heartbeats that reach a host that does not lead: the leader answers them, also those that it holds. */
import { expect, it } from 'vitest'
import { call } from '../client.js'
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
      ...(more.wait !== undefined && { headers: { Prefer: `wait=${more.wait}` } }),
    })
  return { election, leader, other, beat }
}

const standingBy = { CurrentGameState: 'StandingBy', CurrentGameHealth: 'Healthy', CurrentPlayers: [] }

it('the leader hears them, and its answers reach the game', async () => {
  const { leader, beat } = await scene()
  const answer = await beat(standingBy)
  expect(answer).toMatchObject({ status: 200 })
  expect(JSON.parse(answer.text)).toMatchObject({ operation: 'Continue' })
  await until(async () => (await leader.fleet.builds.get('arena')).status.currentStandingBy === 1)
  await leader.fleet.allocate({ buildID, sessionID })
  expect(JSON.parse((await beat(standingBy)).text)).toMatchObject({
    operation: 'Active',
    sessionConfig: { sessionId: sessionID },
  })
  expect((await beat('{')).status).toBe(400)
  expect(JSON.parse((await beat(standingBy, { id: 'unknown' })).text)).toMatchObject({ operation: 'Terminate' })
})

it('one that the leader holds is answered with the session', async () => {
  const { leader, beat } = await scene()
  await beat(standingBy)
  await until(async () => (await leader.fleet.builds.get('arena')).status.currentStandingBy === 1)
  const before = leader.fleet.stats().heartbeats
  const held = beat(standingBy, { wait: 60 })
  await until(() => leader.fleet.stats().heartbeats > before)
  await leader.fleet.allocate({ buildID, sessionID })
  expect(JSON.parse((await held).text)).toMatchObject({ operation: 'Active', sessionConfig: { sessionId: sessionID } })
})

it('one that is held ends when another host leads, or when the host between closes', async () => {
  const { leader, other, beat } = await scene()
  await beat(standingBy)
  await until(async () => (await leader.fleet.builds.get('arena')).status.currentStandingBy === 1)
  /** Resolves once the leader has the heartbeat. */
  const hold = async () => {
    const before = leader.fleet.stats().heartbeats
    const answer = beat(standingBy, { wait: 60 })
    await until(() => leader.fleet.stats().heartbeats > before)
    return { answer }
  }
  const first = await hold()
  other.lead()
  expect(JSON.parse((await first.answer).text)).toMatchObject({ operation: 'Continue' })
  leader.lead()
  await until(async () => (await leader.fleet.health()).leads)
  const second = await hold()
  await other.close()
  expect(JSON.parse((await second.answer).text)).toMatchObject({ operation: 'Continue' })
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
