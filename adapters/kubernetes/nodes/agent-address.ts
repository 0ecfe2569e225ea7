/** Finds an address of this machine at which pods can reach the agent, by comparing the nodes' addresses with its own. */
import type { AgentEndpoint } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isLoopback, isOwnAddress } from '../../../src/platform/own-address.js'
import type { Node } from './node-objects.js'
import { internalAddress } from './node-status.js'

export interface AgentEndpointInput {
  /** The configured listen address. */
  readonly host: string | undefined
  readonly nodes: Iterable<Node>
}

/** Rejects with `invalid` if no address can be detected and one must be configured. */
export async function findAgentEndpoint({ host, nodes }: AgentEndpointInput): Promise<AgentEndpoint> {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const isLocal = host !== undefined && isLoopback(host)
  if (host !== undefined && !isWildcard && !isLocal) return { host, advertisedHost: host }
  if (isLocal) throw mustBeConfigured(`pods cannot reach an agent on ${host}`, 'omit agent.host, or ')
  for (const node of nodes) {
    const address = internalAddress(node)
    if (address !== undefined && (await isOwnAddress(address)))
      return { host: host ?? address, advertisedHost: address }
  }
  throw mustBeConfigured(
    'this host is not a node of the cluster, so the address at which pods reach its agent is unknown',
  )
}

function mustBeConfigured(reason: string, alternative = ''): FleetError {
  return new FleetError(
    'invalid',
    `${reason}: ${alternative}set agent: { host } to the listen address and agent: { address } to the address that pods use, such as that of a Service`,
  )
}
