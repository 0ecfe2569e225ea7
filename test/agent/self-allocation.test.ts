/** A game takes its own server: the agent's endpoint, and the SDK that calls it. */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { createFleet, memoryStore, systemClock } from '../../src/index.js'
import type { Fleet } from '../../src/contracts/fleet.js'
import { type Gsdk, start } from '../../src/sdk/index.js'
import { agentListener } from '../../src/agent/index.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { call, listening } from '../http/client.js'
import { build, sessionID } from '../http/fleet.js'
import { configuredFor, quick, recordingLogger } from '../sdk/fake-agent.js'

/** A fleet with a server whose game is the test, and the URL of its agent. */
async function withGame(): Promise<{ fleet: Fleet; id: string; url: string }> {
  const store = memoryStore()
  const fleet = await createFleet({ backend: memoryBackend({ clock: systemClock, readyAfterMs: 3_600_000 }), store })
  onTestFinished(() => fleet.close())
  await fleet.builds.create(build({ standingBy: 1, max: 3 }))
  await vi.waitFor(async () => expect((await fleet.servers.list())[0]?.status.state).toBe('Initializing'))
  const [record] = (await store.servers.list()).map(({ record: found }) => found)
  const agent = await listening(agentListener(fleet))
  onTestFinished(() => agent.close())
  return { fleet, id: record ? `${record.name}.${record.token}` : '', url: agent.url }
}

const take = async (url: string, id: string, body: unknown) => {
  const { status, text } = await call('PATCH', `${url}/v1/sessionHosts/${id}/session`, { body })
  return { status, ...JSON.parse(text) }
}

describe('a game that takes its own server', () => {
  it('is answered when that is durable, and again the same', async () => {
    const { fleet, id, url } = await withGame()
    expect(await take(url, id, { sessionID })).toEqual({ status: 200, sessionID })
    expect(await take(url, id, { sessionID })).toEqual({ status: 200, sessionID })
    expect((await fleet.sessions.get(sessionID)).server.name).toBe(id.split('.')[0])
    expect(await take(url, id, {})).toMatchObject({ status: 409, code: 'in-use' })
  })

  it('must know the secret of its server, and send what the fleet knows', async () => {
    const { id, url } = await withGame()
    expect(await take(url, `${id.slice(0, -4)}0000`, {})).toMatchObject({ status: 404, code: 'not-found' })
    expect(await take(url, id, { sessionID: '' })).toMatchObject({ status: 400, code: 'invalid' })
    expect(await take(url, id, { buildID: 'arena' })).toMatchObject({ status: 400, code: 'invalid' })
    const { status, headers } = await call('POST', `${url}/v1/sessionHosts/${id}/session`, { body: {} })
    expect([status, headers['allow']]).toEqual([405, 'PATCH'])
  })
})

describe('allocateSelf() of the SDK', () => {
  async function playing(): Promise<{ fleet: Fleet; gsdk: Gsdk }> {
    const { fleet, id, url } = await withGame()
    const { GSDK_CONFIG_FILE } = await configuredFor(new URL(url).host, { sessionHostId: id })
    const gsdk = await start({ env: { GSDK_CONFIG_FILE }, logger: recordingLogger(), timing: quick })
    onTestFinished(() => gsdk.stop())
    return { fleet, gsdk }
  }

  it('resolves with the session, like readyForPlayers(), and takes the next one when it has ended', async () => {
    const { fleet, gsdk } = await playing()
    const ready = gsdk.readyForPlayers()
    const session = await gsdk.allocateSelf({ sessionID, sessionCookie: 'mode=duel', initialPlayers: ['amie'] })
    expect(session).toEqual({ sessionId: sessionID, sessionCookie: 'mode=duel', initialPlayers: ['amie'] })
    expect(await ready).toEqual(session)
    expect(await gsdk.allocateSelf({ sessionID })).toEqual(session)
    await expect(gsdk.allocateSelf()).rejects.toMatchObject({ code: 'in-use' })
    const next = gsdk.readyForNext()
    const own = await gsdk.allocateSelf()
    expect(own.sessionId).not.toBe(sessionID)
    expect(await next).toEqual(own)
    expect((await fleet.sessions.list()).map((one) => one.sessionID)).toEqual([own.sessionId])
  })
})
