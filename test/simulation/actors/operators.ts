/** Simulated operators, which change builds and servers through the fleet. A refused call is not a violation. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { BuildUpdate, Fleet } from '../../../src/contracts/fleet.js'
import type { DrainOptions } from '../../../src/contracts/options.js'
import { keyOf, type Server } from '../../../src/rules/model/resources.js'
import { type SimulationContext, unrunnableBuildName } from '../context.js'
import { declaredTickets } from '../invariants/server-data.js'
import { modelNode } from '../models/backend-model.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import {
  brokenVersion,
  buildIDOf,
  buildNames,
  buildSpec,
  crashingVersion,
  existingBuilds,
  someBudget,
  someHealth,
  template,
} from './build-specs.js'
import { calm, someScaling } from './scaling-specs.js'

interface Operation {
  readonly weight: number
  run(context: SimulationContext, fleet: Fleet, name: string, host: Host): Promise<unknown>
}

const operations: readonly Operation[] = [
  { weight: 4, run: createBuild },
  { weight: 12, run: scale },
  { weight: 4, run: update },
  { weight: 1, run: deleteBuild },
  { weight: 1, run: deleteServer },
  { weight: 1, run: drainBuild },
  { weight: 2, run: resumeBuild },
  { weight: 1, run: drainServer },
  { weight: 1, run: drainFleet },
  { weight: 2, run: announceMaintenance },
]

const weighted = operations.flatMap((one) => Array.from({ length: one.weight }, () => one))

/** Runs one random operation. Rejects if the fleet returns an error that it must never return. */
export async function operate(context: SimulationContext): Promise<void> {
  const { world } = context
  const host = context.hosts.pickResponsive()
  const operation = world.oneOf(weighted)
  const existing = existingBuilds(context.store)
  const missing = buildNames.filter((name) => !existing.includes(name))
  // Mostly pick a build to which the operation applies.
  const applicable = operation?.run === createBuild ? missing : existing
  const name = world.oneOf(world.chance(0.1) ? buildNames : applicable)
  if (!host?.fleet || !operation || name === undefined) return
  host.hasNews = true
  await allowRefusal(operation.run(context, host.fleet, name, host))
}

/** Changes the data of a random server, as lobbies and backfill do all the time. */
export async function changeServerData({ world, hosts, store, invariants }: SimulationContext): Promise<void> {
  const host = hosts.pickResponsive()
  const server = world.oneOf([...store.servers.values()])?.record
  if (!host?.fleet || !server) return
  const { servers } = host.fleet
  host.hasNews = true
  world.note(`operator: changes the data of ${server.name}`)
  await allowRefusal(invariants.serverData.change(host, server, (change) => servers.update(server, change)))
}

/** Creates the initial builds. Resolves to true once all of them exist. */
export async function createInitialBuilds(context: SimulationContext): Promise<boolean> {
  const { store, unrunnable } = context
  const host = context.hosts.pickResponsive()
  const names = ['arena', 'duel', ...(unrunnable ? [unrunnableBuildName] : [])]
  const missing = names.filter((name) => !store.builds.has(keyOf({ namespace: 'default', name })))
  for (const name of missing) {
    if (!host?.fleet) continue
    host.hasNews = true
    await allowRefusal(
      name === unrunnableBuildName
        ? createUnrunnableBuild(context, host.fleet, unrunnable?.standingBy ?? 1)
        : createBuild(context, host.fleet, name),
    )
  }
  return missing.length === 0
}

/** For a minute in which a host answers, takes away the policies that change something on their own, from every build that has some. */
export function calmPolicies(context: SimulationContext, times = 12): void {
  const { hosts, world } = context
  if (!world.hasPolicies || times === 0) return
  const host = hosts.pickResponsive()
  if (host?.fleet) void allowRefusal(calmBuilds(host.fleet)).catch(() => world.violate('a build could not be calmed'))
  world.after(5_000, () => calmPolicies(context, host?.fleet ? times - 1 : times))
}

async function calmBuilds(fleet: Fleet): Promise<void> {
  for (const { metadata, spec } of await fleet.builds.list()) {
    const { scaling } = spec
    if (scaling && Object.keys(scaling).length > Object.keys(calm(scaling)).length)
      await allowRefusal(
        fleet.builds.update(metadata, { scaling: calm(scaling), standingBy: Math.min(spec.standingBy, spec.max) }),
      )
  }
}

async function allowRefusal(done: Promise<unknown>): Promise<void> {
  try {
    await done
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
  }
}

function createBuild({ world }: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  const max = world.between(1, 8)
  const standingBy = world.between(0, Math.min(max, 4))
  world.note(`operator: creates build ${name} with standingBy ${standingBy}, max ${max}`)
  return fleet.builds.create({ metadata: { name }, spec: buildSpec(world, name, standingBy, max) })
}

function createUnrunnableBuild({ world }: SimulationContext, fleet: Fleet, standingBy: number): Promise<unknown> {
  world.note(`operator: creates build ${unrunnableBuildName}, whose servers cannot run`)
  return fleet.builds.create({
    metadata: { name: unrunnableBuildName },
    spec: {
      ...{ buildID: buildIDOf(unrunnableBuildName), standingBy, max: standingBy, portsToExpose: [] },
      template,
      ...declaredTickets,
    },
  })
}

