/**
 * Benchmarks the start-up time of a fleet on Docker, from creating the build until all servers are standing by. The baseline
 * runs `docker run` concurrently for as many containers of the same image, until each game reports StandingBy. Skipped if there
 * is no Docker engine.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createFleet, defaultLimits } from 'gamekeeper'
import { dockerBackend } from 'gamekeeper/docker'
import { messageOf } from '../../src/contracts/errors.js'
import { docker } from '../adapters/docker/engine.js'
import { buildExampleImage, exampleImage, exampleTemplate } from '../adapters/docker/example-image.js'
import { type Bench, ratioAtMost, type Row } from './row.js'

const run = promisify(execFile)
const sizes = [1, 10, 50] as const
const firstPort = 26_000

export const dockerStart: Bench = {
  names: sizes.map(nameOf),

  async run(quick) {
    try {
      await docker.listContainers({ limit: 1, abortSignal: AbortSignal.timeout(10_000) })
    } catch (error) {
      console.error(`left out ${sizes.map(nameOf).join(', ')}: no Docker engine is reachable (${messageOf(error)})`)
      return []
    }
    await buildExampleImage()
    const rows: Row[] = []
    for (const size of sizes) {
      const servers = quick ? 1 : size
      // Warm-up run.
      if (!quick && rows.length === 0) await bareSeconds(1)
      const [value, baseline] = [await fleetSeconds(servers), await bareSeconds(servers)]
      const note = `${servers} at ${(servers / value).toFixed(1)} a second`
      rows.push(ratioAtMost(1.25, { name: nameOf(size), unit: 's', value, baseline, note }))
    }
    return rows
  },
}

function nameOf(size: number): string {
  return `docker-start-${size}`
}

async function fleetSeconds(servers: number): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), 'gamekeeper-bench-'))
  const portRange = { first: firstPort, last: firstPort + servers + 20 }
  const fleet = await createFleet({ backend: dockerBackend({ directory, portRange }), agent: { port: 0 } })
  try {
    let ready = 0
    const since = performance.now()
    const all = new Promise<void>((resolve) => {
      fleet.on('ServerStateChanged', ({ to }) => {
        if (to === 'StandingBy' && ++ready === servers) resolve()
      })
    })
    await fleet.builds.create({
      metadata: { name: 'arena' },
      spec: { buildID: 'arena', standingBy: servers, max: servers, portsToExpose: [7777], template: exampleTemplate },
    })
    await all
    return (performance.now() - since) / 1000
  } finally {
    await fleet.builds.delete('arena')
    await fleet.drain({ active: 'terminate' })
    await fleet.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** Runs the same program, configured by environment variables, against a server that only receives heartbeats. */
async function bareSeconds(servers: number): Promise<number> {
  const reported = new Set<string>()
  let done = () => {}
  const all = new Promise<void>((resolve) => (done = resolve))
  const agent = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part) => (body += String(part)))
    request.on('end', () => {
      if (body.includes('StandingBy')) reported.add(request.url ?? '')
      if (reported.size === servers) done()
      response.end('{"operation":"Continue","nextHeartbeatIntervalMs":1000}')
    })
  })
  agent.listen(0, await gateway())
  await once(agent, 'listening')
  const address = agent.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const ids: string[] = []
  let next = 0
  const since = performance.now()
  const one = async () => {
    for (let i = next++; i < servers; i = next++) {
      const number = firstPort + i
      const ports = ['-p', `0.0.0.0:${number}:7777/tcp`, '-p', `0.0.0.0:${number}:7777/udp`]
      const environment = ['-e', `HEARTBEAT_ENDPOINT=host.docker.internal:${port}`, '-e', `SESSION_HOST_ID=bare-${i}`]
      const host = ['--add-host', 'host.docker.internal:host-gateway', '--init', '-d']
      const { stdout } = await run('docker', ['run', ...host, ...ports, ...environment, exampleImage])
      ids.push(stdout.trim())
    }
  }
  try {
    await Promise.all(Array.from({ length: defaultLimits.maxConcurrentCreates }, one))
    await all
    return (performance.now() - since) / 1000
  } finally {
    await Promise.all(ids.map((id) => docker.getContainer(id).remove({ force: true })))
    agent.closeAllConnections()
    agent.close()
  }
}

/** Returns the address at which containers reach this machine. */
async function gateway(): Promise<string> {
  const { stdout } = await run('docker', [
    ...['run', '--rm', '--add-host', 'host.docker.internal:host-gateway', exampleImage],
    ...['node', '-e', `require('dns').lookup('host.docker.internal', (_, address) => console.log(address))`],
  ])
  return stdout.trim()
}
