/**
 * What befalls a cluster, in the middle of allocations: its API server is gone for half a minute, the leading host is killed, and
 * the next one is suspended for longer than its lease. With real pods, and two hosts.
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
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const buildID = randomUUID()
/** Sessions that are asked for with each trouble. */
const batch = 5
const max = 3 * batch + 2
const outageMs = 30_000

describeWithApiServer('a fleet of two hosts', () => {
  it(
    'keeps every session and every match whatever befalls the cluster, and hands none out twice',
    { timeout: 500_000 },
    async () => {
      const apiServer = apiServerProcess()
      onTestFinished(() => apiServer.restart())
      const { root, running } = await workplace()
      const agents = await agentService()
      const start = async (number: number): Promise<Host> => {
        const own = { DATA_DIR: join(root, `host-${number}`), PORT_RANGE: '20300-20399', SAMPLE: 'off' }
        const agent = { AGENT_HOST: agentHost(number), AGENT_PORT: String(agentPort), AGENT_ADDRESS: agents.address }
        return startHost({ ...own, ...agent }, { leads: number === 1 })
      }
      const first = await start(1)
      agents.sendTo(1)
      await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: max, max }))
      const second = await start(2)
      await until('all stand by', async () => (await getBuild(first, 'arena')).status.currentStandingBy === max)

      /** What a caller was told, which must hold for ever. */
      const told = new Map<string, number>()
      /** By port: the process that plays there, which must never be another. */
      const games = new Map<number, number>()
      let hosts: readonly Host[] = [first, second]
      /** Of whichever host answers, as a matchmaker asks. */
      const ask = (sessionID: string) =>
        until(
          `session ${sessionID} has a server`,
          async () => {
            for (const host of hosts) {
              const answer = await allocate(host, { buildID, sessionID }).catch(() => undefined) // It was killed.
              if (answer?.status !== 200) continue
              told.set(sessionID, portOf(answer.body.Ports))
              return true
            }
            return false
          },
          240_000,
        )
      /** Two callers at a time; as soon as one is answered, and the other asks, it happens. */
      const allocateDuring = async (trouble: () => Promise<void>) => {
        const sessions = Array.from({ length: batch }, () => randomUUID())
        let happens: Promise<void> | undefined
        const caller = async () => {
          for (let session = sessions.pop(); session !== undefined; session = sessions.pop()) {
            await ask(session)
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

      await allocateDuring(async () => {
        apiServer.kill()
        await until('the API server has left', () => apiServer.isGone())
        const since = performance.now()
        await until('it was gone for 30 s', async () => {
          if (!(await apiServer.isGone())) throw new Error('something answers in place of the API server')
          return performance.now() - since >= outageMs
        })
        await apiServer.restart()
      })
      await check()

      // Either may have become the leader again.
      const leading = await until('one leads', async () => {
        for (const host of hosts) if (await isLeading(host)) return host
        return undefined
      })
      const other = leading === first ? second : first
      agents.sendTo(leading === first ? 1 : 2)
      await allocateDuring(async () => {
        hosts = [other]
        await leading.exit('SIGKILL')
        await until('the other leads', () => isLeading(other))
        agents.sendTo(other === first ? 1 : 2)
      })
      await check()

      const third = await start(3)
      await allocateDuring(async () => {
        hosts = [third]
        other.process.kill('SIGSTOP')
        await until('the third leads', () => isLeading(third))
        agents.sendTo(3)
        // It wakes in the belief that it leads, with callers at its door.
        hosts = [other, third]
        other.process.kill('SIGCONT')
      })
      await until('the one that was suspended has understood', async () => !(await isLeading(other)))
      await check()

      // What the fleet says, each game says too: it was told of this session and of no other.
      for (const [session, port] of told) {
        await until(`the game on ${port} knows its session`, async () =>
          (await say(port, 'who')).startsWith(`session ${session} `),
        )
      }
      expect(recount(await listServers(third))).toMatchObject({
        ...{ Active: 3 * batch, StandingBy: max - 3 * batch, Terminating: 0 },
      })
      expect((await getBuild(third, 'arena')).status).toMatchObject({ crashesCount: 0 })

      /** No session has another server than before, none has that of another, and all games that are played run on. */
      async function check(): Promise<void> {
        expect(new Set(told.values()).size).toBe(told.size)
        const before = new Map(told)
        for (const session of before.keys()) await ask(session)
        expect(told).toEqual(before)
        const now = new Map((await running()).map((server) => [server.port, gamePid(server)]))
        for (const port of told.values()) {
          const pid = now.get(port)
          expect(pid).toBe(games.get(port) ?? pid)
          if (pid !== undefined) games.set(port, pid)
        }
        expect(games.size).toBe(told.size)
      }
    },
  )
})

const agentPort = 20_399
const agentHost = (number: number) => `127.0.9.${number}`

/** What a Service does for the agents: one address, behind which is that of the leader. */
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
      from.on('error', () => from.destroy()) // Whoever was there has been killed.
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
  // Pods of a cluster on this machine reach it under each of its addresses.
  const own = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)
  return {
    address: `${own?.address}:${port}`,
    /** From now on new connections go there: those that there are stay where they are. */
    sendTo(next: number) {
      number = next
    },
  }
}
