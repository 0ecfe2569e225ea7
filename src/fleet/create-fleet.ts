/** Creates a fleet: opens the store, starts the agent, and runs an engine while this host leads. */
import { isIPv6 } from 'node:net'
import { type Agent, startAgent } from '../agent/index.js'
import type { AgentEndpoint, Backend, GameOutput } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { EventListener, EventListeners, FleetEmitter, UnnumberedEvent } from '../contracts/events.js'
import type { Fleet } from '../contracts/fleet.js'
import type { Logger } from '../contracts/logger.js'
import { type FleetOptions, resolveOptions } from '../contracts/options.js'
import type { Prober } from '../contracts/prober.js'
import type { AskWebhook } from '../contracts/scaling-demand.js'
import type { Store, StoreCheck } from '../contracts/store.js'
import { placeholderBuild } from '../engine/persistence/loader.js'
import { type Build, keyOf, type Server } from '../rules/model/resources.js'
import { counted, shown } from '../rules/validation/problem.js'
import { openProber } from '../probes/network-prober.js'
import { openDefaultStore } from '../stores/default-store.js'
import { listed } from '../stores/lmdb-environment.js'
import { agentTarget, heartbeatForwarder } from './agent-target.js'
import { followAllocationRequests } from './allocation-requests.js'
import { Audit } from './audit.js'
import { facade } from './facade.js'
import { type OpenLink, openLink } from './leader-link.js'
import { LeaderTerm } from './leader-term.js'
import { webhookClient } from './scaling-webhooks.js'

/**
 * Resolves once this host has loaded the existing builds, servers and sessions, or another host leads. Rejects with
 * `invalid` for a bad option, `port-in-use` if the agent's port is taken, `directory-in-use` or `directory-unusable` if the
 * file store cannot be opened, or with an error from the store or backend.
 */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  return createFleetWith(options, {})
}

/** What asks others over the network. Default: the real ones. */
interface Outside {
  readonly askWebhook?: AskWebhook
  readonly prober?: Prober
}

