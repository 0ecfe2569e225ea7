/** The host is killed in the middle of handing out servers, and started again: nobody notices but the callers. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { allocate, buildOf, createBuild, getBuild, listServers, portOf, recount, say } from './client.js'
import { type Host, startHost } from './host.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const buildID = randomUUID()
const max = 24

it(
  'kill -9 of the host loses no session, ends no match, and gives no session two servers',
  { timeout: 400_000 },
  async () => {
    const { dataDir, running } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: '20200-20299', SAMPLE: 'off' }
    let host: Host | undefined = await startHost(env)
    const first = host
    await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: 8, max }))
    await until('eight stand by', async () => (await getBuild(first, 'arena')).status.currentStandingBy === 8)

    /** What a caller is told, which must hold for ever. */
    const told = new Map<string, number>()
    const sessions = Array.from({ length: 20 }, () => randomUUID())
    const call = async (sessionID: string) => {
      await until(
        `session ${sessionID} has a server`,
        async () => {
          // Between the two lives of the host there is nobody to ask.
          if (!host) return false
          const { status, body } = await allocate(host, { buildID, sessionID }, 20)
          if (status !== 200) return false
          told.set(sessionID, portOf(body.Ports))
          return true
        },
        240_000,
      )
    }
    const calls = Promise.all(sessions.map(call))
    await until('some callers have been answered and others not', () => told.size >= 8)
    host = undefined
    await first.exit('SIGKILL')
    const before = new Map(told)
    const games = new Map((await running()).map((server) => [server.port, gamePid(server)]))
    expect(before.size).toBeLessThan(sessions.length)

    const second = await startHost(env)
    expect(second.agent).toBe(first.agent)
    const known = new Map((await listServers(second)).map(({ status }) => [status.sessionID, portOf(status.ports)]))
    for (const [sessionID, port] of before) expect(known.get(sessionID)).toBe(port)
    host = second
    await calls

    for (const [sessionID, port] of before) expect(told.get(sessionID)).toBe(port)
    expect(new Set(told.values()).size).toBe(sessions.length)
    const after = new Map((await running()).map((server) => [server.port, gamePid(server)]))
    for (const port of before.values()) expect(after.get(port)).toBe(games.get(port))

    // What the fleet says, each game says too: it was told of this session and of no other.
    for (const [sessionID, port] of told) {
      await until(`the game on ${port} knows its session`, async () => {
        const answer = await say(port, 'who')
        return answer.startsWith(`session ${sessionID} `)
      })
    }
    await until('idle servers are there again', async () => recount(await listServers(second)).StandingBy === max - 20)
    const servers = await listServers(second)
    expect(recount(servers)).toMatchObject({ Active: 20, Terminating: 0 })
    expect((await getBuild(second, 'arena')).status).toMatchObject({ currentActive: 20, crashesCount: 0 })
    expect(await running()).toHaveLength(max)
  },
)
