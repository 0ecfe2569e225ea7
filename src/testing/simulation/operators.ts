/** Operators: what they do to builds and servers through the fleet. Refusals are part of the job. */
import { FleetError } from '../../contracts/errors.js'
import type { BuildUpdate, Fleet } from '../../contracts/fleet.js'
import type { DrainOptions } from '../../contracts/options.js'
import { type BuildSpec, keyOf, type Server } from '../../rules/model/resources.js'
import type { Host } from './host.js'
import { doomedBuild, type Scene } from './scene.js'
import type { World } from './world.js'

export const buildNames = ['arena', 'duel', 'lobby'] as const

export function buildIDOf(name: string): string {
  return `id-${name}`
}

interface Job {
  readonly weight: number
  does(scene: Scene, fleet: Fleet, name: string, host: Host): Promise<unknown>
}

const jobs: readonly Job[] = [
  { weight: 4, does: createBuild },
  { weight: 12, does: scale },
  { weight: 4, does: update },
  { weight: 1, does: deleteBuild },
  { weight: 1, does: deleteServer },
  { weight: 1, does: drainBuild },
  { weight: 2, does: resumeBuild },
  { weight: 1, does: drainServer },
  { weight: 1, does: drainFleet },
]

const allJobs = jobs.flatMap((job) => Array.from({ length: job.weight }, () => job))

/** One thing that an operator does. Rejects with what nobody should ever see. */
export async function operate(scene: Scene): Promise<void> {
  const { world } = scene
  const host = scene.hosts.any()
  const job = world.oneOf(allJobs)
  const there = buildsThere(scene)
  const missing = buildNames.filter((name) => !there.includes(name))
  // Mostly something that makes sense.
  const sensible = job?.does === createBuild ? missing : there
  const name = world.oneOf(world.chance(0.1) ? buildNames : sensible)
  if (!host?.fleet || !job || name === undefined) return
  host.stirred = true
  await refusable(job.does(scene, host.fleet, name, host))
}

export function buildsThere({ store }: Scene): readonly string[] {
  return buildNames.filter((name) => store.builds.has(keyOf({ namespace: 'default', name })))
}

/** Builds of the beginning. True once they are there. */
export async function createBuilds(scene: Scene): Promise<boolean> {
  const { store, doomed } = scene
  const host = scene.hosts.any()
  const names = ['arena', 'duel', ...(doomed ? [doomedBuild] : [])]
  const missing = names.filter((name) => !store.builds.has(keyOf({ namespace: 'default', name })))
  for (const name of missing) {
    if (!host?.fleet) continue
    host.stirred = true
    await refusable(
      name === doomedBuild
        ? createDoomed(scene, host.fleet, doomed?.standingBy ?? 1)
        : createBuild(scene, host.fleet, name),
    )
  }
  return missing.length === 0
}

async function refusable(done: Promise<unknown>): Promise<void> {
  try {
    await done
  } catch (error) {
    if (!FleetError.is(error) || error.code === 'internal') throw error
  }
}

function createBuild({ world }: Scene, fleet: Fleet, name: string): Promise<unknown> {
  const max = world.between(1, 8)
  const standingBy = world.between(0, Math.min(max, 4))
  world.note(`operator: creates build ${name} with standingBy ${standingBy}, max ${max}`)
  return fleet.builds.create({ metadata: { name }, spec: buildSpec(world, name, standingBy, max) })
}

export function buildSpec(world: World, name: string, standingBy: number, max: number): BuildSpec {
  return {
    buildID: buildIDOf(name),
    standingBy,
    max,
    portsToExpose: world.chance(0.8) ? [7777] : [],
    ...(world.chance(0.4) && { crashesToMarkUnhealthy: world.between(1, 20) }),
    ...(world.chance(0.3) && { health: someHealth(world) }),
    template,
  }
}

function createDoomed({ world }: Scene, fleet: Fleet, standingBy: number): Promise<unknown> {
  world.note(`operator: creates build ${doomedBuild}, of which no server can run`)
  return fleet.builds.create({
    metadata: { name: doomedBuild },
    spec: { buildID: buildIDOf(doomedBuild), standingBy, max: standingBy, portsToExpose: [], template },
  })
}

export const template = { spec: { containers: [{ name: 'game', image: 'game' }], terminationGracePeriodSeconds: 5 } }

