/** A fleet on processes in which there is something to see: matches with players, a build that is stopped after crashes, one that is drained. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processBackend } from '../../adapters/process/index.js'
import { dashboardPage } from '../../src/dashboard/index.js'
import { serve } from '../../src/http/index.js'
import { createFleet } from '../../src/index.js'
import type { Fleet, GameServerBuildInput } from '../../src/contracts/fleet.js'
import { until } from '../e2e/until.js'
import { root } from '../package/sources.js'

export interface ExampleFleet {
  readonly url: string
  readonly fleet: Fleet
  close(): Promise<void>
}

const players = ['amie', 'bob', 'chioma', 'dmitri', 'elif', 'farah', 'goran', 'hana']

export async function exampleFleet(portRange: string): Promise<ExampleFleet> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-example-'))
  const fleet = await createFleet({
    backend: processBackend({ directory, portRange, logger: false }),
    agent: { port: 0 },
    logger: false,
  })
  const served = await serve({ fleet, allocation: { port: 0 }, management: { port: 0 }, dashboard: dashboardPage() })
  const sockets: Socket[] = []
  await fleet.builds.create(gameBuild('arena', { standingBy: 3, max: 12 }))
  await fleet.builds.create(gameBuild('practice', { standingBy: 1, max: 4 }))
  const crashing = [
    'node',
    '-e',
    `console.log('loading map canyon'); console.error('Error: ENOENT: canyon.map'); process.exit(3)`,
  ]
  await fleet.builds.create(gameBuild('season-two', { standingBy: 3, max: 6, crashesToMarkUnhealthy: 3 }, crashing))
  for (let match = 0; match < 4; match++) {
    const request = { buildID: 'arena-2.4', sessionID: randomUUID(), initialPlayers: [] }
    const server = await fleet.allocate(request, { waitMs: 30_000, confirm: true })
    for (const player of players.slice(match, match + 4)) sockets.push(joined(server.address, server.port(), player))
  }
  await until('the players are seen', () => fleet.stats().builds.some((build) => build.players >= 16))
  await until('servers stand by again', async () => (await fleet.builds.get('arena')).status.currentStandingBy === 3)
  void fleet.builds.drain('practice').catch(() => {})
  await until('season-two is stopped', async () => (await fleet.builds.get('season-two')).status.health === 'Unhealthy')
  return {
    url: `${served.managementUrl}/`,
    fleet,
    async close() {
      for (const socket of sockets) socket.destroy()
      for (const build of await fleet.builds.list()) {
        await fleet.builds.update(build.metadata, { termination: 'SignalFirst' })
        await fleet.builds.drain(build.metadata, { active: 'terminate', deadlineMs: 5_000 })
        await fleet.builds.delete(build.metadata)
      }
      await served.close()
      await fleet.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const game = ['node', join(root, 'examples/game-server/server.mjs')]

function gameBuild(name: string, spec: object, command: readonly string[] = game): GameServerBuildInput {
  const ports = [{ name: 'game', containerPort: 7777 }]
  const template = { spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'game', command, ports }] } }
  const base = { buildID: `${name}-2.4`, standingBy: 1, max: 2, portsToExpose: [7777], template }
  return { metadata: { name }, spec: { ...base, ...spec } }
}

function joined(host: string, port: number, player: string): Socket {
  const socket = connect(port, host)
  socket.on('error', () => {})
  socket.write(`hello ${player}\n`)
  return socket
}
