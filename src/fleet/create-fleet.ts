/** Makes a fleet: opens the store, starts the agent, and runs an engine for as long as this host leads. */
import { isIPv6 } from 'node:net'
import { type Agent, startAgent } from '../agent/index.js'
import type { AgentEndpoint } from '../contracts/backend.js'
import { facade } from './facade.js'
import type { Fleet } from '../contracts/fleet.js'
import { leaderTerm } from './leader-term.js'
import { type FleetOptions, resolveOptions } from '../contracts/options.js'
import type { Heartbeat } from '../rules/game/heartbeat.js'
import { openDefaultStore } from '../stores/default-store.js'

/**
 * Resolves once builds, servers and sessions of before are known again. Throws `invalid` for a bad option,
 * `port-in-use` when the agent's port is taken, `directory-in-use` or `directory-unusable` for the file store, and
 * whatever the store or the backend fails with.
 */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const resolved = resolveOptions(options)
  const { backend, agent: agentOptions = {} } = options
  const cleanUp: (() => Promise<void>)[] = []
  try {
    const store = options.store ?? (await openDefaultStore(backend.defaultStore, resolved.logger))
    // Async, so that one that throws at once does not keep the others from being closed.
    if (!options.store) cleanUp.unshift(async () => store.close())
    cleanUp.unshift(async () => backend.close())
    const target = { heartbeat: (id: string, beat: Heartbeat) => term.heartbeat(id, beat) }
    let agent: Agent | undefined
    let place: AgentEndpoint | undefined
    if (backend.capabilities.agent && !('external' in agentOptions)) {
      const { port } = agentOptions
      const isSettled = agentOptions.host !== undefined && agentOptions.address !== undefined
      if (!isSettled) place = await backend.agentEndpoint?.({ host: agentOptions.host })
      const host = agentOptions.host ?? place?.host
      agent = await startAgent({
        target,
        logger: resolved.logger,
        ...(host !== undefined && { host }),
        ...(port !== undefined && { port }),
      })
      const started = agent
      cleanUp.unshift(() => started.close())
    }
    const agentAddress =
      'external' in agentOptions
        ? agentOptions.external
        : agent && addressOf(agent, agentOptions.address ?? place?.advertisedHost)
    const term = leaderTerm(options, resolved, store, agentAddress ?? '')
    cleanUp.unshift(() => term.close())
    await term.begun
    return facade({ term, backend, store, resolved, agentAddress, cleanUp })
  } catch (error) {
    for (const fn of cleanUp) await fn().catch(() => undefined) // The first failure is the one to tell.
    throw error
  }
}

function addressOf(agent: Agent, address: string | undefined): string {
  // Listening everywhere is no address to be reached at: here it means this machine.
  const isEverywhere = agent.host === '0.0.0.0' || agent.host === '::'
  const host = address ?? (isEverywhere ? '127.0.0.1' : agent.host)
  if (isIPv6(host)) return `[${host}]:${agent.port}`
  return /:\d+$/.test(host) ? host : `${host}:${agent.port}`
}
