/** Why servers end, and what the end of a server's process means. Pure. */
import type { Server } from '../model/resources.js'

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
}

export const endingReasons = [
  /** The process exited with code 0, or the game reported that it is ending. */
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
  /** Its session was ended by an operator or the host app. */
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

export function endingAfterExit({ health, state }: Server, event: ExitEvent, at: number): Ending {
  const why = event.reason === undefined ? '' : `: ${event.reason}`
  const isIdle = state !== 'Active'
  if (event.interrupted) {
    const what = state === 'Pending' ? 'it could not start' : 'the process was interrupted with its engine or machine'
    return { reason: 'Gone', message: `${what}${why}`, crash: false, at }
  }
  if (event.exitCode === 0) {
    return { reason: 'Exited', message: `the process exited with code 0${why}`, crash: false, at }
  }
  // Some clients exit if they cannot reach the agent at their start, which is not the game's fault.
  if (event.agentWasAway && health === 'Unknown') {
    const how = event.exitCode === undefined ? 'ended with an unknown exit code' : `exited with code ${event.exitCode}`
    const message = `the process ${how} before it could reach its agent, which was away${why}`
    return { reason: 'AgentAway', message, crash: false, at }
  }
  if (event.exitCode === undefined) {
    return { reason: 'Gone', message: `the process ended with an unknown exit code${why}`, crash: isIdle, at }
  }
  return { reason: 'NonZeroExit', message: `the process exited with code ${event.exitCode}${why}`, crash: true, at }
}
