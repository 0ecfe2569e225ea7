/**
 * Plans a rolling update: replaces idle servers of earlier templates a batch at a time, and never an Active one. New
 * servers are created first where `max` allows it. Pure.
 *
 * A template that crashes or never becomes ready stalls the update: at most one batch of servers starts at a time, and an
 * old server is replaced only when a new one is ready, or when `max` leaves no room to start one.
 */
import type { BuildSpec } from '../model/resources.js'

/**
 * Idle servers by state; servers being allocated count as Active. A server of the current template counts as standing by
 * only if it can be allocated and, after a crash of that template, has stayed up long enough. Otherwise it counts as starting.
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
  /** Of any template. */
  readonly active: number
  /** Servers whose termination is not recorded yet: they count towards `max` until it is. */
  readonly ending: number
  /** Callers that wait for a server, or are expected to retry soon. */
  readonly callers: number
  readonly mayCreate: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Maximum of Pending servers. */
  readonly maxPending: number
}

export interface RolloutPlan {
  readonly create: number
  /** Outdated idle servers to terminate: Pending first, then Initializing, then StandingBy. */
  readonly replace: number
  /** Surplus idle servers of the current template to terminate, in the same order. */
  readonly surplus: number
  readonly partial: boolean
}

/** How many servers may start at a time: a quarter of the desired number, at least one. */
export function rolloutBatch(wanted: number): number {
  return Math.max(1, Math.ceil(wanted / 4))
}

export function planRollout(input: RolloutInput): RolloutPlan {
  const { current } = input
  const old = total(input.outdated)
  const updated = total(current)
  const ready = current.standingBy
  const starting = updated - ready
  // Idle servers wanted, capped by what `max` leaves beside Active ones, so that those do not hold up the update.
  const wanted = Math.max(0, Math.min(input.spec.standingBy + input.callers, input.spec.max - input.active))
  const room = input.spec.max - old - updated - input.active

  // Missing servers are created as in plain scaling; beyond that, one batch at a time.
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
