/** How the bundled server exits, and what its successor finds. */
import { randomUUID } from 'node:crypto'
import { spawn } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { backend, namespaceEnv } from './backend.js'
import { allocate, getBuild, listBuilds, listServers, portOf, recount, say } from './client.js'
import { type Environment, type Host, type HostOptions, root, startHost, watch } from './host.js'
import { portRangeText, type Ports } from './port-ranges.js'
import { until } from './until.js'
import { workplace, type Workplace } from './workplace.js'

const limitMs = 400_000
const sample = '85ffe8da-c82f-4035-86c5-9d2b5f42d6f5'

interface Scene extends Workplace {
  readonly env: Environment
  readonly host: Host
  readonly sessionID: string
  /** The port of the server with the match. */
  readonly port: number
}

/** A host with one match and two servers that are standing by. */
async function scene(ports: Ports, options: HostOptions = {}): Promise<Scene> {
  const place = await workplace()
  const env = { DATA_DIR: place.dataDir, PORT_RANGE: portRangeText(ports) }
  const host = await startHost(env, options)
  await until('the sample build exists', async () => (await listBuilds(host)).length > 0)
  const sessionID = randomUUID()
  const { status, body } = await allocate(host, { buildID: sample, sessionID, sessionCookie: 'duel' }, 60)
  expect(status).toBe(200)
  await untilSettled(host)
  // The game gets its session with the next heartbeat reply.
  await until('the game has its session', async () => (await say(portOf(body.Ports), 'who')).includes(sessionID))
  return { ...place, env, host, sessionID, port: portOf(body.Ports) }
}

async function untilSettled(host: Host): Promise<void> {
  await until('two servers are standing by besides the match', async () => {
    const { StandingBy, Active } = recount(await listServers(host))
    return StandingBy === 2 && Active === 1
  })
}

/** A server without its health, which is unknown until its first heartbeat to this host. */
async function facts(host: Host): Promise<readonly object[]> {
  const servers = await listServers(host)
  return servers
    .map(({ metadata, status: { health: _, ...status } }) => ({ ...metadata, ...status }))
    .toSorted((a, b) => a.name.localeCompare(b.name))
}

describe.each([
  ['SIGTERM', 'leaving-sigterm'],
  ['SIGHUP', 'leaving-sighup'],
  ['SIGINT', 'leaving-sigint'],
] as const)('a host without a terminal that receives %s', (signal, ports) => {
  it('exits during a match, and its successor has the same servers and sessions', { timeout: limitMs }, async () => {
    const { host, env, sessionID, port, running } = await scene(ports)
    const before = { facts: await facts(host), running: await running() }
    expect(await host.exit(signal)).toEqual({ code: 0, signal: null })
    expect(host.log().at(-1)?.message).toBe(`exiting on ${signal}; 3 game servers left running for the next start`)
    expect(await running()).toEqual(before.running)
    expect(await say(port, 'hello amie')).toContain(`session ${sessionID} cookie duel`)

    const next = await startHost(env)
    expect(next.agent).toBe(host.agent)
    expect(await facts(next)).toEqual(before.facts)
    await until('all servers have sent a heartbeat', async () => {
      return (await listServers(next)).every(({ status }) => status.health === 'Healthy')
    })
    expect(await facts(next)).toEqual(before.facts)
    expect(await running()).toEqual(before.running)
    const again = await allocate(next, { buildID: sample, sessionID })
    expect(again).toMatchObject({ status: 200, body: { Ports: `7777:${port}`, SessionID: sessionID } })
    expect(next.log().filter(({ event }) => event === 'BuildCreated')).toEqual([])
  })
})

