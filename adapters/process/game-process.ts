/**
 * One run of a game: the supervisor and all processes of its group, started by this host or recovered.
 *
 * It runs while the supervisor lives. If only the supervisor is killed, it runs while a marked process of the group lives,
 * but its exit code is lost.
 */
import type { ChildProcess } from 'node:child_process'
import { constants } from 'node:os'
import type { Clock } from '../../src/contracts/clock.js'
import { isAlive, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { isInUse, markedMembers, signalGroup, signalProcess } from './process-group.js'
import type { Exit } from './record.js'
import { isExitWritten, isStartClaimed, notStartedCode, readExitCode } from './supervisor.js'

/** A group that ends this soon after its supervisor counts as killed by the same signal. */
const groupKillMs = 1_000
/** How often the identity of a process that is not a child is checked. In between, its process id being in use is enough. */
const identityCheckIntervalMs = 5_000

export interface GameProcessOptions {
  readonly runDirectory: string
  readonly mark: string
  readonly logPath: string
  /** Process id of the supervisor, which is also the group id. */
  readonly group: number
  /** Absent when the supervisor is known to be gone. */
  readonly leader?: ProcessIdentity
  /** Present when this host started the process. */
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

  /** True when no event reports the exit, so that the process must be polled. */
  get needsPolling(): boolean {
    return this.#exit === undefined && !(this.#options.child && isRunningChild(this.#options.child))
  }

  /** Undefined while it runs. */
  exit(): Exit | undefined {
    this.#exit ??= this.#findExit()
    return this.#exit
  }

  /** True when no process of the group is left. */
  isGone(): boolean {
    return this.exit() !== undefined && this.#members().length === 0
  }

  /** False right after the start, when a signal could get lost. */
  get acceptsSignals(): boolean {
    return isStartClaimed(this.#options.runDirectory)
  }

  /** Signals all processes of this run, and never a process that merely has the same id. */
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

  /** The game never started, or was killed together with its supervisor. */
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
    // On some platforms the identity check runs `ps`, too slow for a thousand processes four times a second.
    const now = clock.elapsed()
    if (now - this.#lastIdentityCheck < identityCheckIntervalMs && !isExitWritten(runDirectory)) return true
    this.#lastIdentityCheck = now
    return isAlive(leader)
  }

  #members(): readonly ProcessIdentity[] {
    return markedMembers(this.#options.group, this.#options.mark)
  }
}

/** True until Node has emitted `exit`. */
function isRunningChild(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

/** Empty unless the exit code stands for a signal. */
function killedBy(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)
  return signal ? `killed by ${signal[0]}; ` : ''
}
