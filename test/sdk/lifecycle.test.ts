import { describe, expect, it, vi } from 'vitest'
import {
  allocates,
  fakeAgent,
  recordingLogger,
  says,
  sendJson,
  sessionConfig,
  startAgainst,
  until,
} from './fake-agent.js'

describe('readyForPlayers', () => {
  it('reports StandingBy and resolves with the session when the server is allocated', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    expect(gsdk.state).toBe('Initializing')
    const ready = gsdk.readyForPlayers()
    expect(gsdk.state).toBe('StandingBy')
    await until(() => agent.last()?.state === 'StandingBy')
    expect(gsdk.session).toBeUndefined()

    agent.reply = allocates()
    expect(await ready).toEqual(sessionConfig)
    expect(gsdk.session).toEqual(sessionConfig)
    expect(gsdk.state).toBe('Active')
    await until(() => agent.last()?.state === 'Active')
  })

  it('returns the same promise before and after the allocation', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const { readyForPlayers } = await startAgainst(agent)
    const first = readyForPlayers()
    expect(readyForPlayers()).toBe(first)
    await first
    expect(readyForPlayers()).toBe(first)
    await until(() => agent.last()?.state === 'Active')
    expect(agent.beats.filter((beat) => beat.state === 'StandingBy')).toHaveLength(1)
  })

  it('accepts a session without a cookie, players, or metadata', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Active', { sessionConfig: { sessionId: 's' } })
    const gsdk = await startAgainst(agent)
    expect(await gsdk.readyForPlayers()).toEqual({ sessionId: 's', initialPlayers: [] })
  })

  it('ignores a second Active, and the session in later replies', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    agent.reply = says('Active', { sessionConfig })
    const gsdk = await startAgainst(agent, { logger })
    // The first answer arrives before the game is ready, which is unexpected.
    await gsdk.readyForPlayers()
    const heard = agent.beats.length
    agent.reply = says('Active', { sessionConfig: { ...sessionConfig, sessionId: 'another' } })
    await until(() => agent.beats.length > heard + 2)
    agent.reply = says('Continue', { sessionConfig })
    await until(() => agent.beats.length > heard + 4)
    expect(gsdk.state).toBe('Active')
    expect(gsdk.session?.sessionId).toBe(sessionConfig.sessionId)
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('ignores an Active reply to an earlier heartbeat', async () => {
    const agent = await fakeAgent()
    let answer = () => {}
    agent.reply = (_heard, response) => {
      answer = () => sendJson(response, { operation: 'Active', nextHeartbeatIntervalMs: 20, sessionConfig })
    }
    const gsdk = await startAgainst(agent, { timing: { requestTimeoutMs: 5_000 } })
    await until(() => agent.beats.length === 1)
    void gsdk.readyForPlayers()
    answer()
    await until(() => agent.beats.length === 2)
    expect(gsdk.state).toBe('StandingBy')
    answer()
    await until(() => gsdk.state === 'Active')
  })

  it('ignores invalid replies, and logs each kind once', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    agent.reply = says('Active', { sessionConfig })
    const gsdk = await startAgainst(agent, { logger })
    await until(() => agent.beats.length >= 3)
    expect(gsdk.state).toBe('Initializing')

    agent.reply = says('Active', { sessionConfig: {} })
    const ready = gsdk.readyForPlayers()
    await until(() => agent.beats.filter((beat) => beat.state === 'StandingBy').length >= 3)
    expect(gsdk.state).toBe('StandingBy')

    agent.reply = says('Quarantine')
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
    expect(gsdk.state).toBe('StandingBy')

    agent.reply = allocates()
    await ready
    expect(logger.warn.mock.calls.map(([, message]) => String(message))).toEqual([
      expect.stringContaining('before readyForPlayers'),
      expect.stringContaining('without a session'),
      expect.stringContaining('Quarantine'),
    ])
  })
})