describe('a host interrupted by Ctrl-C', () => {
  it(
    'refuses allocations, exits after the match, and creates new servers at the next start',
    { timeout: limitMs },
    async () => {
      const { host, env, sessionID, port, running } = await scene('leaving-ctrl-c', { terminal: true })
      host.pressCtrlC()
      await until('only the match is left', async () => (await running()).length === 1)
      expect(host.log().map(({ message }) => message)).toContain(
        'draining: 1 match still running; press Ctrl-C again to exit at once',
      )
      expect(await allocate(host, { buildID: sample, sessionID: randomUUID() }, 5)).toMatchObject({
        status: 503,
        body: { error: expect.stringContaining('draining') },
      })
      expect(await allocate(host, { buildID: sample, sessionID })).toMatchObject({ status: 200 })
      expect(await say(port, 'hello amie')).toContain(sessionID)

      await say(port, 'quit').catch(() => undefined) // The game exits without an answer.
      expect(await host.exit()).toEqual({ code: 0, signal: null })
      expect(host.log().at(-1)?.message).toBe('drained; no game server is running')
      expect(await running()).toEqual([])

      const next = await startHost(env)
      expect((await listBuilds(next)).map(({ metadata }) => metadata.name)).toEqual(['arena'])
      await until(
        'two servers are standing by',
        async () => (await getBuild(next, 'arena')).status.currentStandingBy === 2,
      )
      expect((await getBuild(next, 'arena')).status).toMatchObject({ currentActive: 0, crashesCount: 0 })
    },
  )

  it('exits at once when interrupted again, and the match continues', { timeout: limitMs }, async () => {
    const { host, env, sessionID, port, running } = await scene('leaving-twice', { terminal: true })
    host.pressCtrlC()
    await until('only the match is left', async () => (await listServers(host)).length === 1)
    const match = await running()
    // Signals at almost the same time count as one key press, so the signal is repeated.
    await until('the host has exited', () => {
      if (host.process.exitCode === null) host.pressCtrlC()
      return host.process.exitCode !== null
    })
    expect(await host.exit()).toEqual({ code: 130, signal: null })
    expect(host.log().at(-1)?.message).toBe('exiting on SIGINT; 1 game server left running for the next start')
    expect(await running()).toEqual(match)

    const next = await startHost(env)
    await untilSettled(next)
    expect(await allocate(next, { buildID: sample, sessionID })).toMatchObject({
      status: 200,
      body: { Ports: `7777:${port}` },
    })
    expect(await running()).toEqual(expect.arrayContaining([...match]))
  })
})

describe('a host under npm start', () => {
  async function npmStart(
    range: Ports,
    terminal: boolean,
  ): Promise<{ readonly npm: ReturnType<typeof watch>; readonly place: Workplace }> {
    const place = await workplace()
    const ports = { PORT_RANGE: portRangeText(range), ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0' }
    const env = { ...process.env, ...ports, BACKEND: backend, ...namespaceEnv(), DATA_DIR: place.dataDir }
    const npm = watch(
      terminal
        ? spawn('script', ['-qfec', 'stty -echo; npm start --ignore-scripts -- --json', '/dev/null'], {
            cwd: root,
            env,
          })
        : spawn('npm', ['start', '--ignore-scripts'], { cwd: root, env }),
    )
    await until('two servers are standing by', async () => {
      const ready = npm.log().find(({ message }) => message === 'ready')
      if (!ready) return false
      const urls = { allocation: String(ready['allocation']), management: String(ready['management']) }
      return recount(await listServers(urls)).StandingBy === 2
    })
    return { npm, place }
  }

  it('drains on a single Ctrl-C, although npm forwards it a second time', { timeout: limitMs }, async () => {
    const { npm, place } = await npmStart('leaving-npm', true)
    npm.pressCtrlC()
    await npm.exit()
    expect(npm.log().at(-1)?.message).toBe('drained; no game server is running')
    expect(await place.running()).toEqual([])
  })

  it('exits on a SIGTERM sent only to npm', { timeout: limitMs }, async () => {
    const { npm, place } = await npmStart('leaving-npm-sigterm', false)
    await npm.exit('SIGTERM')
    expect(npm.log().at(-1)?.message).toBe('exiting on SIGTERM; 2 game servers left running for the next start')
    expect(await place.running()).toHaveLength(2)
  })
})

it('keeps running when its stdout is closed', { timeout: limitMs }, async () => {
  const { host, env, running } = await scene('leaving-closed-stdout')
  host.process.stdout?.destroy()
  host.process.stderr?.destroy()
  const sessionID = randomUUID()
  for (const id of [sessionID, randomUUID()]) {
    expect(await allocate(host, { buildID: sample, sessionID: id }, 60)).toMatchObject({ status: 200 })
  }
  await until('the servers are standing by', async () => recount(await listServers(host)).StandingBy === 2)
  expect(host.process.exitCode).toBeNull()
  expect(await host.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  expect(await running()).toHaveLength(5)
  const next = await startHost(env)
  expect(recount(await listServers(next)).Active).toBe(3)
})

it('exits on an unexpected error with a one-line message, and the match continues', { timeout: limitMs }, async () => {
  // A defect that is triggered by a signal.
  const defect = encodeURIComponent(`process.on('SIGUSR2', () => { throw new TypeError('a\\nb') })`)
  const place = await workplace()
  const env = {
    DATA_DIR: place.dataDir,
    PORT_RANGE: portRangeText('leaving-error'),
    NODE_OPTIONS: `--import=data:text/javascript,${defect}`,
  }
  const host = await startHost(env)
  await until('the sample build exists', async () => (await listBuilds(host)).length > 0)
  expect(await allocate(host, { buildID: sample, sessionID: randomUUID() }, 60)).toMatchObject({ status: 200 })
  await untilSettled(host)
  const before = await place.running()
  expect(await host.exit('SIGUSR2')).toEqual({ code: 1, signal: null })
  expect(host.stderr().trimEnd().split('\n').at(-1)).toMatch(/^gamekeeper: TypeError: a b \(at process\..*\)$/)
  expect(await place.running()).toEqual(before)
})
