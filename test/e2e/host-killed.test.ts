/** The host is killed during allocations and restarted: no session or match is affected. */
import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { allocate, buildOf, createBuild, getBuild, listServers, portOf, recount, say } from './client.js'
import { type Host, startHost } from './host.js'
import { portRangeText } from './port-ranges.js'
import { until } from './until.js'
import { gamePid, workplace } from './workplace.js'

const buildID = randomUUID()
const max = 24

it(
  'killing the host loses no session, ends no match, and gives no session two servers',
  { timeout: 400_000 },
  async () => {
    const { dataDir, running } = await workplace()
    const env = { DATA_DIR: dataDir, PORT_RANGE: portRangeText('host-killed'), SAMPLE: 'off' }
    let host: Host | undefined = await startHost(env)
    const first = host
    await createBuild(first, buildOf({ name: 'arena', buildID, standingBy: 8, max }))
    await until(
      'eight servers are standing by',
      async () => (await getBuild(first, 'arena')).status.currentStandingBy === 8,
    )

    /** The answers to callers, which must stay valid. */
    const answers = new Map<string, number>()
    const sessions = Array.from({ length: 20 }, () => randomUUID())
    const call = async (sessionID: string) => {
      await until(
        `session ${sessionID} has a server`,
        async () => {
          // There is no host between the two starts.
          if (!host) return false
          const { status, body } = await allocate(host, { buildID, sessionID }, 60)
          if (status !== 200) return false
          answers.set(sessionID, portOf(body.Ports))
          return true
        },
        240_000,
      )
    }
    const calls = Promise.all(sessions.map(call))
    await until('some callers have an answer and others do not', () => answers.size >= 8)
    host = undefined
    await first.exit('SIGKILL')
    const before = new Map(answers)
    const games = new Map((await running()).map((server) => [server.port, gamePid(server)]))
    expect(before.size).toBeLessThan(sessions.length)

    const second = await startHost(env)
    expect(second.agent).toBe(first.agent)
    const ports = new Map((await listServers(second)).map(({ status }) => [status.sessionID, portOf(status.ports)]))
    for (const [sessionID, port] of before) expect(ports.get(sessionID)).toBe(port)
    host = second
    await calls

    for (const [sessionID, port] of before) expect(answers.get(sessionID)).toBe(port)
    expect(new Set(answers.values()).size).toBe(sessions.length)
    const after = new Map((await running()).map((server) => [server.port, gamePid(server)]))
    for (const port of before.values()) expect(after.get(port)).toBe(games.get(port))

    // Each game has the same session as the fleet reports.
    for (const [sessionID, port] of answers) {
      await until(`the game on ${port} has its session`, async () => {
        const answer = await say(port, 'who')
        return answer.startsWith(`session ${sessionID} `)
      })
    }
    await until('the idle servers are replaced', async () => recount(await listServers(second)).StandingBy === max - 20)
    const servers = await listServers(second)
    expect(recount(servers)).toMatchObject({ Active: 20, Terminating: 0 })
    expect((await getBuild(second, 'arena')).status).toMatchObject({ currentActive: 20, crashesCount: 0 })
    expect(await running()).toHaveLength(max)
  },
)
