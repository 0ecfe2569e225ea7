/**
 * Outages of a cluster during allocations: the API server is down for half a minute, the leader is killed, and the next leader is
 * suspended for longer than its lease. With real pods and two hosts.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { apiServerProcess, describeWithApiServer } from '../adapters/kubernetes/support/describe-with-api-server.js'
import { allocate, buildOf, createBuild, getBuild, listServers, portOf, recount, say } from './client.js'
import { type Host, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const buildID = randomUUID()
/** Sessions that are allocated during each outage. */
const batch = 5
const max = 3 * batch + 2
/** So long that a slow machine renews it in time. */
const leaseMs = 10_000
const outageMs = 3 * leaseMs

describeWithApiServer('a fleet of two hosts', () => {
  it(
    'keeps every session and every match during outages, and gives no session two servers',
    { timeout: 500_000 },
    async () => {
      const apiServer = apiServerProcess()
      onTestFinished(() => apiServer.restart())
      const { root, running } = await workplace()
      const agents = await agentService()
      const start = async (number: number): Promise<Host> => {
        const own = {
          DATA_DIR: join(root, `host-${number}`),
          PORT_RANGE: portRangeText('outages'),
          SAMPLE: 'off',
          LEASE_MS: String(leaseMs),
        }
        const agent = { AGENT_HOST: agentHost(number), AGENT_PORT: String(agentPort), AGENT_ADDRESS: agents.address }
        return startHost({ ...own, ...agent }, { leads: number === 1 })
      }
      const first = await start(1)
      agents.sendTo(1)
      await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: max, max }))
      await until(
        'all servers are standing by',
        async () => (await getBuild(first, 'arena')).status.currentStandingBy === max,
      )
      const second = await start(2)

      /** The answers to callers, which must stay valid. */
      const answers = new Map<string, number>()
      /** The game process of each port, which must not change. */
      const games = new Map<number, number>()
      let hosts: readonly Host[] = [first, second]
      /** Retries with every host, like a matchmaker. */
      const allocateOnAny = (sessionID: string) =>
        until(
          `session ${sessionID} has a server`,
          async () => {
            for (const host of hosts) {
              const answer = await allocate(host, { buildID, sessionID }).catch(() => undefined) // The host was killed.
              if (answer?.status !== 200) continue
              answers.set(sessionID, portOf(answer.body.Ports))
              return true
            }
            return false
          },
          240_000,
        )
      /** Two concurrent callers. The outage starts when one has an answer and the other is waiting. */
      const allocateDuring = async (trouble: () => Promise<void>) => {
        const sessions = Array.from({ length: batch }, () => randomUUID())
        let happens: Promise<void> | undefined
        const caller = async () => {
          for (let session = sessions.pop(); session !== undefined; session = sessions.pop()) {
            await allocateOnAny(session)
            happens ??= trouble()
          }
        }
        await Promise.all([caller(), caller()])
        await happens
      }
      const isLeading = async ({ management }: Host) => {
        const body: unknown = await (await fetch(`${management}/readyz`)).json()
        return JSON.stringify(body).includes('"leads":true')
      }
      /** Of the first two, either may be the leader. */
      const followLeader = () =>
        until('one leads', async () => {
          for (const [index, host] of [first, second].entries()) {
            if (!(await isLeading(host))) continue
            agents.sendTo(index + 1)
            return host
          }
          return undefined
        })
      await followLeader()

      await allocateDuring(async () => {
        apiServer.kill()
        await until('the API server has exited', () => apiServer.isGone())
        const since = performance.now()
        await until('the API server was down for 30 s', async () => {
          if (!(await apiServer.isGone())) throw new Error('something else answers on the port of the API server')
          return performance.now() - since >= outageMs
        })
        await apiServer.restart()
        await followLeader()
      })
      await check()

      const leading = await followLeader()
      const other = leading === first ? second : first
      await allocateDuring(async () => {
        hosts = [other]
        await leading.exit('SIGKILL')
        await until('the other host is the leader', () => isLeading(other))
        agents.sendTo(other === first ? 1 : 2)
      })
      await check()

      const third = await start(3)
      await allocateDuring(async () => {
        hosts = [third]
        other.process.kill('SIGSTOP')
        await until('the third host is the leader', () => isLeading(third))
        agents.sendTo(3)
        // The suspended host resumes with calls in flight and still believes that it is the leader.
        hosts = [other, third]
        other.process.kill('SIGCONT')
      })
      await until('the suspended host has stepped down', async () => !(await isLeading(other)))
      await check()

      // Each game has the same session as the fleet reports.
      for (const [session, port] of answers) {
        await until(`the game on ${port} has its session`, async () =>
          (await say(port, 'who')).startsWith(`session ${session} `),
        )
      }
      expect(recount(await listServers(third))).toMatchObject({
        ...{ Active: 3 * batch, StandingBy: max - 3 * batch, Terminating: 0 },
      })
      expect((await getBuild(third, 'arena')).status).toMatchObject({ crashesCount: 0 })

      /** Every session has the same server as before, no two share one, and all games are still running. */
      async function check(): Promise<void> {
        expect(new Set(answers.values()).size).toBe(answers.size)
        const before = new Map(answers)
        for (const session of before.keys()) await allocateOnAny(session)
        expect(answers).toEqual(before)
        const now = new Map((await running()).map((server) => [server.port, gamePid(server)]))
        for (const port of answers.values()) {
          const pid = now.get(port)
          expect(pid).toBe(games.get(port) ?? pid)
          if (pid !== undefined) games.set(port, pid)
        }
        expect(games.size).toBe(answers.size)
      }
    },
  )
})

const agentPort = 20_399
const agentHost = (number: number) => `127.0.9.${number}`

/** Like a Service for the agents: one address that forwards to the leader. */
async function agentService() {
  let number = 1
  const open = new Set<Socket>()
  const server = createServer((client) => {
    const agent = connect({ host: agentHost(number), port: agentPort })
    for (const [from, to] of [
      [client, agent],
      [agent, client],
    ] as const) {
      open.add(from)
      from.pipe(to)
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      from.on('error', () => from.destroy()) // The host was killed.
    }
  })
  server.listen(0)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const cut = () => open.forEach((socket) => socket.destroy())
  onTestFinished(() => {
    server.close()
    cut()
  })
  // Pods may use any address of this machine.
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)
  return {
    address: `${own?.address}:${port}`,
    /** Forwards new connections to this address. Existing connections stay. */
    sendTo(next: number) {
      number = next
    },
  }
}
