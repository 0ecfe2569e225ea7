/** Restarts by process managers, which signal more processes than the host: games and their matches go on. */
import { type ChildProcess, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { allocate, listBuilds, listServers, portOf, recount, say } from './client.js'
import { type Environment, type Host, startHost } from './host.js'
import { portRangeText, type Ports } from './port-ranges.js'
import { until } from './until.js'
import { workplace, type Workplace } from './workplace.js'

const limitMs = 400_000
const sample = '85ffe8da-c82f-4035-86c5-9d2b5f42d6f5'

interface Scene extends Workplace {
  readonly env: Environment
  readonly host: Host
  readonly sessionID: string
  readonly port: number
}

/** A host with one match and two servers that are standing by. */
async function scene(ports: Ports): Promise<Scene> {
  const place = await workplace()
  const env = { BACKEND: 'process', DATA_DIR: place.dataDir, PORT_RANGE: portRangeText(ports) }
  const host = await startHost(env)
  await until('the sample build exists', async () => (await listBuilds(host)).length > 0)
  const sessionID = randomUUID()
  const { body } = await allocate(host, { buildID: sample, sessionID, sessionCookie: 'duel' }, 60)
  const port = portOf(body.Ports)
  await until('two servers are standing by besides the match', async () => {
    const { StandingBy, Active } = recount(await listServers(host))
    return StandingBy === 2 && Active === 1
  })
  await until('the game has its session', async () => (await say(port, 'who')).includes(sessionID))
  return { ...place, env, host, sessionID, port }
}

/** The descendants of a process by parent id, deepest first, and the process: as pm2 and nodemon find them. */
function treeOf(root: number): readonly number[] {
  const { stdout } = spawnSync('ps', ['-e', '-o', 'pid=,ppid='], { encoding: 'utf8' })
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  const below = (parent: number): readonly number[] =>
    pairs.flatMap(([pid = 0, ppid]) => (ppid === parent ? [...below(pid), pid] : []))
  return [...below(root), root]
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended since it was listed.
    }
  }
}

const pidOf = ({ pid }: ChildProcess) => pid ?? Number.NaN

async function expectUnharmed({ env, host, sessionID, port, running }: Scene, before: object): Promise<void> {
  await host.exit()
  expect(await running()).toEqual(before)
  const next = await startHost(env)
  await until('all servers have sent a heartbeat', async () => {
    return (await listServers(next)).every(({ status }) => status.health === 'Healthy')
  })
  expect(await running()).toEqual(before)
  const [build] = await listBuilds(next)
  expect(build?.status).toMatchObject({ currentActive: 1, currentStandingBy: 2, crashesCount: 0 })
  expect(await allocate(next, { buildID: sample, sessionID })).toMatchObject({
    status: 200,
    body: { Ports: `7777:${port}` },
  })
}

describe('a match goes on', () => {
  it.each([
    ['SIGINT', 'managers-sigint'],
    ['SIGTERM', 'managers-sigterm'],
    ['SIGUSR2', 'managers-sigusr2'],
    ['SIGKILL', 'managers-sigkill'],
  ] as const)('if all descendants of its host get %s', { timeout: limitMs }, async (signal, ports) => {
    const place = await scene(ports)
    const before = await place.running()
    signalAll(treeOf(pidOf(place.host.process)), signal)
    await expectUnharmed(place, before)
  })
})