function scale({ world, store }: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  const spec = store.builds.get(keyOf({ namespace: 'default', name }))?.record.spec
  // Sometimes lower both numbers together, as when demand falls in the evening.
  const drops = spec !== undefined && world.chance(0.5)
  const max = drops ? world.between(0, Math.ceil(spec.max / 2)) : world.between(0, 8)
  const standingBy = world.between(0, Math.min(max, drops ? spec.standingBy : 4))
  world.note(`operator: patches ${name} to standingBy ${standingBy}, max ${max}`)
  return fleet.builds.patch(name, { standingBy, max })
}

/** Updates a build, mostly to a new game version, which starts a rolling update. */
function update({ world }: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  const changes: readonly BuildUpdate[] = [
    { buildMetadata: { version: String(world.between(1, 3)) } },
    { buildMetadata: { version: brokenVersion } },
    { buildMetadata: { version: crashingVersion } },
    { template: { ...template, metadata: { labels: { version: String(world.between(1, 3)) } } } },
    { portsToExpose: world.chance(0.5) ? [7777] : [7777, 7778] },
    { health: someHealth(world) },
    { claimSeconds: world.chance(0.8) ? world.between(5, 60) : undefined },
  ]
  const all = [
    ...changes,
    ...(world.hasPolicies ? [{ scaling: someScaling(world) }] : []),
    ...(world.budget === undefined ? [] : [{ budget: someBudget(world) }]),
  ]
  const change = world.oneOf(all) ?? {}
  world.note(`operator: updates ${name} to ${JSON.stringify(change)}`)
  return fleet.builds.update(name, change)
}

function deleteBuild({ world, store, invariants }: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  const record = store.builds.get(keyOf({ namespace: 'default', name }))?.record
  if (record) invariants.sessions.allowEnd(record.uid)
  world.note(`operator: deletes build ${name}`)
  return fleet.builds.delete(name)
}

async function deleteServer(
  { world, store, invariants }: SimulationContext,
  fleet: Fleet,
  build: string,
): Promise<unknown> {
  const server = world.oneOf(serversOf(store.servers.values(), build))
  if (!server) return undefined
  invariants.sessions.allowEnd(server.uid)
  world.note(`operator: deletes server ${server.name}`)
  return fleet.servers.delete(server)
}

/** Drains a build. Resolves when all its servers have been removed, which may take long. */
function drainBuild(context: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  const { world, store, invariants } = context
  const { sessions, terminations } = invariants
  const options = someDrain(world)
  for (const server of serversOf(store.servers.values(), name)) {
    terminations.allowDrain(server.uid)
    if (options.active === 'terminate') sessions.allowEnd(server.uid)
  }
  world.note(`operator: drains build ${name}, ${JSON.stringify(options)}`)
  const drained =
    options.active === 'terminate' ? terminations.allowDrainOfMatches(keyOf({ namespace: 'default', name })) : () => {}
  return fleet.builds.drain(name, options).finally(drained)
}

function resumeBuild({ world }: SimulationContext, fleet: Fleet, name: string): Promise<unknown> {
  world.note(`operator: resumes build ${name}`)
  return fleet.builds.resume(name)
}

async function drainServer(
  { world, store, invariants }: SimulationContext,
  fleet: Fleet,
  build: string,
): Promise<unknown> {
  const server = world.oneOf(serversOf(store.servers.values(), build))
  if (!server) return undefined
  const { sessions, terminations } = invariants
  const options = someDrain(world)
  terminations.allowDrain(server.uid)
  if (options.active === 'terminate') sessions.allowEnd(server.uid)
  world.note(`operator: drains server ${server.name}, ${JSON.stringify(options)}`)
  return fleet.servers.drain(server, options)
}

/** So far ahead that no host's clock reaches it, and not so far that a host's clock rejects it. */
const noticeDays = 100

async function announceMaintenance(
  { world, store, invariants }: SimulationContext,
  fleet: Fleet,
  build: string,
  host: Host,
): Promise<void> {
  const server = world.oneOf(serversOf(store.servers.values(), build))
  const at = Math.floor(world.wallMs / 1000) * 1000 + noticeDays * 24 * 3_600_000
  if (!server) return
  const isForNode = world.chance(0.2)
  world.note(`operator: announces maintenance of ${isForNode ? 'the node' : server.name}`)
  await invariants.maintenance.announce(host, isForNode ? undefined : server, at, () =>
    fleet.servers.announceMaintenance(isForNode ? { node: modelNode } : server, at),
  )
}

/** Drains the fleet and then closes this host, as before a move to another machine. */
async function drainFleet(context: SimulationContext, fleet: Fleet, _name: string, host: Host): Promise<unknown> {
  const { world, invariants } = context
  const deadlineMs = world.between(1, 30_000)
  invariants.terminations.allowDrainBy(host)
  world.note(`operator: drains the whole fleet for ${deadlineMs} ms, then closes ${host.name}`)
  await fleet.drain({ deadlineMs })
  host.run(() => (host.closing ? undefined : context.hosts.close(host)))
  return undefined
}

function someDrain(world: World): DrainOptions {
  return {
    active: world.chance(0.8) ? 'wait' : 'terminate',
    ...(world.chance(0.5) && { deadlineMs: world.between(1, 120_000) }),
  }
}

function serversOf(records: Iterable<{ readonly record: Server }>, build: string): readonly Server[] {
  return [...records].map(({ record }) => record).filter((server) => server.build === build)
}
