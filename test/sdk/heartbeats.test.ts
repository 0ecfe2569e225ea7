import { describe, expect, it, vi } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { defaultTiming, intervalOf } from '../../src/sdk/heartbeat-loop.js'
import { introduction } from '../../src/sdk/gsdk.js'
import { allocates, fakeAgent, recordingLogger, says, startAgainst, until } from './fake-agent.js'

describe('heartbeats', () => {
  it('start on their own, as Initializing, in the protocol’s format', async () => {
    const agent = await fakeAgent()
    await startAgainst(agent)
    await until(() => agent.beats.length >= 2)
    expect(agent.beats[0]).toMatchObject({
      method: 'PATCH',
      path: '/v1/sessionHosts/arena-x7k2p.6f1c',
      contentType: 'application/json',
      body: { CurrentGameState: 'Initializing', CurrentGameHealth: 'Healthy', CurrentPlayers: [] },
    })
  })

  it('start before the SDK announces itself in the log, which it does once', async () => {
    const agent = await fakeAgent()
    await startAgainst(agent)
    await until(() => agent.beats.length >= 4)
    expect(agent.introductions).toHaveLength(1)
    expect(agent.introductions[0]).toMatchObject({
      method: 'POST',
      path: '/v1/metrics/arena-x7k2p.6f1c/gsdkinfo',
      body: { Flavor: 'Node', Version: packageJson.version },
    })
    expect(introduction.Version).toBe(packageJson.version)
  })

  it.each([
    ['refuses', (response: import('node:http').ServerResponse) => void response.writeHead(500).end()],
    ['never answers', () => {}],
    ['breaks off', (response: import('node:http').ServerResponse) => void response.destroy()],
  ])('continue if the agent %s the introduction, which is not repeated', async (_how, reply) => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    agent.replyToIntroduction = (_heard, response) => reply(response)
    await startAgainst(agent, { logger, timing: { requestTimeoutMs: 500 } })
    await until(() => agent.beats.length >= 4)
    expect(agent.introductions).toHaveLength(1)
    expect(logger.warn).not.toHaveBeenCalled()
  })

  it("follow the agent's interval", async () => {
    const agent = await fakeAgent()
    agent.reply = says('Continue', {}, 120)
    await startAgainst(agent)
    await until(() => agent.beats.length >= 5)
    const gaps = agent.beats.slice(1).map((beat, i) => beat.atMs - (agent.beats[i]?.atMs ?? 0))
    // Never earlier, except that rounding may make a timer 1 ms early. The interval starts with the answer.
    expect(Math.min(...gaps)).toBeGreaterThan(115)
  })

  it.each([
    [undefined, 1000],
    [0.001, 1000],
    [1000, 1000],
    [2500, 2500],
    [86_400_000, 30_000],
    [Number.POSITIVE_INFINITY, 30_000],
  ])('with the interval %s ms wait for %s ms', (asked, waited) => {
    expect(intervalOf(asked, defaultTiming)).toBe(waited)
  })

  it.each(['"1000"', 'null', '-5', '1e999', '{}'])('ignore an invalid interval: %s', async (interval) => {
    const agent = await fakeAgent()
    agent.reply = (_heard, response) => {
      response.end(`{"operation":"Continue","nextHeartbeatIntervalMs":${interval}}`)
    }
    await startAgainst(agent, { timing: { maxHeartbeatIntervalMs: 30 } })
    await until(() => agent.beats.length >= 3)
  })

  it('are sent at once when the state changes, regardless of the interval', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates(30_000)
    const gsdk = await startAgainst(agent)
    await until(() => agent.beats.length === 1)
    await gsdk.readyForPlayers()
    await until(() => agent.beats.length === 3)
    expect(agent.beats.map((beat) => beat.state)).toEqual(['Initializing', 'StandingBy', 'Active'])
  })

  it('are sent at once when players change, once for several changes', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Continue', {}, 30_000)
    const gsdk = await startAgainst(agent)
    await until(() => agent.introductions.length === 1)
    for (let i = 0; i <= 100; i++) gsdk.updateConnectedPlayers(Array.from({ length: i }, (_, n) => `p${n}`))
    await until(() => agent.beats.length === 2)
    expect(agent.last()?.players).toHaveLength(100)

    // A swap keeps the length, and an empty list is also a change.
    gsdk.updateConnectedPlayers(['amie', 'bob'])
    await until(() => agent.beats.length === 3)
    gsdk.updateConnectedPlayers(['amie', 'cleo'])
    await until(() => agent.beats.length === 4)
    expect(agent.last()?.players).toEqual(['amie', 'cleo'])
    gsdk.updateConnectedPlayers([])
    await until(() => agent.beats.length === 5)
    expect(agent.last()?.players).toEqual([])
  })

  it('are not sent early for an unchanged list, nor more often than the minimum gap allows', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Continue', {}, 30_000)
    const gsdk = await startAgainst(agent)
    await until(() => agent.introductions.length === 1)
    const startedAt = performance.now()
    let changes = 0
    while (performance.now() - startedAt < 400) {
      gsdk.updateConnectedPlayers([`p${(changes += 1)}`])
      await new Promise(setImmediate)
    }
    const last = `p${changes}`
    await until(() => agent.last()?.players[0] === last)
    expect(changes).toBeGreaterThan(50)
    expect(agent.beats.length).toBeLessThanOrEqual(2 + Math.ceil((performance.now() - startedAt) / 60))

    const before = agent.beats.length
    gsdk.updateConnectedPlayers([last])
    gsdk.updateConnectedPlayers([last, 'amie'])
    await until(() => agent.last()?.players.length === 2)
    expect(agent.beats).toHaveLength(before + 1)
  })

  it('are sent one at a time; a change made during a heartbeat is sent right after it', async () => {
    const agent = await fakeAgent()
    const held: (() => void)[] = []
    agent.reply = (heard, response, request) => {
      if (heard.state === 'Initializing') held.push(() => says('Continue', {}, 30_000)(heard, response, request))
      else says('Continue', {}, 30_000)(heard, response, request)
    }
    const gsdk = await startAgainst(agent, { timing: { requestTimeoutMs: 5_000 } })
    await until(() => held.length === 1)
    void gsdk.readyForPlayers()
    gsdk.updateConnectedPlayers(['amie'])
    await new Promise(setImmediate)
    expect(agent.beats).toHaveLength(1)
    held[0]?.()
    await until(() => agent.beats.length === 2)
    expect(agent.last()).toMatchObject({ state: 'StandingBy', players: ['amie'] })
    expect(agent.seen.mostAtOnce).toBe(1)
  })

  it('share one connection', async () => {
    const agent = await fakeAgent()
    await startAgainst(agent)
    await until(() => agent.beats.length >= 10)
    expect(agent.seen.connections).toBe(1)
  })

  it('are retried if the agent closes the keep-alive connection while it is in use', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const used = new WeakSet<object>()
    agent.reply = (heard, response, request) => {
      if (used.has(request.socket)) return void response.destroy()
      used.add(request.socket)
      says('Continue')(heard, response, request)
    }
    await startAgainst(agent, { logger })
    await until(() => agent.beats.length >= 10)
    expect(agent.seen.connections).toBeGreaterThanOrEqual(5)
    expect(logger.warn).not.toHaveBeenCalled()
  })

  it('continue after the agent closes an idle connection', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    await startAgainst(agent, { logger })
    for (let round = 1; round <= 5; round++) {
      const seen = agent.beats.length
      await until(() => agent.beats.length > seen)
      agent.closeConnections()
    }
    const seen = agent.beats.length
    await until(() => agent.beats.length > seen)
    expect(agent.seen.connections).toBeGreaterThan(1)
    expect(logger.warn).not.toHaveBeenCalled()
  })
})

