/** Games that misbehave. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { until } from '../../../e2e/until.js'
import { rawConnection } from '../../../http/client.js'
import { runningIn } from '../../machine.js'
import { type Abuse, attempt, rawRequest, send, type Target } from '../target.js'

const forking = 'i=0; while [ $i -lt 20 ]; do sleep 300 & i=$((i+1)); done; wait'
const hostileGame = fileURLToPath(new URL('../hostile-game.mjs', import.meta.url))

/** Forks children that do not end by themselves, and is then deleted: they must end with it. */
export const forkingGame: Abuse = {
  name: 'a game that forks children',
  run: (target) =>
    withBuild(target, 'forks', ['/bin/sh', '-c', forking], async (name) => {
      await until('the game has forked', () => gamesOf(target, name) > 10)
    }),
}

/** Sends hostile heartbeats: huge player lists, unknown states, other servers' ids, broken JSON. */
export const hostileHeartbeats: Abuse = {
  name: 'a game with hostile heartbeats',
  run: (target) =>
    withBuild(target, 'beats', [process.execPath, hostileGame], async (name) => {
      const url = `${target.apis.management}/api/v1/gameserverbuilds/default/${name}`
      // It exits after its last heartbeat and is replaced.
      await until('the game has sent its heartbeats', async () => {
        const { text } = await send(target, 'GET', url)
        return gamesOf(target, name) > 0 && !text.includes('"currentInitializing":1')
      })
    }),
}

/** Heartbeats with an invented id, from many connections that wait for no answer and connect again when they are cut. */
export const floodingStrangers: Abuse = {
  name: 'strangers that flood the agent',
  async run({ apis, signal }) {
    const flood = rawRequest(
      'PATCH',
      '/v1/sessionHosts/live-00000.00000000',
      '{"CurrentGameState":"StandingBy"}',
    ).repeat(500)
    const end = AbortSignal.any([signal, AbortSignal.timeout(3_000)])
    const flooding = async () => {
      while (!end.aborted) {
        const { socket } = rawConnection(apis.agent, flood)
        if (!socket.closed) await once(socket, 'close', { signal: end }).catch(() => undefined)
        socket.destroy()
      }
    }
    await Promise.all(Array.from({ length: 50 }, flooding))
  },
}

async function withBuild(
  target: Target,
  prefix: string,
  command: readonly string[],
  use: (name: string) => Promise<void>,
): Promise<void> {
  const name = `${prefix}-${randomUUID().slice(0, 8)}`
  const builds = `${target.apis.management}/api/v1/gameserverbuilds`
  const template = { spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'game', command }] } }
  const spec = { buildID: randomUUID(), standingBy: 1, max: 1, portsToExpose: [], template }
  const created = await attempt(target, 'a build', 'POST', builds, {
    body: JSON.stringify({ metadata: { name }, spec }),
  })
  if (created.status !== 200) throw new Error(`the build was answered with ${created.status} ${created.text}`)
  await use(name)
  await attempt(target, 'its deletion', 'DELETE', `${builds}/default/${name}`)
  await until(`no process of ${name} is left`, () => gamesOf(target, name) === 0)
}

/** Number of processes of the build's games, with their children. */
function gamesOf({ dataDir }: Target, name: string): number {
  const { games } = runningIn(dataDir)
  return [...games].reduce((sum, [server, running]) => sum + (server.startsWith(`${name}-`) ? running.length : 0), 0)
}
