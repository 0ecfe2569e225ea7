/** Plans how many servers to create and how many to terminate. Pure. */
import type { BuildSpec } from '../model/resources.js'

export interface PlanInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  /** Number of idle servers by state. Servers that are being allocated count as Active. */
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
  /** Number of Pending and Initializing servers that are late. They are not included in the numbers above. */
  readonly late: number
  /** Number of Pending servers that the backend could not start because no port is free. */
  readonly withoutPort: number
  readonly active: number
  /** Servers whose termination is not recorded yet. Until it is, they count towards `max`. */
  readonly ending: number
  /** Number of callers that are waiting for a server or are expected to retry soon. */
  readonly callers: number
  /** Number of those that wait and that none of the `ready` servers fits. */
  readonly unfit: number
  /** Number of those that are expected to retry and that not every server fits. */
  readonly choosy: number
  /** Number of StandingBy servers that can be allocated now. */
  readonly ready: number
  /** Number of surplus idle servers to keep for now, because callers may be about to retry. */
  readonly protectedSurplus: number
  /** False while the build is Unhealthy or is backing off after a crash. */
  readonly mayCreate: boolean
  /** True while the build or the fleet is draining, so that all idle servers are terminated. */
  readonly draining: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Maximum number of Pending servers, without late ones. */
  readonly maxPending: number
}

export interface Plan {
  readonly create: number
  /** Number of idle servers to terminate, by state. */
  readonly destroy: {
    readonly late: number
    readonly pending: number
    readonly initializing: number
    readonly standingBy: number
  }
  /** True if the per-reconcile limits cut the plan short, so that another reconcile must follow. */
  readonly partial: boolean
}

/**
 * The desired number of idle servers is standingBy + callers. Missing servers are created as far as `max` allows. `max`
 * limits the number of records, so that a host that crashes never leaves more than `max` servers behind. Surplus idle
 * servers are terminated: Pending first, then Initializing, then StandingBy. Active servers are never terminated.
 *
 * If ready servers do not fit callers, each of these has a server that is starting: ready servers beyond standingBy + callers are
 * terminated instead of it, and others do not count in its place. So a caller adds at most two servers at a time.
 *
 * A late server counts towards `max` but not as idle, so another is created beside it. It is terminated once the desired
 * number of servers is standing by, when there are more late ones than could still be of use, and when `max` leaves no room
 * or the backend no port for another.
 */
export function plan(input: PlanInput): Plan {
  const { standingBy, late, draining } = input
  const idle = input.pending + input.initializing + standingBy
  const wanted = draining ? 0 : input.spec.standingBy + input.callers + besideMisfits(input)
  const protectedSurplus = draining ? 0 : input.protectedSurplus
  const room = input.spec.max - idle - late - input.active

  const missing = input.mayCreate && !draining ? Math.max(0, wanted - idle) : 0
  const useful = Math.max(0, wanted + protectedSurplus - standingBy)
  const overdue = Math.min(late, Math.max(0, late - useful, missing - room, input.withoutPort))
  const surplus = Math.min(idle, Math.max(0, idle - wanted - protectedSurplus, -room - overdue))
  const possible = Math.max(0, Math.min(missing, room - input.ending, input.maxPending - input.pending))

  const create = Math.min(possible, input.maxCreatesPerReconcile)
  const lateEnding = Math.min(overdue, input.maxDeletesPerReconcile)
  const isMakingRoom = input.unfit > 0 && !draining && idle >= wanted
  const misfits = isMakingRoom ? Math.max(0, input.ready - input.spec.standingBy - input.callers) : 0
  const toEnd = Math.max(surplus, misfits)
  const ending = Math.min(toEnd, input.maxDeletesPerReconcile - lateEnding)
  const kept = draining ? 0 : Math.min(input.unfit + input.choosy, input.pending + input.initializing)
  return {
    create,
    destroy: { late: lateEnding, ...endingByState(ending, input, kept) },
    partial: create < possible || lateEnding < overdue || ending < toEnd,
  }
}

/** Number of servers to start for callers in addition to standingBy + callers, because that many ready servers do not fit them. */
export function besideMisfits({
  spec,
  callers,
  unfit,
  ready,
}: Pick<PlanInput, 'spec' | 'callers' | 'unfit' | 'ready'>) {
  return Math.max(0, Math.min(unfit, ready + unfit - spec.standingBy - callers))
}

/** `kept`: how many servers that are starting are terminated only when no others are left. */
function endingByState(
  count: number,
  { pending, initializing, standingBy }: Pick<PlanInput, 'pending' | 'initializing' | 'standingBy'>,
  kept: number,
): Omit<Plan['destroy'], 'late'> {
  const starting = Math.max(Math.min(count, pending + initializing - kept), count - standingBy)
  const first = Math.min(starting, pending)
  return { pending: first, initializing: starting - first, standingBy: count - starting }
}

/** The servers of the fleet on a node. */
interface NodeUse {
  readonly name: string
  /** Number of servers with a session. */
  readonly load: number
  /** Number of servers that are not terminating. */
  readonly servers: number
}

/**
 * The order in which idle servers are terminated when a build scales down: nodes with the fewest sessions come first, and of these the ones
 * with the fewest servers, so that nodes become empty and a cluster autoscaler can remove them. Servers on the same node keep their order.
 */
export function emptiestNodesFirst<T>(idle: Iterable<T>, nodeOf: (server: T) => NodeUse): readonly T[] {
  const byNode = new Map<NodeUse, T[]>()
  for (const server of idle) {
    const node = nodeOf(server)
    const known = byNode.get(node)
    if (known) known.push(server)
    else byNode.set(node, [server])
  }
  return [...byNode].toSorted(([a], [b]) => compareUse(a, b)).flatMap(([, servers]) => servers)
}

function compareUse(a: NodeUse, b: NodeUse): number {
  return a.load - b.load || a.servers - b.servers || (a.name < b.name ? -1 : 1)
}

/** Limits max to `maxServers` and standingBy to max. A spec from the store may have higher values. */
export function clamped(spec: BuildSpec, maxServers: number): BuildSpec {
  const max = Math.min(spec.max, maxServers)
  return spec.max === max && spec.standingBy <= max
    ? spec
    : { ...spec, max, standingBy: Math.min(spec.standingBy, max) }
}
