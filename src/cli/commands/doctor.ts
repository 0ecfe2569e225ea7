/** `gamekeeper doctor`: checks what the bundled server needs on this machine, and says how to mend what is missing. */
import { access, constants, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import type { Command } from 'commander'
import { flagOf } from '../../config/resolve.js'
import { FleetError, messageOf } from '../../contracts/errors.js'
import { codeOf } from '../../platform/error-code.js'
import { dockerBackend } from '../../../adapters/docker/index.js'
import { kubernetesBackend } from '../../../adapters/kubernetes/index.js'
import type { Backend } from '../../index.js'
import { oneLine } from '../../server/log.js'
import { withSecretFiles } from '../../server/secrets.js'
import { type Config, readConfig } from '../../server/settings.js'
import { exitCodes } from '../failures.js'
import { configOption, settingsOf } from '../settings.js'
import type { Terminal } from '../terminal.js'
import { checkAgent, checkAgentFromContainer } from './doctor-agent.js'
import { checkCluster } from './doctor-cluster.js'
import { checkGames, type Finding } from './doctor-games.js'
import { counted } from '../../rules/model/counted.js'

interface DoctorFlags {
  readonly config?: string
  readonly json?: boolean
  readonly image?: string
}

const timeoutMs = 10_000
const minFreeBytes = 200 * 1024 * 1024

export function addDoctor(program: Command, terminal: Terminal): void {
  program
    .command('doctor')
    .description(
      'Check what serve needs on this machine, and say how to mend what is missing. Exit code 1: something is.',
    )
    .option(...configOption)
    .option('--json', 'Print JSON.')
    .option(
      '--image <image>',
      'With Docker: the image from which to reach the agent. It needs sh, and node, nc or bash.',
    )
    .action(async (flags: DoctorFlags) => {
      const { env } = await settingsOf(terminal, flags, {})
      const findings = await examine(readConfig(withSecretFiles(env), terminal.cwd), flags.image)
      if (flags.json) terminal.print(JSON.stringify(findings))
      else
        for (const { check, ok, message } of findings) {
          const mark = ok ? terminal.paint('green', 'ok  ') : terminal.paint('red', 'FAIL')
          terminal.print(`${mark} ${check}: ${oneLine(message)}`)
        }
      if (findings.some(({ ok }) => !ok)) terminal.exitWith(exitCodes.failed)
    })
}

async function examine(config: Config, image: string | undefined): Promise<readonly Finding[]> {
  const { backend, host, allocationPort, managementPort, health, agentPort, agentHost = '127.0.0.1', dataDir } = config
  const findings = await Promise.all([
    checkPort('ALLOCATION_PORT', host, allocationPort),
    checkPort('MANAGEMENT_PORT', host, managementPort),
    ...(health ? [checkPort('HEALTH_PORT', health.host, health.port)] : []),
    ...(backend === 'process' ? [checkPort('AGENT_PORT', agentHost, agentPort), ...(await checkGames(config))] : []),
    ...(backend === 'kubernetes' || backend === 'memory' ? [] : [checkDirectory(dataDir), checkPortRange(config)]),
    checkClock(),
  ])
  // What needs the engine or the cluster is asked only if it answers.
  if (backend === 'docker') {
    const engine = await checkBackend('Docker', dockerMend, () => dockerBackend({ directory: dataDir }))
    return [...findings, engine, ...(engine.ok ? [await checkAgentFromContainer(config, image)] : [])]
  }
  if (backend === 'kubernetes') {
    const cluster = await checkBackend('cluster', clusterMend, () => clusterOf(config))
    const more = await checkCluster(config)
    // Without a cluster, one finding says so.
    return [
      ...findings,
      cluster,
      ...more.flatMap(({ isAnswered, ...finding }) => (cluster.ok || isAnswered ? [finding] : [])),
    ]
  }
  // After the check of its port, on which it listens.
  return backend === 'process' ? [...findings, await checkAgent(config)] : findings
}

const dockerMend = 'start Docker, set DOCKER_HOST, or add this user to the group docker; or use --backend process'
const clusterMend =
  'set KUBECONFIG, install adapters/kubernetes/crds.yaml, and give this user the rights in examples/kubernetes'

function clusterOf({ namespaces, systemNamespace, apiGroup }: Config): Backend {
  return kubernetesBackend({
    apiGroup,
    ...(namespaces && { namespaces }),
    ...(systemNamespace !== undefined && { systemNamespace }),
  })
}

async function checkPort(variable: string, host: string, port: number): Promise<Finding> {
  const check = `${variable} ${port}`
  if (port === 0) return { check, ok: true, message: 'any free port' }
  const error = await listenError(host, port)
  if (error === undefined) return { check, ok: true, message: `free on ${host}` }
  const isInUse = codeOf(error) === 'EADDRINUSE'
  const why = isInUse ? `in use on ${host}, perhaps by a running gamekeeper` : messageOf(error)
  return { check, ok: false, message: `${why}; choose another with ${flagOf(variable)}` }
}

async function checkPortRange({ portRange: { first, last } }: Config): Promise<Finding> {
  const check = `PORT_RANGE ${first}-${last}`
  const error = await listenError('0.0.0.0', first)
  if (error === undefined)
    return { check, ok: true, message: `${counted(last - first + 1, 'port')}; the first is free` }
  const isPrivileged = codeOf(error) === 'EACCES'
  if (!isPrivileged) return { check, ok: true, message: `port ${first} is in use and will be skipped` }
  return { check, ok: false, message: `port ${first} needs privileges; choose ports above 1023 with --port-range` }
}

function listenError(host: string, port: number): Promise<unknown> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', resolve)
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/** Does not create the directory itself: the server does, with the right mode. */
async function checkDirectory(path: string): Promise<Finding> {
  const check = `DATA_DIR ${path}`
  try {
    const parent = await existing(path)
    await access(parent, constants.W_OK | constants.X_OK)
    const { bavail, bsize } = await statfs(parent)
    const free = bavail * bsize
    const message = `${Math.round(free / 1024 / 1024)} MiB free`
    if (free >= minFreeBytes) return { check, ok: true, message: `writable, ${message}` }
    return { check, ok: false, message: `${message}; make room, or choose another directory with --data-dir` }
  } catch (error) {
    return {
      check,
      ok: false,
      message: `${messageOf(error)}; change its owner or mode, or choose another with --data-dir`,
    }
  }
}

/** The directory, or the nearest one above it that exists. */
async function existing(path: string): Promise<string> {
  try {
    await access(path)
    return path
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return existing(dirname(path))
  }
}

/** Lists the instances, for which a backend needs a connection, credentials and rights. */
async function checkBackend(check: string, mend: string, open: () => Backend): Promise<Finding> {
  let backend: Backend | undefined
  try {
    backend = open()
    await backend.list({ signal: AbortSignal.timeout(timeoutMs) })
    return { check, ok: true, message: 'reachable, and may be listed' }
  } catch (error) {
    const message = FleetError.is(error, 'aborted') ? `no answer within ${timeoutMs / 1000} s` : messageOf(error)
    return { check, ok: false, message: `${message}; ${mend}` }
  } finally {
    await backend?.close()
  }
}

/** Tokens of a cluster, certificates and log times need a clock that is roughly right. */
async function checkClock(): Promise<Finding> {
  const now = Date.now()
  const ok = now > Date.parse('2025-01-01')
  const time = new Date(now).toISOString()
  return { check: 'clock', ok, message: ok ? time : `says ${time}; set it, for example with timedatectl set-ntp true` }
}
