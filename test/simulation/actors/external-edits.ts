/**
 * External edits to the store that bypass the hosts, as with `kubectl`: they create, edit and delete builds, and delete
 * server records. Nothing validates these edits, so they may produce an invalid spec.
 */
import { type Build, type BuildSpec, keyOf, terminationOrders } from '../../../src/rules/model/resources.js'
import type { SimulationContext } from '../context.js'
import type { World } from '../world/world.js'
import { brokenVersion, buildIDOf, buildNames, buildSpec, someHealth, someOrder, template } from './build-specs.js'
import { deleteServerRecord } from './garbage-collector.js'

interface Edit {
  readonly weight: number
  /** Returns a description of the edit, or undefined if there was nothing to edit. */
  run(context: SimulationContext): string | undefined
}

const edits: readonly Edit[] = [
  { weight: 12, run: editSpec },
  { weight: 4, run: scaleBuildExternally },
  { weight: 2, run: applyBuild },
  { weight: 4, run: deleteServer },
  { weight: 1, run: deleteBuildExternally },
]

const weighted = edits.flatMap((edit) => Array.from({ length: edit.weight }, () => edit))

/** Makes one random edit. */
export function editExternally(context: SimulationContext): void {
  const { world } = context
  const description = world.oneOf(weighted)?.run(context)
  if (description === undefined) return
  world.countFault('store: external edit')
  world.note(`external edit: ${description}`)
}

/** Sets `standingBy` and `max` of a random build to valid values. */
export function scaleBuildExternally(context: SimulationContext): string | undefined {
  const { world, store } = context
  const build = someBuild(context)
  if (!build) return undefined
  const max = world.between(0, 8)
  const standingBy = world.between(0, Math.min(max, 4))
  store.writeBuild({ ...build, spec: { ...build.spec, standingBy, max } })
  return `scales ${keyOf(build)} to standingBy ${standingBy}, max ${max}`
}

export function deleteBuildExternally(context: SimulationContext): string | undefined {
  const { store, invariants } = context
  const build = someBuild(context)
  if (!build) return undefined
  invariants.sessions.allowEnd(build.uid)
  store.removeBuild(build)
  return `deletes build ${build.name}`
}

function someBuild({ world, store }: SimulationContext): Build | undefined {
  if (!store.shared) return undefined
  const isEditable = ([, { record }]: [string, { readonly record: Build }]) => isKnownBuild(record.name)
  return world.oneOf([...store.builds].filter(isEditable))?.[1].record
}

/** Changes a random field of a spec, possibly to an invalid value that the CRD accepts. */
function editSpec(context: SimulationContext): string | undefined {
  const { world, store } = context
  const build = someBuild(context)
  if (!build) return undefined
  const change = someChange(world, build)
  const { crashesToMarkUnhealthy: _, health: __, termination: ___, ...rest } = build.spec
  // Drops the optional fields, as when an editor removes them.
  const spec = world.chance(0.1) ? rest : build.spec
  store.writeBuild({ ...build, spec: { ...spec, ...change } })
  return `edits build ${build.name}: ${JSON.stringify(change)}`
}

function someChange(world: World, { name, spec }: Build): Partial<BuildSpec> {
  const changes: readonly (() => Partial<BuildSpec>)[] = [
    // `kubectl scale` ignores `max`.
    () => ({ standingBy: world.between(0, spec.max + 3) }),
    () => ({ max: world.between(0, 8) }),
    () => ({ buildMetadata: { version: String(world.between(1, 3)) } }),
    () => ({ buildMetadata: { version: brokenVersion } }),
    () => ({ template: { ...template, metadata: { labels: { version: String(world.between(1, 3)) } } } }),
    () => ({ template: world.chance(0.5) ? badTemplate : template }),
    () => ({ portsToExpose: world.oneOf([[7777], [7777, 7778], []]) ?? [] }),
    () => ({ portsToExpose: world.chance(0.5) ? [7777, 7777] : [7777] }),
    () => ({ health: someHealth(world) }),
    () => ({ termination: world.oneOf(terminationOrders) ?? 'HeartbeatFirst' }),
    () => ({ claimSeconds: world.between(5, 60) }),
    () => ({ order: someOrder(world) }),
    () => ({ crashesToMarkUnhealthy: world.between(1, 20) }),
    () => ({ buildID: world.chance(0.5) ? buildIDOf(name) : `${buildIDOf(name)}-${world.between(2, 3)}` }),
    () => ({ buildID: buildIDOf(world.oneOf(buildNames) ?? name) }),
  ]
  return world.oneOf(changes)?.() ?? {}
}

/** Invalid, since `lots` is not a Kubernetes quantity. */
const badTemplate = {
  spec: { containers: [{ name: 'game', image: 'game', resources: { limits: { cpu: 'lots' } } }] },
}

/** Creates a missing build, as `kubectl apply` would. */
function applyBuild({ world, store }: SimulationContext): string | undefined {
  const missing = buildNames.filter((name) => !store.builds.has(keyOf({ namespace: 'default', name })))
  const name = world.oneOf(missing)
  if (!store.shared || name === undefined) return undefined
  const max = world.between(1, 8)
  const spec = { ...buildSpec(world, name, world.between(0, 4), max), standingBy: world.between(0, 4) }
  store.writeBuild({
    namespace: 'default',
    name,
    uid: world.guid(),
    createdAt: world.wallMs,
    spec,
    crashes: 0,
    countedCrashes: [],
    conditions: [],
  })
  return `creates build ${name} with standingBy ${spec.standingBy}, max ${max}`
}

function deleteServer(context: SimulationContext): string | undefined {
  const { world, store } = context
  const candidates = [...store.servers.values()].filter(({ record }) => isKnownBuild(record.build))
  const server = world.oneOf(candidates)?.record
  if (!store.shared || !server) return undefined
  deleteServerRecord(context, server)
  return `deletes server ${server.name}, ${server.state}`
}

function isKnownBuild(build: string): boolean {
  return buildNames.some((name) => name === build)
}
