/** examples/server/compose.yaml, started by Compose: the bundled server in a container, with games as containers beside it. */
import { execFile, spawnSync } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { fleetClient } from '../../../src/client/index.js'
import { until } from '../../e2e/until.js'
import { root } from '../../package/sources.js'
import { type Describe, describeOnEngine, leaveOut } from './describe-on-engine.js'
import { buildExampleImage, exampleTemplate } from './example-image.js'

const exec = promisify(execFile)

const plugin = spawnSync('docker', ['compose', 'version']).status === 0
const [program, first] = plugin ? (['docker', ['compose']] as const) : (['docker-compose', []] as const)

const hasCompose = spawnSync(program, [...first, 'version']).status === 0
const describeWithCompose: Describe = hasCompose ? describeOnEngine : leaveOut('Docker Compose is not installed')

const name = `gamekeeper-compose-${process.pid}`
const [allocation, management] = ['http://127.0.0.1:30400', 'http://127.0.0.1:30401']
const env = {
  ...process.env,
  GAMEKEEPER_IMAGE: name,
  ALLOCATION_PORT: '30400',
  MANAGEMENT_PORT: '30401',
  AGENT_PORT: '30402',
  PORT_RANGE: '30410-30419',
}

async function compose(...args: readonly string[]): Promise<string> {
  const file = join(root, 'examples/server/compose.yaml')
  const { stdout } = await exec(program, [...first, '-p', name, '-f', file, ...args], {
    env,
    maxBuffer: 64 * 1024 * 1024,
  })
  return stdout
}

describeWithCompose('examples/server/compose.yaml', () => {
  beforeAll(async () => {
    await exec(process.execPath, [join(root, '.scripts/bundle.mjs')])
    await buildExampleImage()
    await compose('build')
  }, 240_000)

  it('runs a fleet of containers, and takes them over after a restart', { timeout: 240_000 }, async () => {
    const client = fleetClient({ allocationUrl: allocation, managementUrl: management })
    onTestFinished(async () => {
      await compose('exec', '-T', 'gamekeeper', 'node', 'gamekeeper.mjs', 'drain', 'fleet', '--terminate')
      await compose('down', '--volumes')
      await exec('docker', ['rmi', name])
    })
    await compose('up', '--detach', '--no-build')
    const answers = async () => (await fetch(`${management}/healthz`).catch(() => undefined))?.ok
    await until('the server answers', answers)
    const spec = { buildID: 'arena-1', standingBy: 1, max: 2, portsToExpose: [7777], template: exampleTemplate }
    await client.builds.create({ metadata: { name: 'arena' }, spec })
    const request = { buildID: 'arena-1', sessionID: '9a6b2f0e-0000-4000-8000-000000000001', initialPlayers: ['amie'] }
    const { address, server, port } = await client.allocate(request, { waitMs: 60_000, confirm: true }).then((one) => ({
      ...one,
      port: one.port('game'),
    }))
    const player = connect(port, address)
    player.write('hello amie\n')
    const answer = await new Promise<Buffer>((resolve) => player.once('data', resolve))
    player.destroy()
    expect(answer.toString()).toContain(request.sessionID)

    await compose('restart')
    await until('the server answers again', answers)
    expect(await client.sessions.get(request.sessionID)).toMatchObject({ server, state: 'Active', address })
    const status = await compose('exec', '-T', 'gamekeeper', 'node', 'gamekeeper.mjs', 'get', 'sessions', '--json')
    expect(JSON.parse(status)).toMatchObject([{ sessionID: request.sessionID }])
  })
})
