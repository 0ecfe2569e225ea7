/** Games that play several sessions: `readyForNext()` of the SDK, against an agent that misbehaves, and as a process of a fleet. */
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { fileURLToPath } from 'node:url'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isObject } from '../../src/rules/validation/problem.js'
import {
  type FakeAgent,
  fakeAgent,
  guid,
  says,
  sessionConfig,
  startAgainst,
  temporaryFolder,
  until,
} from './fake-agent.js'

const other = { sessionId: '7a1c9a3e-3f0b-4f6e-9a44-0d8ce6f6d002', initialPlayers: [] }
const endedOf = (agent: FakeAgent) => {
  const body = agent.last()?.body
  return isObject(body) ? body['EndedSession'] : undefined
}

/** An SDK that plays `sessionConfig`, and what it has reported in its last heartbeat. */
async function playing() {
  const agent = await fakeAgent()
  agent.reply = says('Active', { sessionConfig })
  const gsdk = await startAgainst(agent)
  await gsdk.readyForPlayers()
  agent.reply = says('Continue', { sessionConfig })
  await until(() => agent.last()?.state === 'Active')
  return { agent, gsdk }
}

const settled = (promise: Promise<unknown>) => {
  const seen = { done: false }
  void promise.then(() => (seen.done = true))
  return seen
}

describe('readyForNext()', () => {
  it('reports that the session has ended with each heartbeat, and resolves with the next one', async () => {
    const { agent, gsdk } = await playing()
    expect(endedOf(agent)).toBeUndefined()
    gsdk.updateConnectedPlayers(['amie'])
    await until(() => agent.last()?.players.length === 1)
    const next = gsdk.readyForNext()
    expect([gsdk.state, gsdk.session]).toEqual(['StandingBy', undefined])
    await until(() => agent.last()?.state === 'StandingBy')
    expect([endedOf(agent), agent.last()?.players]).toEqual([{ SessionId: guid, Number: 1 }, []])
    agent.reply = says('Active', { sessionConfig: other, endedSessions: 1 })
    expect((await next).sessionId).toBe(other.sessionId)
    await until(() => agent.last()?.state === 'Active')
    expect(endedOf(agent)).toEqual({ SessionId: guid, Number: 1 })
    expect((await gsdk.readyForPlayers()).sessionId).toBe(guid)
  })

  it('does not resolve with the session that has ended, however long the agent says so, nor while the agent is away', async () => {
    const { agent, gsdk } = await playing()
    agent.reply = says('Active', { sessionConfig })
    const next = gsdk.readyForNext()
    const { done } = settled(next)
    await until(() => agent.beats.filter(({ state }) => state === 'StandingBy').length > 5)
    agent.reply = (_heard, response) => void response.writeHead(503).end()
    await until(() => agent.beats.filter(({ state }) => state === 'StandingBy').length > 10)
    expect([done, gsdk.state, gsdk.session]).toEqual([false, 'StandingBy', undefined])
    agent.reply = says('Active', { sessionConfig: other })
    expect((await next).sessionId).toBe(other.sessionId)
  })

  it('resolves with a later session that has the same id', async () => {
    const { agent, gsdk } = await playing()
    const next = gsdk.readyForNext()
    agent.reply = says('Active', { sessionConfig, endedSessions: 1 })
    expect((await next).sessionId).toBe(guid)
  })

  it('reports the end of the session that an older record of the fleet shows', async () => {
    const { agent, gsdk } = await playing()
    const second = gsdk.readyForNext()
    agent.reply = says('Active', { sessionConfig: other, endedSessions: 1 })
    await second
    const third = settled(gsdk.readyForNext())
    await until(() => isDeepStrictEqual(endedOf(agent), { SessionId: other.sessionId, Number: 2 }))
    agent.reply = says('Active', { sessionConfig })
    await until(() => isDeepStrictEqual(endedOf(agent), { SessionId: guid, Number: 2 }))
    expect(third.done).toBe(false)
  })

  it('returns the same promise until there is a session, and without one that of readyForPlayers()', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const first = gsdk.readyForNext()
    expect(gsdk.readyForPlayers()).toBe(first)
    agent.reply = says('Active', { sessionConfig })
    await first
    const next = gsdk.readyForNext()
    expect(gsdk.readyForNext()).toBe(next)
    await until(() => isDeepStrictEqual(endedOf(agent), { SessionId: guid, Number: 1 }))
  })

  it('stays pending if the server is terminated, before or after the call', async () => {
    const { agent, gsdk } = await playing()
    const next = settled(gsdk.readyForNext())
    agent.reply = says('Terminate')
    await until(() => gsdk.state === 'Terminating')
    const again = settled(gsdk.readyForNext())
    agent.reply = says('Active', { sessionConfig: other })
    const { length } = agent.beats
    await until(() => agent.beats.length > length + 3)
    expect([next.done, again.done, gsdk.state]).toEqual([false, false, 'Terminating'])
  })
})

const matches = fileURLToPath(new URL('matches.mjs', import.meta.url))

describe('a game that plays on', () => {
  it('is one process on the process backend, which ends when it wants', async () => {
    const directory = await temporaryFolder()
    const fleet = await createFleet({ backend: processBackend({ directory: join(directory, 'games') }), logger: false })
    onTestFinished(async () => {
      await fleet.drain({ active: 'terminate' })
      await fleet.close()
    })
    const container = { name: 'game', command: [process.execPath, matches] }
    await fleet.builds.create({
      metadata: { name: 'duel' },
      spec: {
        buildID: 'duel',
        standingBy: 1,
        max: 1,
        portsToExpose: [],
        template: { spec: { containers: [container] } },
      },
    })
    const servers = new Set<string>()
    for (let n = 1; n <= 3; n++) {
      const sessionID = `00000000-0000-4000-8000-00000000000${n}`
      const { server } = await fleet.allocate({ buildID: 'duel', sessionID }, { waitMs: 30_000, confirm: true })
      servers.add(server.name)
    }
    expect([...servers]).toHaveLength(1)
    const sessionID = '00000000-0000-4000-8000-000000000004'
    const { server } = await fleet.allocate({ buildID: 'duel', sessionID, sessionCookie: 'last' }, { waitMs: 30_000 })
    expect(servers.has(server.name)).toBe(true)
    await fleet
      .allocate({ buildID: 'duel', sessionID: sessionID.replace('4', '5') }, { waitMs: 30_000 })
      .then((next) => {
        expect(next.server.name).not.toBe(server.name)
      })
  })
})
