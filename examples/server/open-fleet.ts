/** Opens the fleet that the configuration describes, and says in its words what stands in the way. */
import { type Backend, createFleet, type Fleet, FleetError, systemClock } from 'gamekeeper'
import { dockerBackend } from 'gamekeeper/docker'
import { type KubernetesBackendOptions, kubernetesBackend } from 'gamekeeper/kubernetes'
import { memoryBackend } from 'gamekeeper/memory'
import { processBackend } from 'gamekeeper/process'
import { rememberedPort, rememberPort } from './agent-port.js'
import { countServers } from './leave.js'
import type { ServerLog } from './log.js'
import { type Config, UsageError } from './settings.js'

/** Throws UsageError, naming the variable, for a port or a directory that cannot be used. */
export async function openFleet(config: Config, log: ServerLog): Promise<Fleet> {
  const { apiGroup } = config
  if (config.backend === 'memory') return createFleet({ backend: backendOf(config, log), apiGroup, logger: log })
  // Where game servers are told another port than the agent's, whoever maps the one to the other keeps both. In a cluster
  // there is nothing to be kept on a disk, unless the port may be any.
  const mapped =
    config.agentAddress?.includes(':') === true || (config.backend === 'kubernetes' && config.agentPort > 0)
  const known = mapped ? undefined : await rememberedPort(config.dataDir)
  const fleet = await openAt(config, log, known)
  const port = Number(fleet.agentAddress?.split(':').at(-1))
  if (mapped || port === known) return fleet
  await rememberPort(config.dataDir, port)
  if (known !== undefined && ((await countServers(fleet)) ?? 0) > 0) {
    log.warn({ was: known, is: port }, 'the port of the agent has changed: game servers that run already are not heard')
  }
  return fleet
}

async function openAt(config: Config, log: ServerLog, known: number | undefined): Promise<Fleet> {
  const open = (port: number) =>
    createFleet({
      backend: backendOf(config, log),
      apiGroup: config.apiGroup,
      agent: {
        port,
        ...(config.agentHost !== undefined && { host: config.agentHost }),
        ...(config.agentAddress !== undefined && { address: config.agentAddress }),
      },
      logger: log,
    })
  if (config.agentPort > 0 || known === undefined) return open(config.agentPort)
  try {
    return await open(known)
  } catch (error) {
    if (!FleetError.is(error, 'port-in-use')) throw error
    return open(0)
  }
}

function backendOf(config: Config, logger: ServerLog): Backend {
  const { backend, portRange, dataDir: directory, publicAddress } = config
  const address = publicAddress === undefined ? {} : { publicAddress }
  switch (backend) {
    case 'memory':
      return memoryBackend({ clock: systemClock, portRange })
    case 'process':
      return processBackend({ directory, portRange, logger, ...address })
    case 'docker':
      return orUsageError(() => dockerBackend({ directory, portRange, logger, ...address }))
    case 'kubernetes':
      return orUsageError(() => kubernetesBackend({ portRange, logger, ...address, ...inCluster(config) }))
  }
}

function inCluster({ namespaces, systemNamespace, apiGroup, podName }: Config): KubernetesBackendOptions {
  return {
    ...(namespaces && { namespaces }),
    ...(systemNamespace !== undefined && { systemNamespace: systemNamespace }),
    apiGroup,
    ...(podName !== undefined && { pod: podName }),
  }
}

function orUsageError(make: () => Backend): Backend {
  try {
    return make()
  } catch (error) {
    // Nothing runs yet: its package is not there, or is not usable.
    if (!FleetError.is(error, 'internal')) throw error
    throw new UsageError(inVariables(error.message), { cause: error })
  }
}

/** What to tell whoever has set the environment, for an error that they can do something about. */
export function asUsageError(error: unknown): unknown {
  if (!FleetError.is(error)) return error
  const { code, message } = error
  const cause = { cause: error }
  if (code === 'directory-in-use') {
    return new UsageError(`DATA_DIR: ${message}; each server needs a directory of its own`, cause)
  }
  if (code === 'directory-unusable') return new UsageError(`DATA_DIR: ${message}`, cause)
  // The engine of another backend, mostly.
  if (code === 'unavailable') return new UsageError(message, cause)
  if (code === 'port-in-use' || code === 'invalid') return new UsageError(inVariables(message), cause)
  return error
}

/** The library speaks of its options; who starts this server has set variables instead. */
function inVariables(message: string): string {
  const words = [
    ['allocation: { port }', 'ALLOCATION_PORT'],
    ['allocation: { host }', 'HOST'],
    ['management: { port }', 'MANAGEMENT_PORT'],
    ['management: { host }', 'HOST'],
    ['allocation.tls', 'TLS_CERT, TLS_KEY, TLS_CLIENT_CA'],
    ['management.tls', 'TLS_CERT, TLS_KEY, TLS_CLIENT_CA'],
    ['agent: { port }', 'AGENT_PORT'],
    ['agent: { host }', 'AGENT_HOST'],
    ['agent: { address }', 'AGENT_ADDRESS'],
    ['agent.host', 'AGENT_HOST'],
    ['dockerBackend', 'BACKEND=docker'],
    ['kubernetesBackend: pod ', 'POD_NAME '],
    ['kubernetesBackend: systemNamespace ', 'SYSTEM_NAMESPACE '],
    ['kubernetesBackend: apiGroup ', 'API_GROUP '],
    ['kubernetesBackend', 'BACKEND=kubernetes'],
  ] as const
  return words.reduce((text, [option, variable]) => text.replace(option, variable), message)
}
