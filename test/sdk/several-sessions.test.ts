/** Games that take several sessions at the same time: `onSession` of the SDK, against an agent that misbehaves, and as a process. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createFleet } from 'gamekeeper'
import { processBackend } from 'gamekeeper/process'
import type { RunningSession } from 'gamekeeper/sdk'
import { describe, expect, it, onTestFinished } from 'vitest'
import { isObject } from '../../src/rules/validation/problem.js'
import {
  type FakeAgent,
  fakeAgent,
  recordingLogger,
  says,
  sessionConfig,
  startAgainst,
  temporaryFolder,
  until,
} from './fake-agent.js'

const room = (number: number, more: object = {}) => ({
  ...{ sessionId: `room-${number}`, number, initialPlayers: [], ...more },
})
const reportOf = (agent: FakeAgent, field: 'Sessions' | 'EndedSessions') => {
  const body = agent.last()?.body
  const sessions: unknown = isObject(body) ? body[field] : undefined
  return Array.isArray(sessions) ? sessions.map((one: { readonly Number?: unknown }) => one.Number) : sessions
}

/** An SDK that takes several sessions and has two. */
async function playing() {
  const agent = await fakeAgent()
  agent.reply = says('Continue', { sessions: [] })
  const log = recordingLogger()
  const gsdk = await startAgainst(agent, { logger: log })
  const begun: RunningSession[] = []
  gsdk.onSession((session) => void begun.push(session))
  const first = gsdk.readyForPlayers()
  agent.reply = says('Active', { sessionConfig: room(1), sessions: [room(1, { sessionCookie: 'dust' }), room(2)] })
  await first
  agent.reply = says('Continue', { sessionConfig: room(1), sessions: [room(1), room(2)] })
  await until(() => agent.last()?.state === 'Active')
  return { agent, gsdk, begun, log, first }
}

describe('onSession()', () => {
  it('is called with each session, and heartbeats list them', async () => {
    const { agent, begun, first, gsdk } = await playing()
    expect(begun.map(({ number, sessionId, sessionCookie }) => [number, sessionId, sessionCookie])).toEqual([
      [1, 'room-1', 'dust'],
      [2, 'room-2', undefined],
    ])
    expect((await first).sessionId).toBe('room-1')
    expect(gsdk.sessions).toEqual(begun)
    expect([reportOf(agent, 'Sessions'), reportOf(agent, 'EndedSessions')]).toEqual([[1, 2], []])
    agent.reply = says('Continue', { sessions: [room(1), room(2), room(3)] })
    await until(() => begun.length === 3)
  })

  it('is not part of heartbeats of a game without it', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Active', { sessionConfig })
    const gsdk = await startAgainst(agent)
    await gsdk.readyForPlayers()
    await until(() => agent.last()?.state === 'Active')
    expect([reportOf(agent, 'Sessions'), gsdk.sessions]).toEqual([undefined, []])
  })

  it('reports the end of one session, while the others go on', async () => {
    const { agent, begun, gsdk } = await playing()
    begun[0]?.end()
    begun[0]?.end()
    expect([gsdk.state, gsdk.session?.sessionId, gsdk.sessions.length]).toEqual(['Active', 'room-2', 1])
    await until(() => String(reportOf(agent, 'EndedSessions')) === '1')
    expect(reportOf(agent, 'Sessions')).toEqual([2])
  })

  it('is standing by once all sessions have ended, and takes later ones', async () => {
    const { agent, begun, gsdk } = await playing()
    for (const session of begun) session.end()
    expect([gsdk.state, gsdk.session]).toEqual(['StandingBy', undefined])
    // The agent does not know it yet.
    agent.reply = says('Active', { sessionConfig: room(1), sessions: [room(1), room(2)] })
    const { length } = agent.beats
    await until(() => agent.beats.length > length + 3)
    expect([gsdk.state, begun.length, reportOf(agent, 'EndedSessions')]).toEqual(['StandingBy', 2, [2, 1]])
    agent.reply = says('Active', { sessionConfig: room(3), sessions: [room(3, { sessionId: 'room-1' })] })
    await until(() => gsdk.state === 'Active')
    expect(begun[2]).toMatchObject({ number: 3, sessionId: 'room-1' })
  })

  it('tells a session that it is to end, once', async () => {
    const { agent, begun } = await playing()
    let asked = 0
    begun[1]?.onEnd(() => void asked++)
    agent.reply = says('Continue', { sessions: [room(1), room(2, { ending: true })] })
    await until(() => asked === 1)
    const { length } = agent.beats
    await until(() => agent.beats.length > length + 3)
    expect(asked).toBe(1)
    begun[1]?.onEnd(() => void asked++)
    expect(asked).toBe(2)
  })

  it('goes on if a callback fails, and while a host that does not lead answers', async () => {
    const { agent, gsdk, log } = await playing()
    gsdk.onSession(() => Promise.reject(new Error('no such map')))
    await until(() => log.error.mock.calls.some(([, message]) => message === 'a callback for sessions failed'))
    agent.reply = says('Continue')
    const { length } = agent.beats
    await until(() => agent.beats.length > length + 3)
    expect([gsdk.state, reportOf(agent, 'Sessions')]).toEqual(['Active', [1, 2]])
  })

  it('gets the one session of an agent that knows no others', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Active', { sessionConfig })
    const gsdk = await startAgainst(agent)
    const begun: RunningSession[] = []
    gsdk.onSession((session) => void begun.push(session))
    await gsdk.readyForPlayers()
    await until(() => agent.last()?.state === 'Active')
    expect(begun.map(({ sessionId, number }) => [sessionId, number])).toEqual([[sessionConfig.sessionId, 1]])
  })
})

const rooms = fileURLToPath(new URL('rooms.mjs', import.meta.url))

describe('a game with several sessions', () => {
  it('is one process on the process backend, whose sessions end one by one', async () => {
    const directory = await temporaryFolder()
    const fleet = await createFleet({
      backend: processBackend({ directory: join(directory, 'games') }),
      agent: { port: 0 },
      logger: false,
    })
    onTestFinished(async () => {
      await fleet.drain({ active: 'terminate' })
      await fleet.close()
    })
    const run = { command: [process.execPath, rooms] }
    const spec = { buildID: 'lobby', standingBy: 0, max: 2, sessionsPerServer: 3, run }
    await fleet.builds.create({ metadata: { name: 'lobby' }, spec })
    const sessionIDs = [1, 2, 3].map((n) => `room-${n}`)
    const allocations = await Promise.all(
      sessionIDs.map((sessionID) => fleet.allocate({ buildID: 'lobby', sessionID }, { waitMs: 30_000, confirm: true })),
    )
    expect(new Set(allocations.map(({ server }) => server.name)).size).toBe(1)
    const ended = new Promise((resolve) => fleet.on('SessionEnded', ({ sessionID }) => resolve(sessionID)))
    await fleet.sessions.end('room-2')
    expect(await ended).toBe('room-2')
    const left = (await fleet.sessions.list()).map(({ sessionID, state }) => [sessionID, state])
    expect(left).toEqual([
      ['room-1', 'Active'],
      ['room-3', 'Active'],
    ])
  })
})
