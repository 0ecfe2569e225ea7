/** Plans how many servers to create and how many to terminate. Pure. */
import type { BuildSpec } from '../model/resources.js'

export interface PlanInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  /** Idle servers by state; servers being allocated count as Active. */
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
  readonly active: number
  /** Servers whose termination is not recorded yet: they count towards `max` until it is. */
  readonly ending: number
  /** Callers that wait for a server, or are expected to retry soon. */
  readonly callers: number
  /** Surplus idle servers to keep for now, because callers may be about to retry. */
  readonly protectedSurplus: number
  /** False while the build is Unhealthy or backs off after a crash. */
  readonly mayCreate: boolean
  /** True while the build or the fleet drains: all idle servers are terminated. */
  readonly draining: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Maximum of Pending servers. */
  readonly maxPending: number
}

export interface Plan {
  readonly create: number
  /** Idle servers to terminate, by state. Never an Active one. */
  readonly destroy: { readonly pending: number; readonly initializing: number; readonly standingBy: number }
  /** True if the limits per reconcile cut the plan short: another reconcile must follow. */
  readonly partial: boolean
}

/**
 * Desired idle servers = standingBy + callers. Creates missing ones as far as `max` allows. `max` limits records, so that a
 * host that crashes never leaves more than `max` servers. Terminates the surplus over standingBy or `max`: Pending first,
 * then Initializing, then StandingBy, and never an Active server.
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
