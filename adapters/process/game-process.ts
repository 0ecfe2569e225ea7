/**
 * One run of a game: the supervisor and all processes in its group, either started by this host or recovered.
 *
 * The run lasts as long as the supervisor. If only the supervisor is killed, the run lasts as long as any marked process in
 * the group, but its exit code is lost.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import type { Clock } from '../../src/contracts/clock.js'
import { isAlive, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { isInUse, markedMembers, signalGroup, signalProcess } from './process-group.js'
import type { Exit } from './record.js'
import { isExitWritten, isStartClaimed, notStartedCode, readExitCode } from './supervisor.js'

/** If the group exits this soon after its supervisor, both count as killed by the same signal. */
const groupKillMs = 1_000
/**
 * How often to verify the identity of a process that is not a child. Between these checks, it is enough that the process id
 * is in use.
 */
const identityCheckIntervalMs = 5_000

export interface GameProcessOptions {
  readonly runDirectory: string
  readonly mark: string
  readonly logPath: string
  /** Process id of the supervisor, which is also the process group id. */
  readonly group: number
  /** Missing if the supervisor is known to have exited. */
  readonly leader?: ProcessIdentity
  /** Set if this host started the process. */
  readonly child?: ChildProcess
  readonly clock: Clock
}

export class GameProcess {
  readonly leader: ProcessIdentity | undefined
  readonly #options: GameProcessOptions
  #leaderGoneAt: number | undefined
  #lastIdentityCheck = -Infinity
  #exit: Exit | undefined

  constructor(options: GameProcessOptions) {
    this.#options = options
    this.leader = options.leader
  }

  /** Whether the process must be polled because no event reports its exit. */
  get needsPolling(): boolean {
    return this.#exit === undefined && !(this.#options.child && isRunningChild(this.#options.child))
  }

  /** Returns undefined while the game is running. */
  exit(): Exit | undefined {
    this.#exit ??= this.#findExit()
    return this.#exit
  }

  /** Whether no process in the group is left. */
  isGone(): boolean {
    return this.exit() !== undefined && this.#members().length === 0
  }

  /** Returns false right after the start, when a signal could be lost. */
  get acceptsSignals(): boolean {
    return isStartClaimed(this.#options.runDirectory)
  }

  /** Signals all processes of this run, but never an unrelated process that reuses one of their ids. */
  signal(signal: NodeJS.Signals): void {
    if (this.leader && signalGroup(this.leader, signal)) return
    for (const member of this.#members()) signalProcess(member, signal)
  }

  #findExit(): Exit | undefined {
    if (this.#leaderRuns()) return undefined
    const { runDirectory, logPath, child, clock } = this.#options
    const code = readExitCode(runDirectory)
    if (code !== undefined) return { code, reason: `${killedBy(code)}see ${logPath}` }
    this.#leaderGoneAt ??= clock.elapsed()
    if (this.#members().length > 0) return undefined
    if (child && clock.elapsed() - this.#leaderGoneAt <= groupKillMs) return this.#exitOfSupervisor(child)
    return { reason: 'its supervisor was killed or the machine restarted' }
  }

  /** The exit to report if the game was never started, or was killed together with its supervisor. */
  #exitOfSupervisor(child: ChildProcess): Exit {
    if (child.signalCode) {
      return {
        code: 128 + constants.signals[child.signalCode],
        reason: `its process group was killed by ${child.signalCode}`,
      }
    }
    const code = child.exitCode ?? notStartedCode
    const { runDirectory, logPath } = this.#options
    return { code, reason: `not started: its supervisor could not write to ${runDirectory}; see ${logPath}` }
  }

  #leaderRuns(): boolean {
    const { child, runDirectory, clock } = this.#options
    if (child) return isRunningChild(child)
    const { leader } = this
    if (!leader || this.#leaderGoneAt !== undefined || !isInUse(leader.pid)) return false
    // On some platforms the identity check runs `ps`, which is too slow for a thousand processes four times a second.
    const now = clock.elapsed()
    if (now - this.#lastIdentityCheck < identityCheckIntervalMs && !isExitWritten(runDirectory)) return true
    this.#lastIdentityCheck = now
    return isAlive(leader)
  }

  #members(): readonly ProcessIdentity[] {
    return markedMembers(this.#options.group, this.#options.mark)
  }
}

/** Returns true until Node has detected the child's exit. */
function isRunningChild(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

/** Returns an empty string unless the exit code stands for a signal. */
function killedBy(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)
  return signal ? `killed by ${signal[0]}; ` : ''
}
