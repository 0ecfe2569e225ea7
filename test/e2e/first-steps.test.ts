/** First steps with the bundled server: start it, run the printed commands, play, and kill a server. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { networkInterfaces } from 'node:os'
import { describe, expect, it } from 'vitest'
import type { Allocation, GameServer, GameServerBuild } from 'gamekeeper'
import { allocate, getBuild, listServers, liveOf, portOf, say } from './client.js'
import { type Host, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const limitMs = 400_000
const ports = { PORT_RANGE: portRangeText('first-steps') }

describe('the bundled server on its first start', () => {
  it('creates a sample build and prints commands that work', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, ...ports })
    const ready = host.log().find(({ message }) => message === 'ready')
    expect(ready).toMatchObject({
      level: 'info',
      allocation: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      management: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
    })
    const agent = new URL(String(ready?.['agent']))
    // The agent address for game servers: loopback, or an address that containers or pods can reach.
    expect([...ownAddresses(), 'host.docker.internal']).toContain(agent.hostname)
    const arena = await untilStandingBy(host, 'arena', 2)
    expect(arena.status).toMatchObject({ health: 'Healthy', currentStandingByReadyDesired: '2/2', crashesCount: 0 })

    const lines = await until('the commands are printed', () => {
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
    // The printed command asks for confirmation, so the game has its session before the caller has the address.
    const answer = await say(portOf(allocation.Ports), 'hello amie')
    expect(answer).toBe(`session ${allocation.SessionID} cookie map=dust players amie,bob`)
    expect(JSON.parse(await paste(take))).toEqual(allocation)

    const servers: readonly GameServer[] = JSON.parse(await paste(list))
    expect(servers.filter(({ status }) => status.sessionID === allocation.SessionID)).toHaveLength(1)
  })

  it('prints JSON lines, and prints no commands with SAMPLE=off', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, SAMPLE: 'off', ...ports })
    await host.exit('SIGTERM')
    for (const line of host.stdout().trimEnd().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ level: 'info', message: expect.any(String), time: expect.any(String) })
    }
    expect(host.stderr()).toBe('')
  })

  it('prints no commands in a pod, whose own addresses callers do not use', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, BACKEND: 'memory', POD_NAME: 'host-0', ...ports })
    await untilStandingBy(host, 'arena', 2)
    await host.exit('SIGTERM')
    expect(host.stderr()).toBe('')
  })

  it('prints the URLs at which callers reach its APIs through Services', { timeout: limitMs }, async () => {
    const { dataDir } = await workplace()
    const services = {
      allocation: 'http://gamekeeper-allocation:5000',
      management: 'http://gamekeeper-management:5001',
    }
    const { allocation: ALLOCATION_URL, management: MANAGEMENT_URL } = services
    const env = { DATA_DIR: dataDir, SAMPLE: 'off', ALLOCATION_URL, MANAGEMENT_URL, ...ports }
    // Whether it leads cannot be asked at these URLs.
    const host = await startHost(env, { leads: false })
    expect(host.log().find(({ message }) => message === 'ready')).toMatchObject(services)
    await host.exit('SIGTERM')
  })

  it('simulates servers with the memory backend', { timeout: limitMs }, async () => {
    const { dataDir, running } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, BACKEND: 'memory', ...ports })
    const arena = await untilStandingBy(host, 'arena', 2)
    const sessionID = '5d3f7f1e-0f5e-4a33-9a53-6a8a0a9a1c01'
    expect(await allocate(host, { buildID: arena.spec.buildID, sessionID }, 60)).toMatchObject({ status: 200 })
    expect(host.stderr()).not.toContain('nc ')
    expect(await running()).toEqual([])
    expect(await host.exit('SIGTERM')).toEqual({ code: 0, signal: null })
  })
})

describe('a killed server', () => {
  it('is replaced, and the build never exceeds max', { timeout: limitMs }, async () => {
    const { dataDir, running } = await workplace()
    const host = await startHost({ DATA_DIR: dataDir, ...ports })
    const { spec } = await untilStandingBy(host, 'arena', 2)
    const sessionID = '5d3f7f1e-0f5e-4a33-9a53-6a8a0a9a1c02'
    const { body } = await allocate(host, { buildID: spec.buildID, sessionID }, 60)
    await untilStandingBy(host, 'arena', 2)

    let most = 0
    const before = (await listServers(host, 'arena')).map(({ metadata }) => metadata.name)
    const victims = await running()
    expect(victims).toHaveLength(3)
    for (const victim of victims) process.kill(gamePid(victim), 'SIGKILL')

    await until('all servers are replaced', async () => {
      const servers = await listServers(host, 'arena')
      most = Math.max(most, liveOf(servers))
      const isNew = servers.every(({ metadata }) => !before.includes(metadata.name))
      return isNew && servers.length === 2 && servers.every(({ status }) => status.state === 'StandingBy')
    })
    expect(most).toBeLessThanOrEqual(3)
    // The match ended with its process, so its session can be allocated again.
    const again = await allocate(host, { buildID: spec.buildID, sessionID }, 60)
    expect(again.status).toBe(200)
    expect(again.body.Ports).not.toBe(body.Ports)
    const { status } = await getBuild(host, 'arena')
    expect(status.crashesCount).toBe(3)
    expect(host.log().filter(({ level, message }) => level === 'warn' && message.includes('crashed'))).toHaveLength(3)
  })
})

async function untilStandingBy(host: Host, name: string, count: number): Promise<GameServerBuild> {
  return until(`${count} servers of ${name} are standing by`, async () => {
    const build = await getBuild(host, name)
    return build.status.currentStandingBy === count && build
  })
}

/** Runs a line in a shell and returns its output. */
async function paste(line: string): Promise<string> {
  const { code, stdout } = await shell(line)
  if (code === 0) return stdout
  if (code !== 127) throw new Error(`exited with ${code}: ${line}`)
  // Without curl: a shell function prints the arguments, and fetch makes the request.
  const recorded = await shell(`curl() { printf '%s\\0' "$@"; }; ${line}`)
  const args = recorded.stdout.split('\0').slice(0, -1)
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
