/** The built SDK in separate processes: what keeps them alive, what ends them, and that the SDK does not crash them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { allocates, configuredFor, fakeAgent, type FakeAgent, says, sessionConfig, until } from './fake-agent.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Game {
  readonly process: ChildProcess
  readonly output: { out: string; err: string }
  ended(): Promise<{ readonly code: number | null; readonly signal: string | null }>
}

const quick =
  '{ minHeartbeatIntervalMs: 10, heartbeatIntervalMs: 20, requestTimeoutMs: 3_000, retryInitialMs: 20, retryMaxMs: 40 }'

/** Runs a game's source as an ES module or as CommonJS. */
async function play(agent: FakeAgent, text: string, format: 'module' | 'commonjs' = 'module'): Promise<Game> {
  const { GSDK_CONFIG_FILE } = await configuredFor(agent.endpoint)
  const load =
    format === 'module' ? "import { start } from 'gamekeeper/sdk'" : "const { start } = require('gamekeeper/sdk')"
  const program = `${load}\nconst timing = ${quick}\n${text}`
  const child = spawn(process.execPath, [`--input-type=${format}`, '--eval', program], {
    cwd: root,
    env: { PATH: process.env['PATH'], GSDK_CONFIG_FILE },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const output = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (output.err += part))
  const closed = once(child, 'close')
  return {
    process: child,
    output,
    async ended() {
      await closed
      return { code: child.exitCode, signal: child.signalCode }
    },
  }
}

describe('a process that has started the SDK', () => {
  it('exits when the game has nothing left to do', async () => {
    const agent = await fakeAgent()
    const game = await play(agent, 'await start({ timing, onTerminate() {} })')
    expect(await game.ended()).toEqual({ code: 0, signal: null })
    expect(game.output.err).toBe('')
  })

  it('exits even while the agent does not respond', async () => {
    const agent = await fakeAgent()
    agent.reply = () => {}
    const game = await play(
      agent,
      'await start({ timing: { ...timing, requestTimeoutMs: 60_000 } }); setTimeout(() => {}, 200)',
    )
    expect(await game.ended()).toEqual({ code: 0, signal: null })
    expect(agent.beats).toHaveLength(1)
  })

  it('stays alive only while it waits to be allocated', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      'const gsdk = await start({ timing }); console.log((await gsdk.readyForPlayers()).sessionCookie)',
    )
    await until(() => agent.beats.filter((beat) => beat.state === 'StandingBy').length >= 5)
    expect(game.process.exitCode).toBeNull()
    agent.reply = allocates()
    expect(await game.ended()).toEqual({ code: 0, signal: null })
    expect(game.output.out).toBe(`${sessionConfig.sessionCookie}\n`)
  })

  it('exits when the SDK is stopped while it waits to be allocated', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      'const gsdk = await start({ timing }); void gsdk.readyForPlayers(); setTimeout(gsdk.stop, 100)',
    )
    expect(await game.ended()).toEqual({ code: 0, signal: null })
  })

  it('works from CommonJS', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const game = await play(
      agent,
      'start({ timing }).then((gsdk) => gsdk.readyForPlayers()).then((session) => console.log(session.sessionId))',
      'commonjs',
    )
    expect(await game.ended()).toEqual({ code: 0, signal: null })
    expect(game.output.out).toBe(`${sessionConfig.sessionId}\n`)
  })
})

describe('announced maintenance', () => {
  it('reaches the callback of a waiting game, which stays alive', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `const gsdk = await start({ timing })
       gsdk.onMaintenance((at) => console.log('maintenance at', at.toISOString()))
       await gsdk.readyForPlayers()`,
    )
    await until(() => agent.last()?.state === 'StandingBy')
    agent.reply = says('Continue', { nextScheduledMaintenanceUtc: '2026-11-22T20:15:30Z' })
    await until(() => game.output.out.includes('maintenance at 2026-11-22T20:15:30.000Z'))
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
    expect(game.output.out.match(/maintenance at/g)).toHaveLength(1)
    expect(game.process.exitCode).toBeNull()
  })
})

describe('SIGTERM', () => {
  it('ends a game without callbacks', async () => {
    const agent = await fakeAgent()
    const game = await play(agent, 'const gsdk = await start({ timing }); await gsdk.readyForPlayers()')
    await until(() => agent.last()?.state === 'StandingBy')
    game.process.kill('SIGTERM')
    expect(await game.ended()).toEqual({ code: null, signal: 'SIGTERM' })
  })

  it('runs the callbacks once, and further signals do not interrupt them', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `const gsdk = await start({ timing })
       let calls = 0
       gsdk.onTerminate(() => { console.log('goodbye', ++calls) })
       process.on('SIGUSR2', () => process.exit(7))
       setInterval(() => {}, 1000)
       await gsdk.readyForPlayers()`,
    )
    await until(() => agent.last()?.state === 'StandingBy')
    game.process.kill('SIGTERM')
    await until(() => agent.last()?.state === 'Terminating')
    agent.reply = says('Terminate')
    game.process.kill('SIGTERM')
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
    game.process.kill('SIGUSR2')
    expect(await game.ended()).toEqual({ code: 7, signal: null })
    expect(game.output.out.match(/goodbye \d/g)).toEqual(['goodbye 1'])
  })

  it('is left to the game if handleSigterm is false', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `const gsdk = await start({ timing, handleSigterm: false, onTerminate() { process.exit(3) } })
       await gsdk.readyForPlayers()`,
    )
    await until(() => agent.last()?.state === 'StandingBy')
    game.process.kill('SIGTERM')
    expect(await game.ended()).toEqual({ code: null, signal: 'SIGTERM' })
  })
})

describe('the game does not crash', () => {
  it('when the agent is unreachable, its callbacks fail, or both', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `const gsdk = await start({ timing, health() { throw new Error('health') } })
       gsdk.onTerminate(() => { throw new Error('thrown') })
       gsdk.onTerminate(async () => { throw new Error('rejected') })
       setInterval(() => {}, 1000)
       await gsdk.readyForPlayers()`,
    )
    await until(() => agent.last()?.state === 'StandingBy')
    agent.reply = (_heard, response) => void response.destroy()
    let heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 5)
    agent.reply = says('Terminate')
    await until(() => agent.last()?.state === 'Terminating')
    heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 3)
    expect(game.process.exitCode).toBeNull()
    for (const word of ['health', 'thrown', 'rejected']) expect(game.output.out).toContain(`Error: ${word}`)
    expect(game.output.err).toBe('')
  })

  it('or report the agent as unreachable when it blocks its own process', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `let beats = 0
       const block = () => { const end = Date.now() + 600; while (Date.now() < end); }
       const health = () => { if (++beats === 5) setImmediate(block); return true }
       const gsdk = await start({ timing: { ...timing, requestTimeoutMs: 300 }, health })
       void gsdk.readyForPlayers()`,
    )
    await until(() => agent.beats.length >= 8)
    expect(game.output.out).toBe('')
  })

  it('when it logs after the reader of its output has exited', async () => {
    const agent = await fakeAgent()
    const game = await play(
      agent,
      `const gsdk = await start({ timing, health: () => (gsdk.logs.write('still here'), true) })
       void gsdk.readyForPlayers()`,
    )
    await until(() => game.output.out.includes('still here'))
    game.process.stdout?.destroy()
    game.process.stderr?.destroy()
    const heard = agent.beats.length
    await until(() => agent.beats.length >= heard + 10)
    expect(game.process.exitCode).toBeNull()
  })
})