/** With other ways to ask scaling webhooks and games, for tests. */
export async function createFleetWith(options: FleetOptions, outside: Outside): Promise<Fleet> {
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
      // A development backend ends its games when it closes: until then they have their agent.
      cleanUp.splice(backend.capabilities.development ? 1 : 0, 0, () => started.close())
    }
    const agentAddress =
      'external' in agentOptions
        ? agentOptions.external
        : agent && addressOf(agent, agentOptions.address ?? endpoint?.advertisedHost)
    const prober = outside.prober ?? openProber()
    cleanUp.unshift(async () => prober.close())
    const term = new LeaderTerm({
      resolved,
      backend,
      store,
      agentAddress: agentAddress ?? '',
      askWebhook: outside.askWebhook ?? webhookClient(resolved.clock),
      prober,
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

// Passes on what the games of a fleet for development print, from the start of each to its end.

/** Returns a function that resolves when the output of all games, which must have ended, has been passed on. */
function followGameOutput(fleet: Pick<Fleet, 'on' | 'servers'>, output: GameOutput): () => Promise<void> {
  const following = new Map<string, Promise<void>>()
  const unlisten = fleet.on('*', (event) => {
    const started = event.type === 'ServerStateChanged' || event.type === 'ServerEnding'
    if (!started || following.has(event.server.name)) return
    const { name } = event.server
    const followed = follow(fleet, event.server, output)
    following.set(name, followed)
  })
  return async () => {
    unlisten()
    await Promise.all(following.values())
  }
}

async function follow(
  fleet: Pick<Fleet, 'servers'>,
  server: { readonly namespace: string; readonly name: string },
  output: GameOutput,
): Promise<void> {
  try {
    for await (const line of fleet.servers.logs(server, { follow: true })) output(server.name, line)
  } catch (error) {
    // A server that never ran has no log.
    if (!FleetError.is(error)) throw error
  }
}

// Decides whether a fleet starts although its store has lost data, and makes such a store usable. Touches the store and the backend.

/**
 * Returns what the store has lost, after making it usable. Throws `directory-unusable`, and changes nothing, if a session could get a
 * second server or a build would be gone, unless the operator accepts that.
 */
async function handleStoreLoss(store: Store, backend: Backend, isAccepted: boolean): Promise<StoreCheck | undefined> {
  const { damage } = store
  if (!isAccepted && (store.isNew || damage)) await refuseLoss(store, backend)
  if (!damage) return undefined
  await store.acceptDamage?.(damage.affected.includes('build') ? emptyBuilds : undefined)
  return damage
}

function storeDamaged({ problems }: StoreCheck, at: number): UnnumberedEvent {
  const message = `the store is damaged, and the damaged records were removed: ${listed(problems)}`
  return { type: 'StoreDamaged', at, problems: problems.slice(0, 100), message }
}

async function refuseLoss({ isNew, damage }: Store, backend: Backend): Promise<void> {
  const servers = (await backend.list()).map(({ ref }) => ref.name)
  const names = servers.length > 3 ? `${servers.slice(0, 3).join(', ')}…` : servers.join(', ')
  const those = `the ${backend.name} backend has ${counted(servers.length, 'game server')} of this fleet (${names})`
  if (isNew && servers.length > 0) {
    throw new FleetError(
      'directory-unusable',
      `the store is empty, but ${those}: its data was lost or replaced. Restore its whole directory from a backup, or start with acceptStoreLoss: true, which terminates servers without a match and lets matches end without a record`,
    )
  }
  const isSessionAtRisk = servers.length > 0 && (damage?.affected.includes('server') || damage?.lostWrites)
  // The first record that a fleet stores is a build.
  const isBuildLost = damage?.affected.includes('build') || (isNew && damage?.lostWrites)
  if (!damage || !(isSessionAtRisk || isBuildLost)) return
  throw new FleetError(
    'directory-unusable',
    `the store is damaged: ${listed(damage.problems)}${servers.length > 0 ? `; ${those}` : ''}. Restore its whole directory from a backup, or start with acceptStoreLoss: true, which removes the damaged records: matches go on, but a session whose record is lost gets another server if it is allocated again`,
  )
}

/**
 * Empty builds, which create no servers, for servers whose build is lost. Without one, they would be taken for servers of a deleted
 * build, and their matches would be ended.
 */
function emptyBuilds(builds: readonly Build[], servers: readonly Server[]): readonly Build[] {
  const names = new Set(builds.map(keyOf))
  const empty: Build[] = []
  for (const server of servers) {
    const build = placeholderBuild(server)
    if (names.has(keyOf(build))) continue
    names.add(keyOf(build))
    empty.push({ ...build, spec: { ...build.spec, buildID: build.uid } })
  }
  return empty
}

// Keeps one fleet of each name for the process, however often the module that creates it is loaded.

/** On the global object, which the ESM and CommonJS copies of this file and every bundle of the app share. */
const key = Symbol.for('gamekeeper.fleets')

/**
 * Resolves with the fleet of this name, which the first call creates: `fleetOnce('arena', () => createFleet({ … }))`. For frameworks that load
 * an app's modules more than once in a process, such as Next.js, whose development server also loads a module again after each edit. Call it
 * where the fleet is used rather than when the module is loaded, so that a build of the app creates none. After `close`, and after a creation
 * that failed, the next call creates the fleet anew. Rejects as `create` does.
 */
export function fleetOnce(name: string, create: () => Promise<Fleet>): Promise<Fleet> {
  if (typeof name !== 'string' || name === '' || typeof create !== 'function') {
    const got = typeof name === 'string' && name !== '' ? shown(create) : shown(name)
    throw new FleetError('invalid', `fleetOnce takes a name and a function that creates the fleet, but got ${got}`)
  }
  const fleets = fleetsOfProcess()
  const known = fleets.get(name)
  if (known) return known
  const created = kept(create, () => void (fleets.get(name) === created && fleets.delete(name)))
  fleets.set(name, created)
  return created
}

async function kept(create: () => Promise<Fleet>, forget: () => void): Promise<Fleet> {
  try {
    const fleet = await create()
    return Object.freeze<Fleet>({
      ...fleet,
      async close() {
        await fleet.close()
        forget()
      },
    })
  } catch (error) {
    forget()
    throw error
  }
}

function fleetsOfProcess(): Map<string, Promise<Fleet>> {
  const holder: typeof globalThis & { [key]?: Map<string, Promise<Fleet>> } = globalThis
  return (holder[key] ??= new Map())
}
