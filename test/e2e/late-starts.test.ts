/** Servers that take too long to start, and rolling updates that find no free port. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import type { Fleet, FleetEvent } from 'gamekeeper'
import { gsdkGame } from '../games/gsdk-game.js'
import { backend, space } from './backend.js'
import { buildOf } from './client.js'
import { create, ownFleet } from './own-fleet.js'
import { portRange } from './port-ranges.js'
import { until } from './until.js'
import { workplace } from './workplace.js'

const limits = { timeout: 400_000 }
/** Longer than a start on this backend takes, also on a slow machine. */
const lateStartSeconds = { process: 15, docker: 20, kubernetes: 30 }[backend]

function recorded(fleet: Fleet): { readonly endings: () => readonly string[]; readonly late: () => readonly string[] } {
  const events: FleetEvent[] = []
  fleet.on('*', (event) => events.push(event))
  return {
    endings: () => events.flatMap((event) => (event.type === 'ServerEnding' ? [event.reason] : [])),
    late: () => events.flatMap((event) => (event.type === 'ServerLate' ? [event.server.name] : [])),
  }
}

/** A program for Node that prints what the adviser answers to its game server. */
const ask = (port: number) => `
  const { heartbeatEndpoint, sessionHostId } = JSON.parse(require("fs").readFileSync(process.env.GSDK_CONFIG_FILE))
  const { hostname } = new URL("http://" + heartbeatEndpoint)
  const url = "http://" + hostname + ":${port}/" + sessionHostId.split(".")[0]
  fetch(url).then((answer) => answer.text()).then((text) => console.log(text))`

/** Listens on the agent's host for games that ask what to do. Returns the port. */
async function adviser(advice: (server: string) => string): Promise<number> {
  const server = createServer(({ url = '' }, response) => response.end(advice(url.slice(1))))
  server.listen(0, '0.0.0.0')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the adviser has no port')
  return address.port
}

const ready = async (fleet: Fleet) =>
  (await fleet.servers.list())
    .filter(({ status }) => status.state === 'StandingBy')
    .map(({ metadata }) => metadata.name)

it(
  'a game that loads for longer than the limit is late, is used when it comes, and its replacement goes',
  limits,
  async () => {
    const fleet = await ownFleet(await workplace())
    const { endings, late } = recorded(fleet)
    const command = gsdkGame('cpp', { 'ready-after': (lateStartSeconds + 3) * 1_000 })
    await create(fleet, {
      ...buildOf({ name: 'slow', buildID: 'slow', standingBy: 1, max: 3, command, health: { lateStartSeconds } }),
    })
    const [first] = await until('a server is standing by', async () => {
      const names = await ready(fleet)
      return names.length > 0 && names
    })
    expect(late()[0]).toBe(first)
    await until('one server is left', async () => (await fleet.servers.list()).length === 1)
    expect([await ready(fleet), endings()]).toEqual([[first], ['ScaledDown']])
    expect((await fleet.builds.get({ namespace: space(), name: 'slow' })).status.crashesCount).toBe(0)
  },
)

it.each([
  ['beside it, with room below max', 4],
  ['in its place, at max', 1],
])('a game that hangs without a heartbeat is late, and a caller gets the one started %s', limits, async (_, max) => {
  const fleet = await ownFleet(await workplace())
  const { endings, late } = recorded(fleet)
  // All games hang that are started before one is late.
  const port = await adviser((server) => (late().length === 0 || late().includes(server) ? 'hang' : 'start'))
  // A shell substitution in parentheses would be expanded by Kubernetes.
  const script = `case \`node -e '${ask(port)}'\` in hang) exec sleep 600 ;; esac; exec "$@"`
  const command = ['sh', '-c', script, 'sh', ...gsdkGame('go')]
  const numbers = { standingBy: Math.min(1, max - 1), max }
  await create(fleet, {
    ...buildOf({ name: 'stuck', buildID: 'stuck', ...numbers, command, health: { lateStartSeconds } }),
  })
  const sessionID = randomUUID()
  await fleet.allocate({ buildID: 'stuck', sessionID }, { waitMs: 60_000 })
  expect((await fleet.servers.list()).filter(({ status }) => status.sessionID === sessionID)).toHaveLength(1)
  await until('the late ones end', () => endings().includes('Late'))
  await until('as many as wanted stand by', async () => (await ready(fleet)).length === numbers.standingBy)
  expect((await fleet.builds.get({ namespace: space(), name: 'stuck' })).status.crashesCount).toBe(0)
})

it('a rolling update without a free port goes on, and gives up one server at a time', limits, async () => {
  const fleet = await ownFleet(await workplace(), { portRange: portRange('late-starts') })
  const build = (version: string) =>
    buildOf({
      name: 'full',
      buildID: 'full',
      standingBy: 3,
      max: 6,
      command: gsdkGame('go'),
      env: { VERSION: version },
    })
  await create(fleet, build('1'))
  const before = await until('all ports are taken', async () => {
    const names = await ready(fleet)
    return names.length === 3 && names
  })
  const { template } = build('2').spec
  await fleet.builds.update({ namespace: space(), name: 'full' }, { template })
  const counts: number[] = []
  const after = await until(
    'every server is replaced',
    async () => {
      const names = await ready(fleet)
      counts.push(names.length)
      return names.length === 3 && !names.some((name) => before.includes(name)) && names
    },
    240_000,
  )
  expect(after).toHaveLength(3)
  expect(Math.min(...counts)).toBeGreaterThanOrEqual(2)
})
