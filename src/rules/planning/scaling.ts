/** Plans how many servers to create and how many to terminate. Pure. */
import type { BuildSpec } from '../model/resources.js'

export interface PlanInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  /** Number of idle servers by state. Servers that are being allocated count as Active. */
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
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
  /** Maximum number of Pending servers. */
  readonly maxPending: number
}

export interface Plan {
  readonly create: number
  /** Number of idle servers to terminate, by state. */
  readonly destroy: { readonly pending: number; readonly initializing: number; readonly standingBy: number }
  /** True if the per-reconcile limits cut the plan short, so that another reconcile must follow. */
  readonly partial: boolean
}

/**
 * The desired number of idle servers is standingBy + callers. Missing servers are created as far as `max` allows. `max`
 * limits the number of records, so that a host that crashes never leaves more than `max` servers behind. Surplus idle
 * servers are terminated: Pending first, then Initializing, then StandingBy. Active servers are never terminated.
 */
export function plan(input: PlanInput): Plan {
  const idle = input.pending + input.initializing + input.standingBy
  const wanted = input.draining ? 0 : input.spec.standingBy + input.callers
  const room = input.spec.max - idle - input.active

  const possible = Math.min(wanted - idle, room - input.ending, input.maxPending - input.pending)
  const missing = input.mayCreate && !input.draining ? Math.max(0, possible) : 0
  const protectedSurplus = input.draining ? 0 : input.protectedSurplus
  const surplus = Math.min(idle, Math.max(0, idle - wanted - protectedSurplus, -room))

  const create = Math.min(missing, input.maxCreatesPerReconcile)
  const ending = Math.min(surplus, input.maxDeletesPerReconcile)
  const pending = Math.min(ending, input.pending)
  const initializing = Math.min(ending - pending, input.initializing)
  return {
    create,
    destroy: { pending, initializing, standingBy: ending - pending - initializing },
    partial: create < missing || ending < surplus,
  }
}
