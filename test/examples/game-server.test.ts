/** The example game server as a fleet starts it: with a process, a configuration file, an agent, and players. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import build from '../../examples/game-server/build.json' with { type: 'json' }
import { checkTemplate, gameContainerOf } from '../../src/rules/validation/pod-template.js'
import { allocates, configuredFor, fakeAgent, type FakeAgent, says, sessionConfig, until } from '../sdk/fake-agent.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const answer = `session ${sessionConfig.sessionId} cookie ${sessionConfig.sessionCookie} players amie,bob`

interface Server {
  readonly process: ChildProcess
  readonly port: number
  readonly logFolder: string
  readonly output: () => string
  ended(): Promise<{ readonly code: number | null; readonly signal: string | null }>
}

async function startServer(agent: FakeAgent, switches: Record<string, string> = {}): Promise<Server> {
  const port = await freePort()
  const { GSDK_CONFIG_FILE, folder } = await configuredFor(agent.endpoint, {
    ports: [{ name: 'game', listening: port, public: port }],
  })
  return { ...run({ GSDK_CONFIG_FILE, ...switches }), port, logFolder: join(folder, 'GameLogs') }
}

function run(env: Record<string, string>): Pick<Server, 'process' | 'output' | 'ended'> {
  const child = spawn(process.execPath, gameContainerOf(build.spec.template).command.slice(1), {
    cwd: root,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (part: string) => (output += part))
  }
  const closed = once(child, 'close')
  return {
    process: child,
    output: () => output,
    async ended() {
      await closed
      return { code: child.exitCode, signal: child.signalCode }
    },
  }
}

/** A TCP port that was just free. */
async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

interface Player {
  readonly socket: Socket
  readonly received: () => readonly string[]
  say(text: string): void
}

/** A TCP player, like a person with netcat. */
async function joinTcp(port: number): Promise<Player> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  onTestFinished(() => void socket.destroy())
  let text = ''
  socket.setEncoding('utf8').on('data', (part) => (text += String(part)))
  socket.on('error', () => {}) // The server may end first.
  await once(socket, 'connect')
  return { socket, received: () => text.split('\n').slice(0, -1), say: (line) => void socket.write(line) }
}

/** Sends one datagram from a new socket; resolves with the answer. */
async function sayUdp(port: number, text: string): Promise<string> {
  const socket = createSocket('udp4')
  try {
    const answered = once(socket, 'message')
    socket.send(text, port, '127.0.0.1')
    const [datagram] = await answered
    return String(datagram)
  } finally {
    socket.close()
  }
}

describe('the example game server', () => {
  it('is ready at once and gets its session when allocated', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'Active')

    const player = await joinTcp(server.port)
    player.say('hello amie\n')
    // One that is slow to speak is greeted first.
    await until(() => player.received().at(-1) === answer)
    expect(await sayUdp(server.port, 'hello bob')).toBe(`${answer}\n`)
    await until(() => agent.last()?.players.length === 2)
    expect(agent.last()?.players).toEqual(['amie', 'bob'])
  })

  it('keeps the match when a player’s connection is reset, or its answer fits no datagram', async () => {
    const agent = await fakeAgent()
    const long = { ...sessionConfig, sessionCookie: 'c'.repeat(70_000) }
    agent.reply = says('Active', { sessionConfig: long }, 20)
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'Active')
    const [leaver, stayer] = [await joinTcp(server.port), await joinTcp(server.port)]
    leaver.say('hello amie\n')
    stayer.say('hello bob\n')
    await until(() => agent.last()?.players.length === 2)
    leaver.socket.resetAndDestroy()
    const socket = createSocket('udp4')
    onTestFinished(() => void socket.close())
    socket.send('hello eve', server.port, '127.0.0.1')
    await until(() => agent.last()?.players.join() === 'bob,eve')
    const before = stayer.received().length
    stayer.say('\n')
    await until(() => stayer.received().length > before)
    expect(server.process.exitCode).toBe(null)
  })

  it('responds to an empty line, an unterminated line, and a client that sends nothing', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'Active')
    const ways = ['\n', '\r\n', 'hello amie\r\n', 'who?\n']
    for (const way of ways) {
      const player = await joinTcp(server.port)
      player.say(way)
      await until(() => player.received().length > 0)
      expect(player.received()[0]).toContain(sessionConfig.sessionCookie)
      player.socket.destroy()
    }

    const brief = await joinTcp(server.port)
    brief.socket.end('hello amie')
    await once(brief.socket, 'end')
    expect(brief.received().at(-1)).toBe(answer)

    const silent = await joinTcp(server.port)
    silent.socket.end()
    await once(silent.socket, 'end')
    expect(silent.received()).not.toEqual([])

    const idle = await joinTcp(server.port)
    await until(() => idle.received().length > 0)
    expect(idle.received()[0]).toContain(sessionConfig.sessionCookie)
    expect(await sayUdp(server.port, '\n')).toContain(sessionConfig.sessionCookie)
  })

  it('answers "standing by" until it is allocated', async () => {
    const agent = await fakeAgent()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'StandingBy')
    const player = await joinTcp(server.port)
    player.say('hello amie\n')
    await until(() => player.received().at(-1) === 'standing by')
    expect(await sayUdp(server.port, 'hello amie')).toBe('standing by\n')
  })

  it('reports players who connect and disconnect', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'Active')
    const reported = (names: string) => until(() => agent.last()?.players.join(',') === names)

    const first = await joinTcp(server.port)
    await reported('guest-1')
    first.say('hello cleo\n')
    await reported('cleo')
    await sayUdp(server.port, 'hello dan')
    await reported('cleo,dan')
    expect(await sayUdp(server.port, 'anything')).toBe(`${answer},cleo,dan\n`)
    await sayUdp(server.port, 'bye dan')
    await reported('cleo')
    first.socket.destroy()
    await reported('')
  })

  it.each([
    ['quit', 0],
    ['crash', 1],
  ])('exits on the command %s with code %d', async (word, code) => {
    const agent = await fakeAgent()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'StandingBy')
    const player = await joinTcp(server.port)
    player.say(`${word}\n`)
    expect(await server.ended()).toEqual({ code, signal: null })
  })

  it('accepts quit over UDP', async () => {
    const agent = await fakeAgent()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'StandingBy')
    const socket = createSocket('udp4')
    onTestFinished(() => void socket.close())
    socket.send('quit', server.port, '127.0.0.1')
    expect(await server.ended()).toEqual({ code: 0, signal: null })
  })

  it.each(['Terminate', 'SIGTERM'])('says goodbye on %s and exits with code 0', async (how) => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const server = await startServer(agent)
    await until(() => agent.last()?.state === 'Active')
    const player = await joinTcp(server.port)
    await until(() => agent.last()?.players.length === 1)
    if (how === 'SIGTERM') server.process.kill('SIGTERM')
    else agent.reply = says('Terminate')
    // A new player brings the next heartbeat forward.
    await joinTcp(server.port).catch(() => undefined)
    expect(await server.ended()).toEqual({ code: 0, signal: null })
    await until(() => player.received().includes('goodbye'))
    const [file = ''] = await readdir(server.logFolder)
    expect(await readFile(join(server.logFolder, file), 'utf8')).toMatch(
      /session .* begins, expecting amie, bob\n[^]*goodbye\n$/,
    )
  })

  it('listens on 7777 or PORT_7777 when its configuration names no port', async () => {
    const agent = await fakeAgent()
    const port = await freePort()
    const { GSDK_CONFIG_FILE } = await configuredFor(agent.endpoint, { ports: [] })
    run({ GSDK_CONFIG_FILE, PORT_7777: String(port) })
    await until(() => agent.last()?.state === 'StandingBy')
    expect(await sayUdp(port, '')).toBe('standing by\n')
  })

  it('explains why it cannot run without a fleet', async () => {
    const alone = run({})
    expect(await alone.ended()).toEqual({ code: 1, signal: null })
    expect(alone.output()).toContain('GSDK_CONFIG_FILE is not set')
    expect(alone.output().trim().split('\n')).toHaveLength(1)
  })
})

