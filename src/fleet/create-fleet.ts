/** Creates a fleet: opens the store, starts the agent, and runs an engine while this host leads. */
import { isIPv6 } from 'node:net'
import { type Agent, startAgent } from '../agent/index.js'
import type { AgentEndpoint, Backend } from '../contracts/backend.js'
import type { EventListener, EventListeners, FleetEmitter } from '../contracts/events.js'
import type { Fleet } from '../contracts/fleet.js'
import type { Logger } from '../contracts/logger.js'
import { type FleetOptions, resolveOptions } from '../contracts/options.js'
import { openDefaultStore } from '../stores/default-store.js'
import { agentTarget } from './agent-target.js'
import { followAllocationRequests } from './allocation-requests.js'
import { Audit } from './audit.js'
import { facade } from './facade.js'
import { heartbeatForwarder } from './forwarding/heartbeats.js'
import { type OpenLink, openLink } from './forwarding/link.js'
import { followGameOutput } from './game-output.js'
import { LeaderTerm } from './leadership/leader-term.js'
import { handleStoreLoss, storeDamaged } from './store-loss.js'

/**
 * Resolves once this host has loaded the existing builds, servers and sessions, or another host leads. Rejects with
 * `invalid` for a bad option, `port-in-use` if the agent's port is taken, `directory-in-use` or `directory-unusable` if the
 * file store cannot be opened, or with an error from the store or backend.
 */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const resolved = resolveOptions(options)
  const { backend, agent: agentOptions = {} } = options
  const cleanUp: (() => Promise<void>)[] = []
  try {
    const store = options.store ?? (await openDefaultStore(backend.defaultStore, resolved.logger))
    // The steps are async functions: if one throws synchronously, the steps after it still run.
    if (!options.store) cleanUp.unshift(async () => store.close())
    // Leadership ends only after the backend has closed, because until then it carries out the engine's last calls.
    let resign = async () => {}
    const closeBackend = once(async () => backend.close())
    const resignOnce = once(() => resign())
    cleanUp.unshift(closeBackend, resignOnce)
    const closing = new AbortController()
    const { heartbeatIntervalMs } = resolved.limits
    const knownLink = () => opened.link
    const target = agentTarget({
      term: () => term,
      audit: () => audit,
      forwardHeartbeat:
        resolved.forwarding && heartbeatForwarder({ link: knownLink, closing: closing.signal, heartbeatIntervalMs }),
    })
    const loss = await handleStoreLoss(store, backend, options.acceptStoreLoss ?? false)
    /** Empty until there is a link: the agent listens before. */
    const opened: { link?: OpenLink } = {}
    let agent: Agent | undefined
    let endpoint: AgentEndpoint | undefined
    if (backend.capabilities.agent && !('external' in agentOptions)) {
      const { port } = agentOptions
      const isSpecified = agentOptions.host !== undefined && agentOptions.address !== undefined
      if (!isSpecified) endpoint = await backend.agentEndpoint?.({ host: agentOptions.host })
      const host = agentOptions.host ?? endpoint?.host
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
        : agent && addressOf(agent, agentOptions.address ?? endpoint?.advertisedHost)
    const term = new LeaderTerm({
      resolved,
      backend,
      store,
      agentAddress: agentAddress ?? '',
      hasPeer: () => opened.link?.hasPeer() ?? false,
    })
    const audit = new Audit({ isEnabled: resolved.audit, clock: resolved.clock, emitter: term.emitter })
    resign = () => term.resign()
    listen(term.emitter, options.on ?? {})
    const stop = once(() => term.stop())
    cleanUp.unshift(stop)
    const { forwarding, elector } = resolved
    const link =
      forwarding && openLink({ forwarding, elector, store, leads: () => term.leads(), observers: term.observers })
    if (link) {
      // Until the store closes, since its key proves this host to the others.
      opened.link = link
      cleanUp.splice(cleanUp.indexOf(resignOnce) + 1, 0, async () => link.close())
      term.emitter.on('LeadershipChanged', link.changed)
    }
    // Else the agent would wait for the heartbeats that the leader holds.
    cleanUp.unshift(async () => closing.abort())
    const handOver = () => runAll([stop, closeBackend, resignOnce])
    if (loss) term.emitter.emit(storeDamaged(loss, resolved.clock.now()))
    await term.begun
    if (agent && 'port' in agentOptions && agentOptions.port === 0) warnOfNewPort(term, backend, resolved.logger)
    const fleet = facade({
      term,
      backend,
      store,
      resolved,
      agentAddress,
      link,
      audit,
      target,
      handOver,
      cleanUp,
    })
    cleanUp.unshift(followAllocationRequests({ store, term, allocate: fleet.allocate, limits: resolved.limits }))
    const { development } = backend.capabilities
    // Last, because the games of such a fleet end while the backend closes.
    if (development) cleanUp.push(followGameOutput(fleet, development.output))
    return fleet
  } catch (error) {
    // Errors during clean-up are dropped, so that the caller gets the original failure.
    for (const step of cleanUp) await step().catch(() => undefined)
    throw error
  }
}

/** In the tick in which the term begins, so that they hear everything. */
function listen(emitter: FleetEmitter, listeners: EventListeners): void {
  // Each gets its own type of event only, which the compiler cannot know of an entry.
  const all = Object.entries(listeners as Readonly<Record<string, EventListener<'*'> | undefined>>)
  for (const [type, listener] of all) if (listener) emitter.on(type as '*', listener)
}

/** If a step fails, the next ones still run: a host that cannot close its backend gives up the lead all the same. Throws the first error. */
async function runAll(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const errors: unknown[] = []
  for (const step of steps) await step().catch((error: unknown) => void errors.push(error))
  if (errors.length > 0) throw errors[0]
}

/** The games that an earlier host started call the port that it had. */
function warnOfNewPort(term: LeaderTerm, { capabilities }: Backend, logger: Logger): void {
  if (capabilities.development || !term.leads()) return
  const servers = Array.from(term.engine().inventory.servers.values()).filter(({ inherited }) => inherited)
  if (servers.length === 0) return
  logger.warn(
    { servers: servers.length },
    'createFleet: agent.port is 0, a new port at each start, which the games of an earlier host do not know; give it a port',
  )
}

/** Later calls get the result of the first. */
function once(step: () => Promise<void>): () => Promise<void> {
  let result: Promise<void> | undefined
  return () => (result ??= step())
}

function addressOf(agent: Agent, address: string | undefined): string {
  // Game servers cannot connect to a wildcard address. Those on this machine use the loopback address instead.
  const isWildcard = agent.host === '0.0.0.0' || agent.host === '::'
  const host = address ?? (isWildcard ? '127.0.0.1' : agent.host)
  if (isIPv6(host)) return `[${host}]:${agent.port}`
  return /:\d+$/.test(host) ? host : `${host}:${agent.port}`
}
