/**
 * Decides how a build comes from an old template to its present one: idle servers a few at a time, new ones first where
 * `max` has room, never an Active one. Pure. A template that never gets ready, or crashes, stops it: at most a batch of
 * servers may be on the way to ready, and an old one only goes when a new one is ready or when there is no room to start
 * one.
 */
import type { BuildSpec } from '../model/resources.js'

/**
 * Idle servers by state; those being handed out count as Active. Of new ones only whoever can be handed out stands by, and
 * after a crash of one only those that have stayed up for long enough to trust them: the others are on the way.
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
  /** Servers that end, and whose records do not say so yet: they hold their places in `max` until then. */
  readonly ending: number
  /** Who wait for a server, or are expected back in a moment. */
  readonly callers: number
  readonly mayCreate: boolean
  readonly maxCreatesPerReconcile: number
  readonly maxDeletesPerReconcile: number
  /** Most Pending servers: no more are begun beside them. */
  readonly maxPending: number
}

export interface RolloutPlan {
  readonly create: number
  /** Outdated idle servers to end: Pending first, then Initializing, then StandingBy. */
  readonly replace: number
  /** Idle servers of the present template that are too many, in the same order. */
  readonly surplus: number
  readonly partial: boolean
}

/** A quarter of the wanted servers, at least one: how many may be on the way to ready at once. */
export function rolloutBatch(wanted: number): number {
  return Math.max(1, Math.ceil(wanted / 4))
}

export function planRollout(input: RolloutInput): RolloutPlan {
  const { current } = input
  const old = total(input.outdated)
  const updated = total(current)
  const ready = current.standingBy
  const onTheWay = updated - ready
  // No more than Active servers leave room for: what cannot be had must not hold up the change.
  const wanted = Math.max(0, Math.min(input.spec.standingBy + input.callers, input.spec.max - input.active))
  const room = input.spec.max - old - updated - input.active

  // What is missing is created as always; beyond that, one batch at a time may be on the way.
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
