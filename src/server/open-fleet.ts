/** Opens the fleet that the configuration describes. Rewords errors to name the environment variables to change. */
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { dockerBackend } from '../../adapters/docker/index.js'
import { kubernetesBackend, type KubernetesBackendOptions } from '../../adapters/kubernetes/index.js'
import { memoryBackend } from '../../adapters/memory/index.js'
import { processBackend } from '../../adapters/process/index.js'
import { UsageError } from '../config/usage-error.js'
import { type Backend, createFleet, FleetError, systemClock } from '../index.js'
import type { Fleet } from '../contracts/fleet.js'
import type { ServerLog } from './log.js'
import type { Config } from './settings.js'
import { countServers } from './shutdown.js'

/** Throws UsageError, naming the variable, if a port or directory cannot be used. */
export async function openFleet(config: Config, log: ServerLog): Promise<Fleet> {
  const { apiGroup, audit, scalingWebhooks } = config
  const budget = config.budget && { budget: config.budget }
  if (config.backend === 'memory') {
    return createFleet({ backend: backendOf(config, log), apiGroup, audit, scalingWebhooks, ...budget, logger: log })
  }
  // If AGENT_ADDRESS contains a port, or the port is fixed in a cluster, there is no port to store.
  const fixed = config.agentAddress?.includes(':') === true || (config.backend === 'kubernetes' && config.agentPort > 0)
  const previousPort = fixed ? undefined : await rememberedPort(config.dataDir)
  const fleet = await openAt(config, log, previousPort)
  const port = Number(fleet.agentAddress?.split(':').at(-1))
  if (fixed || port === previousPort) return fleet
  try {
    await rememberPort(config.dataDir, port)
  } catch (err) {
    // On a full disk, game servers and matches go on all the same.
    log.warn(
      { err, port },
      'the agent port cannot be stored; if it changes, heartbeats of running game servers are lost',
    )
  }
  if (previousPort !== undefined && ((await countServers(fleet)) ?? 0) > 0) {
    log.warn(
      { previous: previousPort, port },
      'the agent port has changed; heartbeats of game servers that are already running are lost',
    )
  }
  return fleet
}

async function openAt(config: Config, log: ServerLog, previousPort: number | undefined): Promise<Fleet> {
  const open = (port: number) =>
    createFleet({
      backend: backendOf(config, log),
      apiGroup: config.apiGroup,
      audit: config.audit,
      scalingWebhooks: config.scalingWebhooks,
      acceptStoreLoss: config.acceptStoreLoss,
      ...(config.budget && { budget: config.budget }),
      ...(config.forwarding && { forwarding: { address: config.forwarding.address } }),
      agent: {
        port,
        ...(config.agentHost !== undefined && { host: config.agentHost }),
        ...(config.agentAddress !== undefined && { address: config.agentAddress }),
      },
      logger: log,
    })
  if (config.agentPort > 0 || previousPort === undefined) return open(config.agentPort)
  try {
    return await open(previousPort)
  } catch (error) {
    if (!FleetError.is(error, 'port-in-use')) throw error
    return open(0)
  }
}

function backendOf(config: Config, logger: ServerLog): Backend {
  const { backend, portRange, dataDir: directory, isolation, readOnlyPaths, runAs } = config
  const { publicAddress, titleId, region, fullyQualifiedDomainName } = config
  const place = {
    ...(publicAddress !== undefined && { publicAddress }),
    ...(titleId !== undefined && { titleId }),
    ...(region !== undefined && { region }),
    ...(fullyQualifiedDomainName !== undefined && { fullyQualifiedDomainName }),
  }
  switch (backend) {
    case 'memory':
      return memoryBackend({ clock: systemClock, portRange })
    case 'process':
      return processBackend({
        directory,
        portRange,
        logger,
        ...place,
        isolation,
        readOnlyPaths,
        ...(runAs && { runAs }),
      })
    case 'docker':
      return orUsageError(() => dockerBackend({ directory, portRange, logger, ...place }))
    case 'kubernetes':
      return orUsageError(() => kubernetesBackend({ portRange, logger, ...place, ...clusterOptions(config) }))
  }
}