export function someHealth(world: World) {
  return {
    firstHeartbeatSeconds: world.between(20, 60),
    silenceSeconds: world.between(8, 30),
    initializingSeconds: world.between(30, 90),
    ...(world.chance(0.5) && { sessionSeconds: world.between(10, 120), endLongSessions: world.chance(0.5) }),
  }
}

function scale({ world, store }: Scene, fleet: Fleet, name: string): Promise<unknown> {
  const spec = store.builds.get(keyOf({ namespace: 'default', name }))?.record.spec
  // As at the end of an evening: both numbers drop together.
  const drops = spec !== undefined && world.chance(0.5)
  const max = drops ? world.between(0, Math.ceil(spec.max / 2)) : world.between(0, 8)
  const standingBy = world.between(0, Math.min(max, drops ? spec.standingBy : 4))
  world.note(`operator: patches ${name} to standingBy ${standingBy}, max ${max}`)
  return fleet.builds.patch(name, { standingBy, max })
}

/** A version of the game that never gets ready. */
export const brokenVersion = 'broken'
/** One of which every server gets ready, and then crashes. */
export const crashingVersion = 'crashing'

/** Mostly a new version of the game, which replaces the servers of the one before. */
function update({ world }: Scene, fleet: Fleet, name: string): Promise<unknown> {
  const changes: readonly BuildUpdate[] = [
    { buildMetadata: { version: String(world.between(1, 3)) } },
    { buildMetadata: { version: brokenVersion } },
    { buildMetadata: { version: crashingVersion } },
    { template: { ...template, metadata: { labels: { version: String(world.between(1, 3)) } } } },
    { portsToExpose: world.chance(0.5) ? [7777] : [7777, 7778] },
    { health: someHealth(world) },
  ]
  const change = world.oneOf(changes) ?? {}
  world.note(`operator: updates ${name} to ${JSON.stringify(change)}`)
  return fleet.builds.update(name, change)
}

function deleteBuild({ world, store, sessions }: Scene, fleet: Fleet, name: string): Promise<unknown> {
  const record = store.builds.get(keyOf({ namespace: 'default', name }))?.record
  if (record) sessions.allowEnd(record.uid)
  world.note(`operator: deletes build ${name}`)
  return fleet.builds.delete(name)
}

async function deleteServer({ world, store, sessions }: Scene, fleet: Fleet, build: string): Promise<unknown> {
  const server = world.oneOf(serversOf(store.servers.values(), build))
  if (!server) return undefined
  sessions.allowEnd(server.uid)
  world.note(`operator: deletes server ${server.name}`)
  return fleet.servers.delete(server)
}

/** Resolves much later, when all is gone; the story goes on meanwhile. */
function drainBuild(scene: Scene, fleet: Fleet, name: string): Promise<unknown> {
  const { world, store, sessions, endings } = scene
  const options = someDrain(world)
  for (const server of serversOf(store.servers.values(), name)) {
    endings.allowDrain(server.uid)
    if (options.active === 'terminate') sessions.allowEnd(server.uid)
  }
  world.note(`operator: drains build ${name}, ${JSON.stringify(options)}`)
  const over = options.active === 'terminate' ? endings.allowEndOf(keyOf({ namespace: 'default', name })) : () => {}
  return fleet.builds.drain(name, options).finally(over)
}

function resumeBuild({ world }: Scene, fleet: Fleet, name: string): Promise<unknown> {
  world.note(`operator: resumes build ${name}`)
  return fleet.builds.resume(name)
}

async function drainServer({ world, store, sessions, endings }: Scene, fleet: Fleet, build: string): Promise<unknown> {
  const server = world.oneOf(serversOf(store.servers.values(), build))
  if (!server) return undefined
  const options = someDrain(world)
  endings.allowDrain(server.uid)
  if (options.active === 'terminate') sessions.allowEnd(server.uid)
  world.note(`operator: drains server ${server.name}, ${JSON.stringify(options)}`)
  return fleet.servers.drain(server, options)
}

/** As before a move to another machine: what is idle ends, and then this host goes. */
async function drainFleet(scene: Scene, fleet: Fleet, _name: string, host: Host): Promise<unknown> {
  const { world, endings } = scene
  const deadlineMs = world.between(1, 30_000)
  endings.allowDrainBy(host)
  world.note(`operator: drains the whole fleet for ${deadlineMs} ms, then closes ${host.name}`)
  await fleet.drain({ deadlineMs })
  host.run(() => (host.closing ? undefined : scene.hosts.close(host)))
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
