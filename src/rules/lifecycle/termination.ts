/** Why servers end, what the end of a server's process means, and when a terminating server gets its termination signal. Pure. */
import type { Server, TerminationOrder } from '../model/resources.js'

/** Why a server is terminated. Set once, together with the state Terminating. */
export interface Ending {
  /** One machine-readable word. */
  readonly reason: EndingReason
  /** A sentence for people. */
  readonly message: string
  /** True if this counts as a crash of the build. */
  readonly crash: boolean
  /** Wall time in ms. */
  readonly at: number
  /** With which the process crashed. */
  readonly exitCode?: number | undefined
}

export const endingReasons = [
  /** The process exited with code 0, or the game reported that it is ending. A crash if the server was never standing by. */
  'Exited',
  'NonZeroExit',
  /** The process exited without having sent a heartbeat, and the agent may have been unreachable when it started. Not a crash. */
  'AgentAway',
  /** Its instance no longer exists, for an unknown reason. */
  'Gone',
  'NeverSpoke',
  'NeverReady',
  'Silent',
  'ReportedUnhealthy',
  'SessionTooLong',
  /** No player came to its session within the build's `claimSeconds`. */
  'Unclaimed',
  /** Its session was ended by `sessions.end`. */
  'SessionEnded',
  /** It took too long to start, and another one was or had to be started in its place. */
  'Late',
  'ScaledDown',
  /** Replaced by a rolling update. */
  'Replaced',
  'Deleted',
  'BuildDeleted',
  'Drained',
] as const
export type EndingReason = (typeof endingReasons)[number]

export const sessionEndReasons = [
  /** The game has said that the session is over, or its process exited with code 0. */
  'Finished',
  /** The process exited with another code, or was killed by a signal. */
  'Crashed',
  /** Ended by `sessions.end`. */
  'Ended',
  /** It lasted longer than the build allows. */
  'TooLong',
  /** No player came within the build's `claimSeconds`. */
  'Unclaimed',
  /** Its server, its build, or the server's record was deleted. */
  'Deleted',
  /** Its server was terminated by a drain. */
  'Drained',
  /** Its server no longer exists, and nothing more is known: its machine may be gone. */
  'Gone',
] as const
export type SessionEndReason = (typeof sessionEndReasons)[number]

const endsOfSessions: Partial<Record<EndingReason, SessionEndReason>> = {
  Exited: 'Finished',
  NonZeroExit: 'Crashed',
  SessionEnded: 'Ended',
  SessionTooLong: 'TooLong',
  Unclaimed: 'Unclaimed',
  Deleted: 'Deleted',
  BuildDeleted: 'Deleted',
  Drained: 'Drained',
}

/** Why a session ends whose server ends for this reason. */
export function sessionEndReason(reason: EndingReason): SessionEndReason {
  return endsOfSessions[reason] ?? 'Gone'
}

/**
 * The server's process ended. `exitCode` is absent if unknown. `interrupted`: it ended because the container engine or
 * machine stopped. `agentWasAway`: the agent may have been unreachable when the process started.
 */
export interface ExitEvent {
  readonly type: 'exited'
  readonly exitCode?: number
  readonly reason?: string
  readonly interrupted?: true
  readonly agentWasAway?: true
}

export function endingAfterExit(server: Server, event: ExitEvent, at: number): Ending {
  const { health, state } = server
  const why = event.reason === undefined ? '' : `: ${event.reason}`
  const isIdle = state !== 'Active'
  if (event.interrupted) {
    const what = state === 'Pending' ? 'it could not start' : 'the process was interrupted with its engine or machine'
    return { reason: 'Gone', message: `${what}${why}`, crash: false, at }
  }
  if (event.exitCode === 0 && !isBeforeReady(server)) {
    return { reason: 'Exited', message: `the process exited with code 0${why}`, crash: false, at }
  }
  // Some clients exit if they cannot reach the agent at their start, which is not the game's fault.
  if (event.agentWasAway && health === 'Unknown') {
    const how = event.exitCode === undefined ? 'ended with an unknown exit code' : `exited with code ${event.exitCode}`
    const message = `the process ${how} before it could reach its agent, which was away${why}`
    return { reason: 'AgentAway', message, crash: false, at }
  }
  if (event.exitCode === 0) return endedBeforeReady(`the process exited with code 0 before it was ready${why}`, at)
  if (event.exitCode === undefined) {
    return { reason: 'Gone', message: `the process ended with an unknown exit code${why}`, crash: isIdle, at }
  }
  const { exitCode } = event
  return { reason: 'NonZeroExit', message: `the process exited with code ${exitCode}${why}`, crash: true, at, exitCode }
}

/** True if the server has never been standing by: whatever its exit code is, a process that ends now has failed to start. */
export function isBeforeReady({ reachedStandingByOn }: Server): boolean {
  return reachedStandingByOn === undefined
}

/** The ending of a game that stopped on purpose, as it seems, although it was never ready. */
export function endedBeforeReady(message: string, at: number): Ending {
  return { reason: 'Exited', message, crash: true, at }
}

// Decides when a terminating server gets its termination signal.
//
// GSDK clients have no handler for SIGTERM, so a game that sends heartbeats first receives `Terminate` in an answer. From
// then on it has its whole grace period to exit, and the signal comes only near the end. A game that sends no heartbeats
// gets the signal at once, and its grace period starts with it.

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