function clusterOptions(config: Config): KubernetesBackendOptions {
  const { namespaces, systemNamespace, apiGroup, podName, leaseMs, cordonNoticeMs, prePullImages } = config
  return {
    ...(namespaces && { namespaces }),
    ...(systemNamespace !== undefined && { systemNamespace }),
    apiGroup,
    leaseMs,
    ...(podName !== undefined && { pod: podName }),
    ...(cordonNoticeMs !== undefined && { cordonNoticeMs }),
    prePullImages,
  }
}

function orUsageError(make: () => Backend): Backend {
  try {
    return make()
  } catch (error) {
    // Nothing is running yet, so the backend's package is missing or unusable.
    if (!FleetError.is(error, 'internal')) throw error
    throw new UsageError(inVariables(error.message), { cause: error })
  }
}

/**
 * Converts an error that the operator can fix by changing the environment to a UsageError. Returns other errors unchanged.
 */
export function asUsageError(error: unknown): unknown {
  if (!FleetError.is(error)) return error
  const { code, message } = error
  const cause = { cause: error }
  if (code === 'directory-in-use') {
    return new UsageError(`DATA_DIR: ${message}; each server needs a directory of its own`, cause)
  }
  if (code === 'directory-unusable') return new UsageError(`DATA_DIR: ${inVariables(message)}`, cause)
  // Usually the Docker engine or the cluster is unavailable.
  if (code === 'unavailable') return new UsageError(message, cause)
  if (code === 'port-in-use' || code === 'invalid') return new UsageError(inVariables(message), cause)
  return error
}

/** Replaces the names of library options with the names of the variables that set them. */
function inVariables(message: string): string {
  const words = [
    ['allocation: { port }', 'ALLOCATION_PORT'],
    ['allocation: { host }', 'HOST'],
    ['management: { port }', 'MANAGEMENT_PORT'],
    ['management: { host }', 'HOST'],
    ['health: { port }', 'HEALTH_PORT'],
    ['health: { host }', 'HEALTH_HOST'],
    ['forwarding: { port }', 'FORWARDING_PORT'],
    ['allocation.tls', 'TLS_CERT, TLS_KEY, TLS_CLIENT_CA'],
    ['management.tls', 'TLS_CERT, TLS_KEY, TLS_CLIENT_CA'],
    ['agent: { port }', 'AGENT_PORT'],
    ['agent: { host }', 'AGENT_HOST'],
    ['agent: { address }', 'AGENT_ADDRESS'],
    ['acceptStoreLoss: true', 'ACCEPT_STORE_LOSS=1'],
    ['createFleet: scalingWebhooks', 'SCALING_WEBHOOKS'],
    ['agent.host', 'AGENT_HOST'],
    ["processBackend: isolation 'user'", 'ISOLATION=user'],
    ["processBackend: isolation 'systemd'", 'ISOLATION=systemd'],
    ['processBackend: readOnlyPaths', 'READ_ONLY_PATHS'],
    ["isolation 'systemd'", 'ISOLATION=systemd'],
    ['processBackend: runAs', 'RUN_AS'],
    ['dockerBackend', 'BACKEND=docker'],
    ['kubernetesBackend: pod ', 'POD_NAME '],
    ['kubernetesBackend: systemNamespace ', 'SYSTEM_NAMESPACE '],
    ['kubernetesBackend: apiGroup ', 'API_GROUP '],
    ['kubernetesBackend', 'BACKEND=kubernetes'],
  ] as const
  return words.reduce((text, [option, variable]) => text.replace(option, variable), message)
}

// Stores the agent's port in DATA_DIR. Game servers that have been running since an earlier start send heartbeats only to
// the port used then, so with AGENT_PORT=0 the server uses that port again.

const fileName = 'agent-port'

/** Returns undefined if no valid port is stored. */
export async function rememberedPort(dataDir: string): Promise<number | undefined> {
  let text: string
  try {
    text = await readFile(join(dataDir, fileName), 'utf8')
  } catch {
    // Usually the file does not exist yet. Other problems with the directory are reported when the file is written.
    return undefined
  }
  const port = /^\d{1,5}\n$/.test(text) ? Number(text) : 0
  return port > 0 && port <= 65_535 ? port : undefined
}

export async function rememberPort(dataDir: string, port: number): Promise<void> {
  const path = join(dataDir, fileName)
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  try {
    await writeFile(`${path}.tmp`, `${port}\n`, { mode: 0o600 })
    await rename(`${path}.tmp`, path)
  } catch (error) {
    await rm(`${path}.tmp`, { force: true })
    throw error
  }
}
