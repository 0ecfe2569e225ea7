/**
 * Plans a rolling update: replaces idle servers of earlier templates a batch at a time, and never an Active one. New
 * servers are created first where `max` allows it. Pure.
 *
 * A template that crashes or never gets ready stops the update: at most a batch of servers is starting at once, and an
 * old server is only replaced when a new one is ready, or when `max` leaves no room to start one.
 */
import type { BuildSpec } from '../model/resources.js'

/**
 * Idle servers by state; servers being allocated count as Active. A server of the present template only counts as standing
 * by when it can be allocated and, after a crash of that template, has stayed up long enough; else as starting.
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
  /** Surplus idle servers of the present template to terminate, in the same order. */
  readonly surplus: number
  readonly partial: boolean
}

/** How many servers may be starting at once: a quarter of the desired ones, at least one. */
export function rolloutBatch(wanted: number): number {
  return Math.max(1, Math.ceil(wanted / 4))
}

export function planRollout(input: RolloutInput): RolloutPlan {
  const { current } = input
  const old = total(input.outdated)
  const updated = total(current)
  const ready = current.standingBy
  const onTheWay = updated - ready
  // Active servers limit what can be reached, and must not hold up the update.
  const wanted = Math.max(0, Math.min(input.spec.standingBy + input.callers, input.spec.max - input.active))
  const room = input.spec.max - old - updated - input.active

  // Missing servers are created as in plain scaling; beyond that, one batch at a time.
  const missing = Math.max(0, wanted - old - updated)
  const renewed = Math.max(0, Math.min(wanted - updated - missing, rolloutBatch(wanted) - onTheWay - missing))
  const asked = input.mayCreate ? missing + renewed : 0
  const possible = Math.min(asked, Math.max(0, room))

  const notNeeded = old + ready - wanted
  const toMakeRoom = Math.min(renewed, asked - possible)
  const overMax = -room
  const replaced = Math.min(old, Math.max(0, notNeeded, toMakeRoom, overMax))
  const tooMany = Math.min(updated, Math.max(0, updated - wanted, overMax - replaced))

  const pending = current.pending + input.outdated.pending
  const allowed = Math.max(0, Math.min(possible, room - input.ending, input.maxPending - pending))
  const create = Math.min(allowed, input.maxCreatesPerReconcile)
  const replace = Math.min(replaced, input.maxDeletesPerReconcile)
  const surplus = Math.min(tooMany, input.maxDeletesPerReconcile - replace)
  return { create, replace, surplus, partial: create < allowed || replace < replaced || surplus < tooMany }
}

function total(counts: IdleCounts): number {
  return counts.pending + counts.initializing + counts.standingBy
}
