/** How the SDK learns of its session within milliseconds: the agent may hold the answer to a StandingBy heartbeat. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createFleet } from 'gamekeeper'
import { agentListener } from 'gamekeeper/http'
import { memoryBackend } from 'gamekeeper/memory'
import { start } from 'gamekeeper/sdk'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  configuredFor,
  type FakeAgent,
  fakeAgent,
  guid,
  recordingLogger,
  says,
  sendJson,
  sessionConfig,
  startAgainst,
  until,
} from './fake-agent.js'

const intervalMs = 30_000

/** Holds the answers to StandingBy heartbeats; answers others at once. */
async function holdingAgent(): Promise<{
  readonly agent: FakeAgent
  readonly held: ServerResponse[]
  readonly closed: () => number
}> {
  const agent = await fakeAgent()
  const held: ServerResponse[] = []
  let closed = 0
  agent.reply = (heard, response, request) => {
    if (heard.state !== 'StandingBy') return says('Continue', {}, intervalMs)(heard, response, request)
    held.push(response)
    response.on('close', () => closed++)
  }
  return { agent, held, closed: () => closed }
}

const states = (agent: FakeAgent) => agent.beats.map(({ state }) => state)

describe('while it waits for its session, the SDK', () => {
  it('prefers a held answer, for one heartbeat interval, and in no other state', async () => {
    const { agent, held } = await holdingAgent()
    const gsdk = await startAgainst(agent)
    await until(() => agent.beats.length === 1)
    const ready = gsdk.readyForPlayers()
    await until(() => held.length === 1)
    sendJson(held[0] as ServerResponse, { operation: 'Active', nextHeartbeatIntervalMs: intervalMs, sessionConfig })
    expect(await ready).toMatchObject({ sessionId: guid })
    await until(() => agent.beats.length === 3)
    expect(agent.beats.map(({ state, prefer }) => [state, prefer])).toEqual([
      ['Initializing', undefined],
      ['StandingBy', 'wait=30'],
      ['Active', undefined],
    ])
    expect(agent.seen.connections).toBe(1)
  })

  it('waits for a held answer longer than the timeout of a request', async () => {
    const { agent, held } = await holdingAgent()
    const logger = recordingLogger()
    // Long enough for the first heartbeat, which is not held, on a busy machine.
    const requestTimeoutMs = 2_000
    const gsdk = await startAgainst(agent, { logger, timing: { requestTimeoutMs } })
    agent.replyToIntroduction = (_heard, response) => void response.writeHead(200).end()
    await until(() => agent.beats.length === 1)
    const startedAt = performance.now()
    const ready = gsdk.readyForPlayers()
    await until(() => held.length === 1 && performance.now() - startedAt > requestTimeoutMs + 500)
    sendJson(held[0] as ServerResponse, { operation: 'Active', nextHeartbeatIntervalMs: intervalMs, sessionConfig })
    await ready
    expect(logger.warn).not.toHaveBeenCalled()
  })

  it('sends the next heartbeat at once if a held answer brings nothing new', async () => {
    const agent = await fakeAgent()
    agent.reply = (heard, response, request) => {
      const answer = () => says('Continue', {}, 300)(heard, response, request)
      if (heard.state === 'StandingBy') setTimeout(answer, 300)
      else answer()
    }
    const gsdk = await startAgainst(agent)
    void gsdk.readyForPlayers()
    await until(() => states(agent).filter((state) => state === 'StandingBy').length >= 4)
    const beats = agent.beats.filter(({ state }) => state === 'StandingBy')
    const gaps = beats.slice(1).map((beat, i) => beat.atMs - (beats[i]?.atMs ?? 0))
    // After an interval of its own, each would take twice as long. The machine may be busy for some of them.
    expect(Math.min(...gaps)).toBeLessThan(2 * 300)
    expect(agent.seen.connections).toBe(1)
  })

  it('keeps its interval with an agent that does not hold answers', async () => {
    const agent = await fakeAgent()
    agent.reply = says('Continue', {}, 120)
    const gsdk = await startAgainst(agent)
    void gsdk.readyForPlayers()
    await until(() => agent.beats.length >= 6)
    const gaps = agent.beats.slice(2).map((beat, i) => beat.atMs - (agent.beats[i + 1]?.atMs ?? 0))
    // The interval is counted from the heartbeat, and its arrival may be late.
    expect(gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length).toBeGreaterThan(100)
  })

  it('interrupts a held heartbeat when its players change, and gets its session with the next one', async () => {
    const { agent, held, closed } = await holdingAgent()
    const logger = recordingLogger()
    const gsdk = await startAgainst(agent, { logger })
    const ready = gsdk.readyForPlayers()
    await until(() => held.length === 1)
    gsdk.updateConnectedPlayers(['amie'])
    await until(() => held.length === 2 && closed() === 1)
    expect(agent.last()).toMatchObject({ state: 'StandingBy', players: ['amie'] })
    sendJson(held[1] as ServerResponse, { operation: 'Active', nextHeartbeatIntervalMs: intervalMs, sessionConfig })
    expect(await ready).toMatchObject({ sessionId: guid })
    expect(logger.warn).not.toHaveBeenCalled()
    expect(logger.info).not.toHaveBeenCalled()
  })

  it('interrupts a held heartbeat on SIGTERM, and reports Terminating at once', async () => {
    const { agent, held, closed } = await holdingAgent()
    const ended = vi.fn()
    const gsdk = await startAgainst(agent, { onTerminate: ended })
    void gsdk.readyForPlayers()
    await until(() => held.length === 1)
    process.emit('SIGTERM')
    await until(() => agent.last()?.state === 'Terminating' && closed() === 1)
    expect(ended).toHaveBeenCalledTimes(1)
  })

  it('ends a held heartbeat when it is stopped', async () => {
    const { agent, held, closed } = await holdingAgent()
    const gsdk = await startAgainst(agent)
    void gsdk.readyForPlayers()
    await until(() => held.length === 1)
    gsdk.stop()
    await until(() => closed() === 1)
    expect(agent.beats.at(-1)?.state).toBe('StandingBy')
  })

  it('does not ask for a held answer in a retry, which a change could not interrupt', async () => {
    const { agent, held } = await holdingAgent()
    const gsdk = await startAgainst(agent)
    void gsdk.readyForPlayers()
    await until(() => held.length === 1)
    held[0]?.destroy()
    await until(() => held.length === 2)
    expect(agent.beats.filter(({ state }) => state === 'StandingBy').map(({ prefer }) => prefer)).toEqual([
      expect.stringMatching(/^wait=/),
      undefined,
    ])
  })
})