describe('termination', () => {
  it('runs every callback once, and reports Terminating from then on', async () => {
    const agent = await fakeAgent()
    const first = vi.fn()
    const second = vi.fn()
    const gsdk = await startAgainst(agent, { onTerminate: first })
    gsdk.onTerminate(second)
    agent.reply = says('Terminate')
    await until(() => agent.beats.filter((beat) => beat.state === 'Terminating').length >= 3)
    expect(first).toHaveBeenCalledTimes(1)
    expect(second).toHaveBeenCalledTimes(1)
    expect(gsdk.state).toBe('Terminating')
  })

  it('logs callbacks that throw or reject', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const last = vi.fn()
    const gsdk = await startAgainst(agent, { logger })
    gsdk.onTerminate(() => {
      throw new Error('thrown')
    })
    gsdk.onTerminate(() => Promise.reject(new Error('rejected')))
    gsdk.onTerminate(last)
    agent.reply = says('Terminate')
    await until(() => agent.last()?.state === 'Terminating')
    expect(last).toHaveBeenCalledTimes(1)
    const messages = logger.error.mock.calls.map(([fields]) => (fields as { err: Error }).err.message)
    expect(messages).toEqual(['thrown', 'rejected'])
  })

  it('runs a callback at once if it is registered after termination begins', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const gsdk = await startAgainst(agent, { logger })
    agent.reply = says('Terminate')
    await until(() => gsdk.state === 'Terminating')
    expect(logger.warn).toHaveBeenCalledExactlyOnceWith({}, expect.stringContaining('no onTerminate callback'))
    const late = vi.fn(() => {
      throw new Error('late')
    })
    gsdk.onTerminate(late)
    expect(late).toHaveBeenCalledTimes(1)
    await until(() => logger.error.mock.calls.length === 1)
  })

  it('is final: neither Active nor a late readyForPlayers changes it', async () => {
    const agent = await fakeAgent()
    const gsdk = await startAgainst(agent)
    const ready = gsdk.readyForPlayers()
    const allocated = vi.fn()
    void ready.then(allocated)
    await until(() => agent.last()?.state === 'StandingBy')
    agent.reply = says('Terminate')
    await until(() => agent.last()?.state === 'Terminating')
    agent.reply = says('Active', { sessionConfig })
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
    expect(gsdk.readyForPlayers()).toBe(ready)
    expect(gsdk.state).toBe('Terminating')
    expect(allocated).not.toHaveBeenCalled()
  })
})

describe('stop', () => {
  it('stops heartbeats and removes the signal handler, and may be called twice', async () => {
    const agent = await fakeAgent()
    const listeners = process.listenerCount('SIGTERM')
    const gsdk = await startAgainst(agent, { onTerminate: () => {} })
    expect(process.listenerCount('SIGTERM')).toBe(listeners + 1)
    await until(() => agent.beats.length >= 2)
    gsdk.stop()
    gsdk.stop()
    const heard = agent.beats.length
    gsdk.updateConnectedPlayers(['amie'])
    void gsdk.readyForPlayers()
    gsdk.onTerminate(() => {})
    expect(process.listenerCount('SIGTERM')).toBe(listeners)

    // While another SDK sends ten heartbeats, a running one would have sent at least one.
    const other = await fakeAgent()
    await startAgainst(other)
    await until(() => other.beats.length >= 10)
    expect(agent.beats).toHaveLength(heard)
  })

  it.each(['Active', 'Terminate'])('ignores the late reply %s, and sends nothing more', async (operation) => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const ended = vi.fn()
    const allocated = vi.fn()
    let answerLate = () => {}
    const gsdk = await startAgainst(agent, { logger, onTerminate: ended })
    void gsdk.readyForPlayers().then(allocated)
    agent.reply = (_heard, response) => {
      answerLate = () => sendJson(response, { operation, nextHeartbeatIntervalMs: 20, sessionConfig })
    }
    await until(() => agent.last()?.state === 'StandingBy' && agent.seen.atOnce === 1)
    const heard = agent.beats.length
    gsdk.stop()
    answerLate()
    await until(() => agent.seen.atOnce === 0)

    const other = await fakeAgent()
    await startAgainst(other)
    await until(() => other.beats.length >= 5)
    expect(agent.beats).toHaveLength(heard)
    expect(gsdk.state).toBe('StandingBy')
    expect(allocated).not.toHaveBeenCalled()
    expect(ended).not.toHaveBeenCalled()
    expect(logger.warn).not.toHaveBeenCalled()
  })
})
