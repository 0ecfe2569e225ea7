/** Finds where the agent must listen so that containers reach it, and nobody else does. Asks the engine and this machine. */
import type { AgentEndpoint } from '../../src/contracts/backend.js'
import { FleetError } from '../../src/contracts/errors.js'
import { isLoopback, isOwnAddress } from '../../src/platform/own-address.js'
import { isObject } from '../../src/rules/validation/problem.js'
import { hostName } from './translate.js'

export interface AgentEndpointInput {
  /** Where the owner of the agent wants it to listen. */
  readonly host: string | undefined
  /** The engine's machine, when that is another. */
  readonly remote: string | undefined
  /** Docker Desktop hands what containers send to their host on to 127.0.0.1. */
  readonly isDesktop: boolean
  /** What the engine says of its default bridge. */
  readonly bridge: unknown
}

/** Rejects with `invalid` when only the owner can tell. */
export async function findAgentEndpoint({
  host,
  remote,
  isDesktop,
  bridge,
}: AgentEndpointInput): Promise<AgentEndpoint> {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const isLocal = host !== undefined && isLoopback(host)
  if (host !== undefined && !isWildcard && !isLocal) return { host, advertisedHost: host }
  if (remote !== undefined) {
    throw needsWords(
      `the Docker engine runs on ${remote}, whose containers cannot find the agent on this machine by themselves`,
    )
  }
  if (isDesktop) return { host: host ?? '127.0.0.1', advertisedHost: hostName }
  if (isLocal) throw needsWords(`no container reaches an agent on ${host}; leave agent.host out`)
  const gateway = gatewayOf(bridge)
  if (gateway === undefined) throw needsWords('the Docker engine has no default bridge network')
  if (!(await isOwnAddress(gateway))) {
    throw needsWords(
      `the Docker engine's bridge ${gateway} is not on this machine, as when this host runs in a container`,
    )
  }
  return { host: host ?? gateway, advertisedHost: hostName }
}

/** The engine does not always say it: then it is the first address of the subnet. */
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

function needsWords(why: string): FleetError {
  return new FleetError(
    'invalid',
    `${why}: set agent: { host } to where it listens, and agent: { address } to what containers call`,
  )
}
