/**
 * People who write in the store past every host, as with `kubectl`: they create, edit and delete builds and delete the
 * records of servers, are refused nothing, and may write what breaks a rule.
 */
import { type Build, type BuildSpec, keyOf, type Server } from '../../rules/model/resources.js'
import { brokenVersion, buildIDOf, buildNames, buildSpec, someHealth, template } from './operators.js'
import type { Scene } from './scene.js'
import type { World } from './world.js'

interface Job {
  readonly weight: number
  /** What was done, in words; undefined when there was nothing to do it to. */
  does(scene: Scene): string | undefined
}

const jobs: readonly Job[] = [
  { weight: 12, does: editByHand },
  { weight: 4, does: resizeByHand },
  { weight: 2, does: applyByHand },
  { weight: 4, does: deleteServerByHand },
  { weight: 1, does: deleteBuildByHand },
]

const allJobs = jobs.flatMap((job) => Array.from({ length: job.weight }, () => job))

/** One thing that somebody does in the store. */
export function workByHand(scene: Scene): void {
  const { world } = scene
  const did = world.oneOf(allJobs)?.does(scene)
  if (did === undefined) return
  world.countFault('store: worked in by hand')
  world.note(`by hand: ${did}`)
}

/** Both numbers of a build, as they are allowed to be. */
export function resizeByHand(scene: Scene): string | undefined {
  const { world, store } = scene
  const build = someBuild(scene)
  if (!build) return undefined
  const max = world.between(0, 8)
  const standingBy = world.between(0, Math.min(max, 4))
  store.writeBuild({ ...build, spec: { ...build.spec, standingBy, max } })
  return `${keyOf(build)} to standingBy ${standingBy}, max ${max}`
}

export function deleteBuildByHand(scene: Scene): string | undefined {
  const { store, sessions } = scene
  const build = someBuild(scene)
  if (!build) return undefined
  sessions.allowEnd(build.uid)
  store.removeBuild(build)
  return build.name
}

function someBuild({ world, store }: Scene): Build | undefined {
  if (!store.shared) return undefined
  const mayBe = ([, { record }]: [string, { readonly record: Build }]) => isOneOfOurs(record.name)
  return world.oneOf([...store.builds].filter(mayBe))?.[1].record
}

/** Any field of a spec, rightly or not: the definitions of the cluster let it pass. */
function editByHand(scene: Scene): string | undefined {
  const { world, store } = scene
  const build = someBuild(scene)
  if (!build) return undefined
  const change = someChange(world, build)
  const { crashesToMarkUnhealthy: _, health: __, ...rest } = build.spec
  // As in an editor: a field that is taken out is gone.
  const spec = world.chance(0.1) ? rest : build.spec
  store.writeBuild({ ...build, spec: { ...spec, ...change } })
  return `edits ${build.name}: ${JSON.stringify(change)}`
}

function someChange(world: World, { name, spec }: Build): Partial<BuildSpec> {
  const changes: readonly (() => Partial<BuildSpec>)[] = [
    // `kubectl scale` looks at no bound.
    () => ({ standingBy: world.between(0, spec.max + 3) }),
    () => ({ max: world.between(0, 8) }),
    () => ({ buildMetadata: { version: String(world.between(1, 3)) } }),
    () => ({ buildMetadata: { version: brokenVersion } }),
    () => ({ template: { ...template, metadata: { labels: { version: String(world.between(1, 3)) } } } }),
    () => ({ template: world.chance(0.5) ? badTemplate : template }),
    () => ({ portsToExpose: world.oneOf([[7777], [7777, 7778], []]) ?? [] }),
    () => ({ portsToExpose: world.chance(0.5) ? [7777, 7777] : [7777] }),
    () => ({ health: someHealth(world) }),
    () => ({ crashesToMarkUnhealthy: world.between(1, 20) }),
    () => ({ buildID: world.chance(0.5) ? buildIDOf(name) : `${buildIDOf(name)}-${world.between(2, 3)}` }),
    () => ({ buildID: buildIDOf(world.oneOf(buildNames) ?? name) }),
  ]
  return world.oneOf(changes)?.() ?? {}
}

/** What no cluster would run: its quantity is none. */
const badTemplate = {
  spec: { containers: [{ name: 'game', image: 'game', resources: { limits: { cpu: 'lots' } } }] },
}

/** `kubectl apply` of a build that is not there. */
function applyByHand({ world, store }: Scene): string | undefined {
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
  return `creates ${name} with standingBy ${spec.standingBy}, max ${max}`
}

function deleteServerByHand(scene: Scene): string | undefined {
  const { world, store } = scene
  const ours = [...store.servers.values()].filter(({ record }) => isOneOfOurs(record.build))
  const server = world.oneOf(ours)?.record
  if (!store.shared || !server) return undefined
  disown(scene, server)
  return `deletes ${server.name}, ${server.state}`
}

/** The record goes; whatever is left of the server is nobody's, and may end. */
function disown({ store, sessions, byHand }: Pick<Scene, 'store' | 'sessions' | 'byHand'>, server: Server): void {
  sessions.disown(server.uid)
  byHand.removed(server)
  store.removeServer(server)
}

function isOneOfOurs(build: string): boolean {
  return buildNames.some((name) => name === build)
}

/**
 * What a cluster does by itself: records of servers go with their build, and instances with the records of their servers,
 * each some time later.
 */
export class Collector {
  constructor(
    readonly world: World,
    readonly scene: () => Pick<Scene, 'store' | 'sessions' | 'byHand' | 'backend'>,
  ) {}

  buildRemoved({ uid }: Build): void {
    for (const { record } of this.scene().store.servers.values()) if (record.buildUid === uid) this.#takeRecord(record)
  }

  serverWritten(before: Server | undefined, after: Server): void {
    const build = this.scene().store.builds.get(keyOf({ namespace: after.namespace, name: after.build }))
    if (!before && build?.record.uid !== after.buildUid) this.#takeRecord(after)
  }

  serverRemoved(server: Server): void {
    this.#later(() => {
      const { backend } = this.scene()
      const instance = backend.instances.get(keyOf(server))
      if (instance?.spec.uid === server.uid) backend.vanish(instance, true)
    })
  }

  #takeRecord(server: Server): void {
    this.#later(() => {
      const scene = this.scene()
      const there = scene.store.servers.get(keyOf(server))?.record
      if (there?.uid !== server.uid) return
      disown(scene, there)
      this.world.note(`the cluster removes the record of ${server.name}, whose build is gone`)
    })
  }

  #later(fn: () => void): void {
    this.world.after(this.world.between(0, 20_000), fn)
  }
}
