/** Faults in hosts, stores, backends, watches and clocks, and external deletions. */
import { deleteBuildExternally, scaleBuildExternally } from '../actors/external-edits.js'
import type { SimulationContext } from '../context.js'
import type { Host } from '../world/host.js'
import { leaseMs } from '../world/lease.js'

interface Fault {
  readonly kind: string
  /** Relative frequency of this fault. */
  readonly weight: number
  /** Injects the fault. Returns a description of its target, or undefined if there was no target. */
  inject(context: SimulationContext): string | undefined
}

const faults: readonly Fault[] = [
  {
    kind: 'host: crash',
    weight: 2,
    inject: (context) => onHost(context, (host) => context.hosts.crash(host)),
  },
  {
    kind: 'host: closed',
    weight: 1,
    inject: (context) => onHost(context, (host) => context.hosts.close(host)),
  },
  {
    kind: 'host: suspended',
    weight: 1,
    inject: (context) => suspend(context, context.world.between(1_000, 300_000)),
  },
  {
    kind: 'host: lease lost',
    weight: 1,
    inject: ({ lease }) => {
      const name = lease.leader?.name
      return lease.lose() ? name : undefined
    },
  },
  {
    kind: 'host: wall clock jump',
    weight: 1,
    inject: (context) => onHost(context, (host) => host.jumpWall(context.world.between(-3_600_000, 3_600_000))),
  },
  {
    kind: 'store: unavailable',
    weight: 1,
    inject: ({ world, store }) => forDuration(world.between(500, 60_000), (ms) => store.makeUnavailable(ms)),
  },
  {
    kind: 'backend: unavailable',
    weight: 1,
    inject: ({ world, backend }) => forDuration(world.between(500, 90_000), (ms) => backend.makeUnavailable(ms)),
  },
  {
    kind: 'backend watch: stalled',
    weight: 1,
    inject: (context) =>
      onHost(context, (host) => context.backend.interruptWatch(host, context.world.between(1_000, 120_000), false)),
  },
  {
    kind: 'backend watch: interrupted',
    weight: 1,
    inject: (context) =>
      onHost(context, (host) => context.backend.interruptWatch(host, context.world.between(1_000, 30_000), true)),
  },
  {
    kind: 'instance: deleted externally',
    weight: 1,
    inject: (context) => deleteInstance(context, true),
  },
  {
    kind: 'instance: deleted without an event',
    weight: 2,
    inject: (context) => deleteInstance(context, false),
  },
  {
    kind: 'store: build scaled externally',
    weight: 1,
    inject: scaleBuildExternally,
  },
  {
    kind: 'store: build deleted externally',
    weight: 2,
    inject: deleteBuildExternally,
  },
  {
    kind: 'store: replies lost for a while',
    weight: 1,
    inject: ({ world, store }) => forDuration(world.between(5, 5_000), (ms) => store.dropReplies(ms)),
  },
]

/** Only for stores with a journal. */
const journalEdited: Fault = {
  kind: 'store: journal edited',
  weight: 1,
  inject: ({ store }) => store.journal?.edit(),
}

const weighted = faults.flatMap((fault) => Array.from({ length: fault.weight }, () => fault))

/** Injects one random fault. */
export function injectFault(context: SimulationContext): void {
  const { store, world } = context
  const fault = store.journal && world.chance(0.1) ? journalEdited : world.oneOf(weighted)
  const hit = fault?.inject(context)
  if (!fault || hit === undefined) return
  context.world.countFault(fault.kind)
  context.world.note(`fault: ${fault.kind} (${hit})`)
}

/** Crashes or suspends the leader, or takes away its lease, in the middle of an operation. */
export function disruptLeader(context: SimulationContext): void {
  const { world, lease, hosts } = context
  const { leader } = lease
  if (!leader?.alive || leader.suspended) return
  if (world.chance(0.4) && lease.lose()) {
    world.countFault('host: lease lost')
    return world.note(`fault: host: lease lost (${leader.name}, during an operation)`)
  }
  const crash = world.chance(0.6)
  const kind = crash ? 'host: crash' : 'host: suspended'
  world.countFault(kind)
  world.note(`fault: ${kind} (${leader.name}, during an operation)`)
  if (crash) return context.hosts.crash(leader)
  const ms = world.between(1_000, hosts.all.length > 1 ? 4 * leaseMs : 2 * leaseMs)
  leader.suspend(ms)
  lease.suspended(leader, ms)
}

/** For a while, store calls take effect but their replies are lost. */
export function dropStoreReplies({ world, store }: SimulationContext): void {
  world.countFault('store: replies lost for a while')
  store.dropReplies(world.between(10, 300))
}

/** Interrupts one host's store watch. Afterwards the watch either delivers the missed events or relists. */
export function interruptStoreWatch({ world, store, hosts }: SimulationContext): void {
  const host = world.oneOf(hosts.all.filter((one) => one.alive && !one.closing))
  if (!host) return
  const isStalled = world.chance(0.5)
  const ms = world.between(500, isStalled ? 120_000 : 20_000)
  const relist = world.chance(0.5)
  if (!store.watches.interrupt(host, ms, relist)) return
  world.countFault(isStalled ? 'store watch: stalled' : 'store watch: interrupted')
  world.note(`fault: ${host.name} gets no store events for ${ms / 1000} s${relist ? ', then a new list' : ''}`)
}

/** Writes a record back unchanged while it is in use, which changes its revision. */
export function rewriteRecord({ world, store }: SimulationContext): void {
  const key = store.shared ? store.rewriteRecord() : undefined
  if (key === undefined) return
  world.countFault('store: record rewritten externally')
}

function deleteInstance({ world, backend }: SimulationContext, notify: boolean): string | undefined {
  const instance = world.oneOf([...backend.instances.values()])
  if (instance) backend.deleteExternally(instance, notify)
  return instance?.spec.ref.name
}

function onHost(context: SimulationContext, act: (host: Host) => void): string | undefined {
  const host = context.world.oneOf(context.hosts.all.filter((one) => one.alive && !one.closing))
  if (host) act(host)
  return host?.name
}

function suspend(context: SimulationContext, ms: number): string | undefined {
  return onHost(context, (host) => {
    host.suspend(ms)
    context.lease.suspended(host, ms)
  })
}

function forDuration(ms: number, act: (ms: number) => void): string {
  act(ms)
  return `${ms / 1000} s`
}
