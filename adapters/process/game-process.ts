/**
 * One run of a game: its supervisor and all processes of their group, whether this host has started them or found them.
 *
 * It runs as long as the supervisor lives. Is the supervisor killed alone, it runs on as long as a marked process of
 * its group lives; only its exit code is lost then.
 */
import { constants } from 'node:os'
import type { ChildProcess } from 'node:child_process'
import type { Clock } from '../../src/contracts/clock.js'
import { isAlive, type ProcessIdentity } from '../../src/platform/process-identity.js'
import { isTaken, markedMembers, signalGroup, signalProcess } from './process-group.js'
import type { Exit } from './record.js'
import { isExitWritten, isStartClaimed, notStartedCode, readExitCode } from './supervisor.js'

/** How long after its supervisor a group may end and still count as killed by the same signal. */
const togetherMs = 1_000
/** How often a process that is not a child is asked who it is. In between it is enough that somebody has its number. */
const thoroughEveryMs = 5_000

export interface GameProcessInput {
  readonly runDirectory: string
  readonly mark: string
  readonly logPath: string
  /** The supervisor's process id, which is its group's number. */
  readonly group: number
  /** Absent when it is known to be gone. */
  readonly leader?: ProcessIdentity
  /** Present when this host has started it. */
  readonly child?: ChildProcess
  readonly clock: Clock
}

export class GameProcess {
  readonly leader: ProcessIdentity | undefined
  readonly #input: GameProcessInput
  #leaderGoneAt: number | undefined
  #lastThorough = -Infinity
  #exit: Exit | undefined

  constructor(input: GameProcessInput) {
    this.#input = input
    this.leader = input.leader
  }

  /** True when no event will tell of its end, so that it has to be looked at. */
  get needsPolling(): boolean {
    return this.#exit === undefined && !(this.#input.child && isRunningChild(this.#input.child))
  }

  /** How it ended; undefined while it runs. */
  exit(): Exit | undefined {
    this.#exit ??= this.#findExit()
    return this.#exit
  }

  /** True when nothing of it runs any more, what the game has left behind included. */
  isGone(): boolean {
    return this.exit() !== undefined && this.#members().length === 0
  }

  /** False in the first moments, in which a signal could get lost. */
  get hearsSignals(): boolean {
    return isStartClaimed(this.#input.runDirectory)
  }

  /** Signals all of it. What is not this run's, whatever its number, is never signalled. */
  signal(signal: NodeJS.Signals): void {
    if (this.leader && signalGroup(this.leader, signal)) return
    for (const member of this.#members()) signalProcess(member, signal)
  }

  #findExit(): Exit | undefined {
    if (this.#leaderRuns()) return undefined
    const { runDirectory, logPath, child, clock } = this.#input
    const code = readExitCode(runDirectory)
    if (code !== undefined) return { code, reason: `${wordsFor(code)}; its log is ${logPath}` }
    this.#leaderGoneAt ??= clock.elapsed()
    if (this.#members().length > 0) return undefined
    if (child && clock.elapsed() - this.#leaderGoneAt <= togetherMs) return this.#exitOfSupervisor(child)
    return { reason: 'ended while nobody could see its exit code: its supervisor was killed or the machine restarted' }
  }

  /** For a game that never started, or that was killed together with its supervisor. */
  #exitOfSupervisor(child: ChildProcess): Exit {
    if (child.signalCode) {
      return {
        code: 128 + constants.signals[child.signalCode],
        reason: `its process group was ended by ${child.signalCode}`,
      }
    }
    const code = child.exitCode ?? notStartedCode
    const { runDirectory, logPath } = this.#input
    return { code, reason: `was not started: its supervisor could not write to ${runDirectory}; its log is ${logPath}` }
  }

  #leaderRuns(): boolean {
    const { child, runDirectory, clock } = this.#input
    if (child) return isRunningChild(child)
    const { leader } = this
    if (!leader || this.#leaderGoneAt !== undefined || !isTaken(leader.pid)) return false
    // The full question costs a run of `ps` on some platforms, and there may be a thousand to ask four times a second.
    const now = clock.elapsed()
    if (now - this.#lastThorough < thoroughEveryMs && !isExitWritten(runDirectory)) return true
    this.#lastThorough = now
    return isAlive(leader)
  }

  #members(): readonly ProcessIdentity[] {
    return markedMembers(this.#input.group, this.#input.mark)
  }
}

/** Until Node has told of its exit. */
function isRunningChild(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

function wordsFor(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)
  return signal ? `exited with code ${code}: ended by ${signal[0]}` : `exited with code ${code}`
}