describe('a variable of the example game server', () => {
  it('NEVER_READY keeps it Initializing', async () => {
    const agent = await fakeAgent()
    await startServer(agent, { NEVER_READY: '1' })
    await until(() => agent.beats.length >= 3)
    expect(new Set(agent.beats.map((beat) => beat.state))).toEqual(new Set(['Initializing']))
  })

  it('READY_AFTER_MS delays StandingBy', async () => {
    const agent = await fakeAgent()
    await startServer(agent, { READY_AFTER_MS: '4000' })
    await until(() => agent.last()?.state === 'StandingBy')
    // One at its start and one a second later; without the variable there is only the first.
    expect(agent.beats.filter((beat) => beat.state === 'Initializing').length).toBeGreaterThanOrEqual(2)
  })

  it('STOP_HEARTBEAT_AFTER_MS stops its heartbeats while it keeps running', async () => {
    const agent = await fakeAgent()
    agent.reply = allocates()
    const server = await startServer(agent, { STOP_HEARTBEAT_AFTER_MS: '6000' })
    await until(() => agent.beats.length >= 3)
    const player = await joinTcp(server.port)
    const startedAt = agent.beats[0]?.atMs ?? 0
    // With the beat that may have been on its way.
    await until(() => performance.now() - startedAt > 9_000)
    const beats = agent.beats.length
    await until(() => performance.now() - startedAt > 11_000)
    player.say('hello cleo\n')
    await until(() => player.received().some((line) => line.includes('cleo')))
    expect(server.process.exitCode).toBeNull()
    expect(agent.beats).toHaveLength(beats)
  })

  it('UNHEALTHY_AFTER_MS makes it report Unhealthy', async () => {
    const agent = await fakeAgent()
    await startServer(agent, { UNHEALTHY_AFTER_MS: '500' })
    await until(() => agent.last()?.health === 'Unhealthy')
    expect(agent.beats[0]?.health).toBe('Healthy')
  })

  it('END_AFTER_SECONDS makes it exit that long after its allocation, and not before', async () => {
    const agent = await fakeAgent()
    const server = await startServer(agent, { END_AFTER_SECONDS: '0.3' })
    await until(() => agent.beats.filter((beat) => beat.state === 'StandingBy').length >= 2)
    expect(server.process.exitCode).toBeNull()
    agent.reply = allocates()
    expect(await server.ended()).toEqual({ code: 0, signal: null })
  })
})

describe('the build of the example game server', () => {
  it('is accepted by every backend that does not need an image', () => {
    expect(checkTemplate(build.spec.template, 'process', 'spec.template')).toEqual({ ok: true, value: { skipped: [] } })
    expect(gameContainerOf(build.spec.template).ports[0]?.containerPort).toBe(build.spec.portsToExpose[0])
  })
})
