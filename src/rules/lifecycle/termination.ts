/**
 * Decides when a terminating server gets its termination signal. Pure.
 *
 * GSDK clients have no handler for SIGTERM, so a game that sends heartbeats first receives `Terminate` in an answer. From
 * then on it has its whole grace period to exit, and the signal comes only near the end. A game that sends no heartbeats
 * gets the signal at once, and its grace period starts with it.
 */
import type { TerminationOrder } from '../model/resources.js'

export interface TerminationInput {
  readonly order: TerminationOrder
  readonly graceMs: number
  /** True if the server's process has ended or its instance no longer exists. */
  readonly hasEnded: boolean
  /** Time since the game first received `Terminate`, or undefined if it has not received it from this host. */
  readonly sinceTerminateMs: number | undefined
  /**
   * Time since the last heartbeat, or since this host began to wait for one. Undefined if no heartbeat is expected: the server
   * has sent none yet or has been silent for too long.
   */
  readonly sinceHeartbeatMs: number | undefined
  /** Time without a heartbeat after which a server counts as silent. */
  readonly silenceMs: number
}

/** `wait`: check again after `ms`. `signal`: have the backend send the signal now, and kill the server after `graceMs`. */
export type TerminationStep =
  { readonly type: 'wait'; readonly ms: number } | { readonly type: 'signal'; readonly graceMs: number }

/** The longest time between the signal and the kill of a game that has received `Terminate`. */
const maxSignalLeadMs = 5_000

export function nextTerminationStep(input: TerminationInput): TerminationStep {
  const { order, graceMs, hasEnded, sinceTerminateMs, sinceHeartbeatMs, silenceMs } = input
  const leftMs = remainingGraceMs(input)
  if (order === 'SignalFirst' || hasEnded || graceMs === 0) return { type: 'signal', graceMs: leftMs }
  const waitMs =
    sinceTerminateMs !== undefined
      ? leftMs - Math.min(graceMs / 4, maxSignalLeadMs)
      : sinceHeartbeatMs !== undefined
        ? silenceMs - sinceHeartbeatMs
        : 0
  return waitMs > 0 ? { type: 'wait', ms: waitMs } : { type: 'signal', graceMs: leftMs }
}

/** Returns what is left of the grace period, which starts with `Terminate` or, for a game that has not received it, now. */
export function remainingGraceMs({
  order,
  graceMs,
  sinceTerminateMs,
}: Pick<TerminationInput, 'order' | 'graceMs' | 'sinceTerminateMs'>): number {
  if (order === 'SignalFirst' || sinceTerminateMs === undefined) return graceMs
  return Math.max(0, graceMs - sinceTerminateMs)
}
