/**
 * Plans a rolling update: replaces idle servers that run earlier templates, one batch at a time, and never replaces an
 * Active server. Creates new servers first if `max` allows it. Pure.
 *
 * If servers of the new template crash or never become ready, the update stalls: at most one batch of servers starts at a
 * time, and an old server is replaced only when a new one is ready, or when `max` leaves no room to start one.
 */
import type { BuildSpec } from '../model/resources.js'

/**
 * Number of idle servers by state; servers being allocated count as Active. A server that runs the current template counts
 * as standing by only if it can be allocated and, if a server with that template has crashed, has stayed up long enough.
 * Otherwise it counts as Initializing.
 */
export interface IdleCounts {
  readonly pending: number
  readonly initializing: number
  readonly standingBy: number
}

export interface RolloutInput {
  readonly spec: Pick<BuildSpec, 'standingBy' | 'max'>
  readonly current: IdleCounts
  readonly outdated: IdleCounts
  /** Number of Active servers, whichever template they run. */
  readonly active: number
  /** Servers whose termination is not recorded yet. Until it is, they count towards `max`. */
  readonly ending: number
  /** Number of callers that are waiting for a server or are expected to retry soon. */
  readonly callers: number
  readonly mayCreate: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Maximum number of Pending servers. */
  readonly maxPending: number
}

export interface RolloutPlan {
  readonly create: number
  /** Number of outdated idle servers to terminate: Pending first, then Initializing, then StandingBy. */
  readonly replace: number
  /** Number of surplus idle servers with the current template to terminate, in the same order. */
  readonly surplus: number
  readonly partial: boolean
}

/** Returns how many servers may be starting at the same time: a quarter of the desired number, but at least one. */
export function rolloutBatch(wanted: number): number {
  return Math.max(1, Math.ceil(wanted / 4))
}

export function planRollout(input: RolloutInput): RolloutPlan {
  const { current } = input
  const old = total(input.outdated)
  const updated = total(current)
  const ready = current.standingBy
  const starting = updated - ready
  // The desired number of idle servers, limited to what `max` allows in addition to the Active ones, so that Active servers
  // do not stall the update.
  const wanted = Math.max(0, Math.min(input.spec.standingBy + input.callers, input.spec.max - input.active))
  const room = input.spec.max - old - updated - input.active

  // Missing servers are created at once, as in normal scaling; replacements are created one batch at a time.
  const missing = Math.max(0, wanted - old - updated)
  const renewed = Math.max(0, Math.min(wanted - updated - missing, rolloutBatch(wanted) - starting - missing))
  const toCreate = input.mayCreate ? missing + renewed : 0
  const possible = Math.min(toCreate, Math.max(0, room))

  const notNeeded = old + ready - wanted
  const toMakeRoom = Math.min(renewed, toCreate - possible)
  const overMax = -room
  const replaced = Math.min(old, Math.max(0, notNeeded, toMakeRoom, overMax))
  const excess = Math.min(updated, Math.max(0, updated - wanted, overMax - replaced))

  const pending = current.pending + input.outdated.pending
  const allowed = Math.max(0, Math.min(possible, room - input.ending, input.maxPending - pending))
  const create = Math.min(allowed, input.maxCreatesPerReconcile)
  const replace = Math.min(replaced, input.maxDeletesPerReconcile)
  const surplus = Math.min(excess, input.maxDeletesPerReconcile - replace)
  return { create, replace, surplus, partial: create < allowed || replace < replaced || surplus < excess }
}

function total(counts: IdleCounts): number {
  return counts.pending + counts.initializing + counts.standingBy
}
