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
 * A late server counts towards `max` but not as idle, so another is created beside it. It is terminated once the desired
 * number of servers is standing by, when there are more late ones than could still be of use, and when `max` leaves no room
 * or the backend no port for another.
 */
export function plan(input: PlanInput): Plan {
  const { standingBy, late, draining } = input
  const idle = input.pending + input.initializing + standingBy
  const wanted = draining ? 0 : input.spec.standingBy + input.callers
  const protectedSurplus = draining ? 0 : input.protectedSurplus
  const room = input.spec.max - idle - late - input.active

  const missing = input.mayCreate && !draining ? Math.max(0, wanted - idle) : 0
  const useful = Math.max(0, wanted + protectedSurplus - standingBy)
  const overdue = Math.min(late, Math.max(0, late - useful, missing - room, input.withoutPort))
  const surplus = Math.min(idle, Math.max(0, idle - wanted - protectedSurplus, -room - overdue))
  const possible = Math.max(0, Math.min(missing, room - input.ending, input.maxPending - input.pending))

  const create = Math.min(possible, input.maxCreatesPerReconcile)
  const lateEnding = Math.min(overdue, input.maxDeletesPerReconcile)
  const ending = Math.min(surplus, input.maxDeletesPerReconcile - lateEnding)
  const pending = Math.min(ending, input.pending)
  const initializing = Math.min(ending - pending, input.initializing)
  return {
    create,
    destroy: { late: lateEnding, pending, initializing, standingBy: ending - pending - initializing },
    partial: create < possible || lateEnding < overdue || ending < surplus,
  }
}