describe('a fleet that mounts agentListener in its own server', () => {
  it('gives the SDK its session at once, long before its next heartbeat is due', async () => {
    const backend = memoryBackend({ script: 'manual' })
    const fleet = await createFleet({
      backend,
      agent: { external: '127.0.0.1:1' },
      limits: { heartbeatIntervalMs: 30_000, silenceMs: 60_000 },
    })
    const server = createServer(agentListener(fleet))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(async () => {
      await fleet.close()
      server.closeAllConnections()
      server.close()
    })
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: {
        buildID: 'arena',
        standingBy: 1,
        max: 1,
        portsToExpose: [7777],
        template: { spec: { containers: [{ name: 'game' }] } },
      },
    })
    await until(() => backend.servers().some(({ phase }) => phase === 'running'))
    const [instance] = backend.servers()
    const { port } = server.address() as AddressInfo
    const sessionHostId = instance?.spec.sdk.sessionHostId ?? ''
    const { GSDK_CONFIG_FILE } = await configuredFor(`127.0.0.1:${port}`, { sessionHostId })
    const gsdk = await start({ env: { GSDK_CONFIG_FILE }, logger: recordingLogger() })
    onTestFinished(() => gsdk.stop())
    const order: string[] = []
    void gsdk.readyForPlayers().then(() => order.push('game'))
    await vi.waitFor(async () => {
      expect((await fleet.builds.get('arena')).status.currentStandingBy).toBe(1)
    }, 300_000)
    await fleet.allocate({ buildID: 'arena', sessionID: guid }, { confirm: true })
    order.push('caller')
    await until(() => order.length === 2)
    expect(gsdk.session?.sessionId).toBe(guid)
  })
})
