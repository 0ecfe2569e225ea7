/** Finds where the agent must listen so that pods reach it. Asks the nodes and this machine. */
import type { AgentEndpoint } from '../../../src/contracts/backend.js'
import { FleetError } from '../../../src/contracts/errors.js'
import { isLoopback, isOwnAddress } from '../../../src/platform/own-address.js'
import { internalAddressOf } from './nodes.js'
import type { Node } from '../pods/pod-objects.js'

export interface AgentEndpointInput {
  /** Where the owner of the agent wants it to listen. */
  readonly host: string | undefined
  readonly nodes: Iterable<Node>
}

/** Rejects with `invalid` when only the owner can tell. */
export async function findAgentEndpoint({ host, nodes }: AgentEndpointInput): Promise<AgentEndpoint> {
  const isWildcard = host === '0.0.0.0' || host === '::'
  const isLocal = host !== undefined && isLoopback(host)
  if (host !== undefined && !isWildcard && !isLocal) return { host, advertisedHost: host }
  if (isLocal) throw needsWords(`no pod reaches an agent on ${host}; leave agent.host out`)
  for (const node of nodes) {
    const address = internalAddressOf(node)
    if (address !== undefined && (await isOwnAddress(address)))
      return { host: host ?? address, advertisedHost: address }
  }
  throw needsWords('this host is on no node of the cluster, so that nobody but you knows how pods reach its agent')
}

function needsWords(why: string): FleetError {
  return new FleetError(
    'invalid',
    `${why}: set agent: { host } to where it listens, and agent: { address } to what pods call, such as that of a Service`,
  )
}