describe('health', () => {
  it('is read from the game’s callback for each heartbeat', async () => {
    const agent = await fakeAgent()
    let healthy = true
    await startAgainst(agent, { health: () => healthy })
    await until(() => agent.last()?.health === 'Healthy')
    healthy = false
    await until(() => agent.last()?.health === 'Unhealthy')
    healthy = true
    await until(() => agent.last()?.health === 'Healthy')
  })

  it('is Unhealthy while the callback throws, and the error is logged once', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    let broken = true
    const health = vi.fn(() => {
      if (broken) throw new Error('no world')
      return true
    })
    await startAgainst(agent, { health, logger })
    await until(() => agent.beats.length >= 3)
    expect(agent.last()?.health).toBe('Unhealthy')
    expect(logger.error).toHaveBeenCalledExactlyOnceWith(
      { err: expect.objectContaining({ message: 'no world' }) },
      expect.stringContaining('health'),
    )
    broken = false
    await until(() => agent.last()?.health === 'Healthy')
    broken = true
    await until(() => agent.last()?.health === 'Unhealthy')
    expect(logger.error).toHaveBeenCalledTimes(2)
  })

  it('tolerates an asynchronous callback, and logs a message about it', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    const mistaken: () => unknown = () => Promise.reject(new Error('no world'))
    // @ts-expect-error possible in JavaScript
    await startAgainst(agent, { health: mistaken, logger })
    await until(() => agent.beats.length >= 3)
    expect(logger.error).toHaveBeenCalledTimes(1)
    expect(logger.error.mock.calls[0]?.[1]).toContain('promise')
  })
})
