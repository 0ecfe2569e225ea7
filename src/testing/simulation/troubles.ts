/** What goes wrong by itself, now and then: hosts, stores, backends, watches, clocks, and hands from outside. */
import type { Host } from './host.js'
import { deleteBuildByHand, resizeByHand } from './by-hand.js'
import { leaseMs } from './lease.js'
import type { Scene } from './scene.js'

interface Trouble {
  readonly kind: string
  /** How often, compared with the others. */
  readonly weight: number
  /** What was hit, in words; undefined when there was nothing to hit. */
  happen(scene: Scene): string | undefined
}

const troubles: readonly Trouble[] = [
  {
    kind: 'host: crash',
    weight: 2,
    happen: (scene) => onHost(scene, (host) => scene.hosts.crash(host)),
  },
  {
    kind: 'host: closed',
    weight: 1,
    happen: (scene) => onHost(scene, (host) => scene.hosts.close(host)),
  },
  {
    kind: 'host: suspended',
    weight: 1,
    happen: (scene) => suspend(scene, scene.world.between(1_000, 300_000)),
  },
  {
    kind: 'host: lease lost',
    weight: 1,
    happen: ({ lease }) => {
      const name = lease.leader?.name
      return lease.lose() ? name : undefined
    },
  },
  {
    kind: 'clock: jumps',
    weight: 1,
    happen: (scene) => onHost(scene, (host) => host.jumpWall(scene.world.between(-3_600_000, 3_600_000))),
  },
  {
    kind: 'store: away',
    weight: 1,
    happen: ({ world, store }) => lasts(world.between(500, 60_000), (ms) => store.goAway(ms)),
  },
  {
    kind: 'backend: away',
    weight: 1,
    happen: ({ world, backend }) => lasts(world.between(500, 90_000), (ms) => backend.goAway(ms)),
  },
  {
    kind: 'watch: dies in silence',
    weight: 1,
    happen: (scene) => onHost(scene, (host) => scene.backend.deafen(host, scene.world.between(1_000, 120_000), false)),
  },
  {
    kind: 'watch: interrupted',
    weight: 1,
    happen: (scene) => onHost(scene, (host) => scene.backend.deafen(host, scene.world.between(1_000, 30_000), true)),
  },
  {
    kind: 'instance: removed by hand',
    weight: 1,
    happen: (scene) => vanish(scene, true),
  },
  {
    kind: 'instance: removed without a word',
    weight: 2,
    happen: (scene) => vanish(scene, false),
  },
  {
    kind: 'store: build edited by hand',
    weight: 1,
    happen: resizeByHand,
  },
  {
    kind: 'store: build deleted by hand',
    weight: 2,
    happen: deleteBuildByHand,
  },
  {
    kind: 'store: no answers for a while',
    weight: 1,
    happen: ({ world, store }) => lasts(world.between(5, 5_000), (ms) => store.goMute(ms)),
  },
]

const allOfThem = troubles.flatMap((trouble) => Array.from({ length: trouble.weight }, () => trouble))

export function makeTrouble(scene: Scene): void {
  const trouble = scene.world.oneOf(allOfThem)
  const hit = trouble?.happen(scene)
  if (!trouble || hit === undefined) return
  scene.world.countFault(trouble.kind)
  scene.world.note(`trouble: ${trouble.kind} (${hit})`)
}

/** The leader falls in the middle of what it does: it crashes, loses its lease, or sleeps until another one leads. */
export function strikeLeader(scene: Scene): void {
  const { world, lease, hosts } = scene
  const { leader } = lease
  if (!leader?.alive || leader.suspended) return
  if (world.chance(0.4) && lease.lose()) {
    world.countFault('host: lease lost')
    return world.note(`trouble: host: lease lost (${leader.name}), in the middle of something`)
  }
  const crash = world.chance(0.6)
  const kind = crash ? 'host: crash' : 'host: suspended'
  world.countFault(kind)
  world.note(`trouble: ${kind} (${leader.name}), in the middle of something`)
  if (crash) return scene.hosts.crash(leader)
  const ms = world.between(1_000, hosts.all.length > 1 ? 4 * leaseMs : 2 * leaseMs)
  leader.suspend(ms)
  lease.asleep(leader, ms)
}

/** The store takes what is just on its way to it, and the answers get lost. */
export function muteStore({ world, store }: Scene): void {
  world.countFault('store: no answers for a while')
  store.goMute(world.between(10, 300))
}

/** A host hears nothing of what changes in the store; what it missed is told afterwards, or all there is is listed. */
export function breakStoreWatch({ world, store, hosts }: Scene): void {
  const host = world.oneOf(hosts.all.filter((one) => one.alive && !one.closing))
  if (!host) return
  const silent = world.chance(0.5)
  const ms = world.between(500, silent ? 120_000 : 20_000)
  const anew = world.chance(0.5)
  if (!store.watches.interrupt(host, ms, anew)) return
  world.countFault(silent ? 'store watch: dies in silence' : 'store watch: interrupted')
  world.note(`trouble: ${host.name} hears nothing of the store for ${ms / 1000} s${anew ? ', then all there is' : ''}`)
}

/** Somebody writes a record again as it is, just while it is in use. */
export function touchRecord({ world, store }: Scene): void {
  const key = store.shared ? store.touch() : undefined
  if (key === undefined) return
  world.countFault('store: record touched by hand')
}

function vanish({ world, backend }: Scene, told: boolean): string | undefined {
  const instance = world.oneOf([...backend.instances.values()])
  if (instance) backend.vanish(instance, told)
  return instance?.spec.ref.name
}

function onHost(scene: Scene, act: (host: Host) => void): string | undefined {
  const host = scene.world.oneOf(scene.hosts.all.filter((one) => one.alive && !one.closing))
  if (host) act(host)
  return host?.name
}

function suspend(scene: Scene, ms: number): string | undefined {
  return onHost(scene, (host) => {
    host.suspend(ms)
    scene.lease.asleep(host, ms)
  })
}

function lasts(ms: number, act: (ms: number) => void): string {
  act(ms)
  return `${ms / 1000} s`
}
