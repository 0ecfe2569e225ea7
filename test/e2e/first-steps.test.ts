/** The first minutes with the bundled server: start it, paste what it prints, play, and lose a server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { describe, expect, it } from 'vitest'
import type { Allocation, GameServer, GameServerBuild } from 'gamekeeper'
import { allocate, getBuild, listServers, liveOf, portOf, say } from './client.js'
import { type Host, startHost } from './host.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const limitMs = 240_000
const ports = { PORT_RANGE: '20000-20049' }

describe('the bundled server, started for the first time', () => {
  it('makes a sample build, and what it prints works as printed', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, ...ports })
    const ready = host.log().find(({ message }) => message === 'ready')
    expect(ready).toMatchObject({
      level: 'info',
      allocation: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      management: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    })
    const agent = new URL(String(ready?.['agent']))
    // Where its game servers find it: on loopback, or on an address that containers or pods reach.
    expect([...ownAddresses(), 'host.docker.internal']).toContain(agent.hostname)
    const arena = await untilStandingBy(host, 'arena', 2)
    expect(arena.status).toMatchObject({ health: 'Healthy', currentStandingByReadyDesired: '2/2', crashesCount: 0 })

    const lines = await until('it has printed what to try', () => {
      const printed = host
        .stderr()
        .split('\n')
        .filter((line) => line.startsWith('curl '))
      return printed.length === 3 && printed
    })
    const [create = '', take = '', list = ''] = lines

    const created: GameServerBuild = JSON.parse(await paste(create))
    expect(created.spec).toMatchObject({ standingBy: 1, max: 3 })
    await untilStandingBy(host, created.metadata.name, 1)

    const allocation: Allocation = JSON.parse(await paste(take))
    const answer = await until('the game knows of its session', async () => {
      const said = await say(portOf(allocation.Ports), 'hello amie')
      return said.includes(allocation.SessionID) && said
    })
    expect(answer).toBe(`session ${allocation.SessionID} cookie map=dust players amie,bob`)
    expect(JSON.parse(await paste(take))).toEqual(allocation)

    const servers: readonly GameServer[] = JSON.parse(await paste(list))
    expect(servers.filter(({ status }) => status.sessionID === allocation.SessionID)).toHaveLength(1)
  })

  it('prints JSON lines, and nothing to try where SAMPLE is off', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, SAMPLE: 'off', ...ports })
    await host.exit('SIGTERM')
    for (const line of host.stdout().trimEnd().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ level: 'info', message: expect.any(String), time: expect.any(String) })
    }
    expect(host.stderr()).toBe('')
  })

  it('pretends servers on the memory backend, for a try without processes', { timeout: limitMs }, async () => {
    const { dataDir, running } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, BACKEND: 'memory', ...ports })
    const arena = await untilStandingBy(host, 'arena', 2)
    const sessionID = '5d3f7f1e-0f5e-4a33-9a53-6a8a0a9a1c01'
    expect(await allocate(host, { buildID: arena.spec.buildID, sessionID }, 20)).toMatchObject({ status: 200 })
    expect(host.stderr()).not.toContain('nc ')
    expect(await running()).toEqual([])
    expect(await host.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  })
})

describe('a server of the fleet that is killed', () => {
  it('is replaced, and the build never has more than its max', { timeout: limitMs }, async () => {
    const { dataDir, running } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, ...ports })
    const { spec } = await untilStandingBy(host, 'arena', 2)
    const sessionID = '5d3f7f1e-0f5e-4a33-9a53-6a8a0a9a1c02'
    const { body } = await allocate(host, { buildID: spec.buildID, sessionID }, 20)
    await untilStandingBy(host, 'arena', 2)

    let most = 0
    const watching = new AbortController()
    const watched = (async () => {
      while (!watching.signal.aborted) most = Math.max(most, liveOf(await listServers(host, 'arena')))
    })()
    const before = (await listServers(host, 'arena')).map(({ metadata }) => metadata.name)
    const victims = await running()
    expect(victims).toHaveLength(3)
    for (const victim of victims) process.kill(gamePid(victim), 'SIGKILL')

    await until('all are replaced', async () => {
      const servers = await listServers(host, 'arena')
      const isNew = servers.every(({ metadata }) => !before.includes(metadata.name))
      return isNew && servers.length === 2 && servers.every(({ status }) => status.state === 'StandingBy')
    })
    watching.abort()
    await watched
    expect(most).toBeLessThanOrEqual(3)
    // The match has ended with its process: its session is free again, and gets another server.
    const again = await allocate(host, { buildID: spec.buildID, sessionID }, 20)
    expect(again.status).toBe(200)
    expect(again.body.Ports).not.toBe(body.Ports)
    const { status } = await getBuild(host, 'arena')
    expect(status.crashesCount).toBe(3)
    expect(host.log().filter(({ level, message }) => level === 'warn' && message.includes('crashed'))).toHaveLength(3)
  })
})

async function untilStandingBy(host: Host, name: string, count: number): Promise<GameServerBuild> {
  return until(`${count} servers of ${name} stand by`, async () => {
    const build = await getBuild(host, name)
    return build.status.currentStandingBy === count && build
  })
}

/** Runs a line as a shell does into which it is pasted, and returns what it prints. */
async function paste(line: string): Promise<string> {
  const { code, stdout } = await shell(line)
  if (code === 0) return stdout
  if (code !== 127) throw new Error(`exited with ${code}: ${line}`)
  // No curl here: the shell still says what curl would have been told.
  const told = await shell(`curl() { printf '%s\\0' "$@"; }; ${line}`)
  const args = told.stdout.split('\0').slice(0, -1)
  const body = args[args.indexOf('-d') + 1]
  const response = await fetch(args.at(-1) ?? '', args.includes('-d') ? { method: 'POST', body: body ?? '' } : {})
  return response.text()
}

async function shell(command: string): Promise<{ readonly code: number | null; readonly stdout: string }> {
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'] })
  let stdout = ''
  child.stdout.setEncoding('utf8').on('data', (part: string) => (stdout += part))
  await once(child, 'close')
  return { code: child.exitCode, stdout }
}

function ownAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((addresses = []) => addresses.map(({ address }) => address))
}
