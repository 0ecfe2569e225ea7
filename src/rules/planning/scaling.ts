/** Decides how many servers a build gains and how many it loses. Pure: the same counts give the same plan. */
import type { BuildSpec } from '../model/resources.js'

export interface PlanInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  /** Idle servers by state; those being handed out count as Active. */
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
  readonly active: number
  /** Servers that end, and whose records do not say so yet: they hold their places in `max` until then. */
  readonly ending: number
  /** Callers who wait for a server, or are expected back in a moment. */
  readonly callers: number
  /** Idle servers beyond what is wanted that are not too many yet: their callers may be about to come. */
  readonly spared: number
  /** False while the build is Unhealthy or backs off after a crash. */
  readonly mayCreate: boolean
  /** True when the build or the fleet is to end all that is idle. */
  readonly draining: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Most Pending servers: no more are begun beside them. */
  readonly maxPending: number
}

export interface Plan {
  readonly create: number
  /** Idle servers to end, by the state to take them from. There is no Active here. */
  readonly destroy: { readonly pending: number; readonly initializing: number; readonly standingBy: number }
  /** True when the limits of a pass left something to do: another pass must follow. */
  readonly partial: boolean
}

/**
 * Wanted idle = standingBy + callers. Creates what is missing as far as `max` has room, by the records: a host that
 * dies must not leave more of them than `max` to the next. Ends what is too many,
 * whether for standingBy or for `max`, once: Pending first, then Initializing, then StandingBy. Never an Active server.
 */
export function plan(input: PlanInput): Plan {
  const idle = input.pending + input.initializing + input.standingBy
  const wanted = input.draining ? 0 : input.spec.standingBy + input.callers
  const room = input.spec.max - idle - input.active

  const possible = Math.min(wanted - idle, room - input.ending, input.maxPending - input.pending)
  const missing = input.mayCreate && !input.draining ? Math.max(0, possible) : 0
  const spared = input.draining ? 0 : input.spared
  const surplus = Math.min(idle, Math.max(0, idle - wanted - spared, -room))

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
