import type { ServerResponse } from 'node:http'
import { fc, test } from '@fast-check/vitest'
import { describe, expect, it } from 'vitest'
import { defaultTiming, retryDelayOf } from '../../src/sdk/heartbeat-loop.js'
import { allocates, fakeAgent, recordingLogger, says, sessionConfig, startAgainst, until } from './fake-agent.js'

const faults: readonly (readonly [string, (response: ServerResponse) => void])[] = [
  ['answers 500', (response) => void response.writeHead(500).end('{"operation":"Terminate"}')],
  ['answers 404', (response) => void response.writeHead(404).end()],
  ['answers 302', (response) => void response.writeHead(302, { location: '/' }).end()],
  ['hangs', () => {}],
  [
    'hangs in the middle of its answer',
    (response) => void response.writeHead(200, { 'content-length': 99 }).write('{"oper'),
  ],
  [
    'never finishes its answer',
    (response) => {
      const drip = setInterval(() => response.write(' '), 10)
      response.on('close', () => clearInterval(drip))
    },
  ],
  ['breaks the connection', (response) => void response.destroy()],
  [
    'breaks the connection in the middle of its answer',
    (response) => {
      response.writeHead(200, { 'content-length': 99 })
      response.write('{"oper', () => response.destroy())
    },
  ],
  ['answers with an empty body', (response) => void response.end()],
  ['answers with HTML', (response) => void response.end('<html>')],
  ['answers an array', (response) => void response.end('[1]')],
  ['answers null', (response) => void response.end('null')],
  ['answers without an operation', (response) => void response.end('{"nextHeartbeatIntervalMs":1000}')],
  ['does not speak HTTP', (response) => void response.socket?.end('SSH-2.0-x\r\n\r\n')],
  ['sends too long an answer', (response) => void response.end(' '.repeat(3 * 1024 * 1024))],
]

describe('an agent that fails', () => {
  it.each(faults)(
    'and %s is retried until it recovers, with one log line for failure and recovery',
    async (_fault, inject) => {
      const agent = await fakeAgent()
      const logger = recordingLogger()
      // Long enough that a real answer on a busy machine does not count as another failure.
      const gsdk = await startAgainst(agent, { logger, timing: { requestTimeoutMs: 1_500 } })
      await until(() => agent.beats.length >= 2)
      agent.reply = (_heard, response) => inject(response)
      const ready = gsdk.readyForPlayers()
      const heard = agent.beats.length
      await until(() => agent.beats.length >= heard + 4)
      expect(logger.warn).toHaveBeenCalledTimes(1)
      expect(logger.warn.mock.calls[0]?.[1]).toContain(agent.endpoint)
      expect(logger.info).not.toHaveBeenCalled()

      agent.reply = allocates()
      expect(await ready).toEqual(sessionConfig)
      await until(() => logger.info.mock.calls.length > 0)
      expect(logger.info).toHaveBeenCalledExactlyOnceWith(expect.anything(), expect.stringContaining('answers again'))
      expect(logger.warn).toHaveBeenCalledTimes(1)
      expect(logger.error).not.toHaveBeenCalled()
    },
  )

  it('from the start is retried, and gets the latest state once it responds', async () => {
    const gone = await fakeAgent()
    await gone.close()
    const logger = recordingLogger()
    const gsdk = await startAgainst(gone, { logger })
    const ready = gsdk.readyForPlayers()
    gsdk.updateConnectedPlayers(['amie'])
    await until(() => logger.warn.mock.calls.length === 1)
    expect(logger.warn.mock.calls[0]?.[1]).toContain('ECONNREFUSED')

    const back = await fakeAgent(gone.port)
    back.reply = allocates()
    expect(await ready).toEqual(sessionConfig)
    expect(back.beats[0]).toMatchObject({ state: 'StandingBy', players: ['amie'] })
    await until(() => back.introductions.length === 1)
    await until(() => logger.info.mock.calls.length > 0)
    expect(logger.warn).toHaveBeenCalledTimes(1)
    expect(logger.info).toHaveBeenCalledTimes(1)
  })

  it('is not called more often when the game’s state changes', async () => {
    const agent = await fakeAgent()
    agent.reply = (_heard, response) => void response.writeHead(503).end()
    const gsdk = await startAgainst(agent, { timing: { retryInitialMs: 200, retryMaxMs: 200 } })
    await until(() => agent.beats.length === 1)
    const startedAt = performance.now()
    let changes = 0
    while (performance.now() - startedAt < 400) {
      gsdk.updateConnectedPlayers([`p${(changes += 1)}`])
      await new Promise(setImmediate)
    }
    expect(agent.beats.length).toBeLessThanOrEqual(2 + Math.ceil((performance.now() - startedAt) / 100))
  })

  it('does not crash a game whose logger throws', async () => {
    const agent = await fakeAgent()
    agent.reply = (_heard, response) => void response.writeHead(503).end()
    const broken = () => {
      throw new Error('the logger is broken')
    }
    const logger = { debug: broken, info: broken, warn: broken, error: broken }
    await startAgainst(agent, { logger })
    await until(() => agent.beats.length >= 3)
    agent.reply = says('Continue')
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
  })

  test.prop([fc.integer({ min: 1, max: 100_000 }), fc.double({ min: 0, max: 1, noNaN: true })])(
    'is retried well before the fleet’s silence limit, but never immediately',
    (failures, chance) => {
      const delayMs = retryDelayOf(failures, chance, defaultTiming)
      expect(delayMs).toBeGreaterThanOrEqual(250)
      expect(delayMs + defaultTiming.requestTimeoutMs).toBeLessThan(10_000)
    },
  )

  it('is retried after a growing, partly random delay', () => {
    const longest = [1, 2, 3, 4, 5].map((failures) => retryDelayOf(failures, 1, defaultTiming))
    expect(longest).toEqual([500, 1000, 2000, 3000, 3000])
    expect(retryDelayOf(3, 0, defaultTiming)).toBe(1000)
  })
})

describe('an unusual but correct agent', () => {
  it('may respond slowly and in chunks', async () => {
    const agent = await fakeAgent()
    const logger = recordingLogger()
    agent.reply = (heard, response) => {
      const operation = heard.state === 'StandingBy' ? 'Active' : 'Continue'
      const text = Buffer.from(JSON.stringify({ operation, nextHeartbeatIntervalMs: 20, sessionConfig }))
      response.writeHead(200)
      const parts = [...text].map((byte) => Buffer.from([byte]))
      const next = () => {
        const some = parts.splice(0, 40)
        if (some.length === 0) return void response.end()
        // Byte by byte, which splits two-byte characters.
        for (const part of some) response.write(part)
        setImmediate(next)
      }
      next()
    }
    const gsdk = await startAgainst(agent, { logger })
    expect(await gsdk.readyForPlayers()).toEqual(sessionConfig)
    expect(logger.warn.mock.calls.filter(([, message]) => String(message).includes('does not answer'))).toEqual([])
  })
})
