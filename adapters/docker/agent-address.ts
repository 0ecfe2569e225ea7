/** Finds an address at which containers reach the agent, preferably one that other machines cannot reach, and the way back. */
import type { AgentEndpoint } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { isLoopback, isOwnAddress } from '../../src/platform/http-server.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { hostName } from './container-config.js'

interface AgentEndpointInput {
  /** `agent.host`, if set. */
  readonly host: string | undefined
  /** Host name or address of a remote engine. */
  readonly remoteHost: string | undefined
  /** Whether the engine is Docker Desktop, which forwards connections to `host.docker.internal` to 127.0.0.1. */
  readonly isDesktop: boolean
  /** The engine's description of its default bridge. */
  readonly bridge: unknown
}

/** Rejects with `invalid` if no address can be detected and one must be configured. */
export async function findAgentEndpoint({
  host,
  remoteHost,
  isDesktop,
  bridge,
}: AgentEndpointInput): Promise<AgentEndpoint> {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const isLocal = host !== undefined && isLoopback(host)
  if (host !== undefined && !isWildcard && !isLocal) return { host, advertisedHost: host }
  if (remoteHost !== undefined) {
    throw mustBeConfigured(
      `the Docker engine runs on ${remoteHost}, and its containers need an address of this machine`,
    )
  }
  if (isDesktop) return { host: host ?? '127.0.0.1', advertisedHost: hostName }
  if (isLocal) throw mustBeConfigured(`containers cannot reach an agent on ${host}`, 'omit agent.host, or ')
  const gateway = gatewayOf(bridge)
  if (gateway === undefined) throw mustBeConfigured('the Docker engine has no default bridge network')
  if (!(await isOwnAddress(gateway))) {
    throw mustBeConfigured(
      `the Docker engine's bridge ${gateway} is not an address of this machine (does this host run in a container?)`,
    )
  }
  return { host: host ?? gateway, advertisedHost: hostName }
}

/** Where this host reaches the ports that containers publish. */
export async function findPublishedHost({
  bindAddress,
  remoteHost,
  isDesktop,
  bridge,
}: Omit<AgentEndpointInput, 'host'> & { readonly bindAddress: string | undefined }): Promise<string> {
  const isWildcard = bindAddress === undefined || bindAddress === '0.0.0.0' || bindAddress === '::'
  if (!isWildcard) return bindAddress
  if (remoteHost !== undefined) return remoteHost
  const gateway = gatewayOf(bridge)
  // In a container, the engine's machine is at the gateway.
  if (gateway === undefined || (await isOwnAddress(gateway))) return '127.0.0.1'
  return isDesktop ? '127.0.0.1' : gateway
}

/** Address of the bridge's gateway. If the engine does not report one, it is the first address of the subnet. */
function gatewayOf(bridge: unknown): string | undefined {
  const ipam = isObject(bridge) ? bridge['IPAM'] : undefined
  const configs: unknown = isObject(ipam) ? ipam['Config'] : undefined
  for (const config of Array.isArray(configs) ? configs : []) {
    if (!isObject(config)) continue
    const { Gateway: gateway, Subnet: subnet } = config
    if (typeof gateway === 'string' && /^\d+\.\d+\.\d+\.\d+$/.test(gateway)) return gateway
    const [, network, last] = /^(\d+\.\d+\.\d+)\.(\d+)\//.exec(typeof subnet === 'string' ? subnet : '') ?? []
    if (network !== undefined) return `${network}.${Number(last) + 1}`
  }
  return undefined
}

function mustBeConfigured(reason: string, alternative = ''): FleetError {
  return new FleetError(
    'invalid',
    `${reason}: ${alternative}set agent: { host } to the listen address and agent: { address } to the address that containers use`,
  )
}
