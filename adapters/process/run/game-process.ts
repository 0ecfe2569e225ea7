/**
 * One run of a game: the supervisor and all processes that the game has started, either started by this host or recovered.
 *
 * The run lasts as long as the supervisor. If only the supervisor is killed, the run lasts as long as any of its processes,
 * but its exit code is lost.
 */
import { constants } from 'node:os'
import type { Instance } from '../../../src/contracts/backend.js'
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import { isAlive, isOfThisBoot, type ProcessIdentity } from '../../../src/platform/process-identity.js'
import { keyOf, type Ref } from '../../../src/rules/model/resources.js'
import type { InstanceFiles } from '../files/instance-files.js'
import type { Exit, InstanceRecord } from '../files/record.js'
import { endedByLimit, type LimitKills, processesIn } from '../isolation/cgroups.js'
import {
  isInUse,
  type ProcessSnapshot,
  type ProcessTable,
  type RunningProcess,
  signalGroup,
  signalProcess,
} from '../processes.js'
import {
  isExitWritten,
  isStartClaimed,
  notStartedCode,
  readExitCode,
  readGamePid,
  type Supervisor,
} from './supervisor.js'

/** If the group exits this soon after its supervisor, both count as killed by the same signal. */
const groupKillMs = 1_000
/**
 * How often to verify the identity of a process that is not a child. Between these checks, it is enough that the process id
 * is in use.
 */
const identityCheckIntervalMs = 5_000

interface GameProcessOptions {
  readonly runDirectory: string
  readonly mark: string
  readonly logPath: string
  /** Process id of the supervisor, which is also the process group id. */
  readonly group: number
  /** Missing if the supervisor is known to have exited. */
  readonly leader?: ProcessIdentity
  /** Whether this host has started the run, just now. */
  readonly isNew?: boolean
  /** Set if this host has started the supervisor. */
  readonly supervisor?: Supervisor
  /** The user of the game, if no other server runs as this user. */
  readonly uid?: number | undefined
  readonly processes: ProcessTable
  readonly clock: Clock
}

/** A process listens on its public ports. */
const inside = { host: '127.0.0.1', ports: 'public' } as const

export class GameProcess {
  readonly leader: ProcessIdentity | undefined
  readonly #options: GameProcessOptions
  #leaderGoneAt: number | undefined
  #lastIdentityCheck = -Infinity
  #exit: Exit | undefined
  /** Processes that have outlived the supervisor, at the last look. */
  #survivors: readonly RunningProcess[] = []
  /** Processes that the memory limit had ended at the last two samples. */
  #kills: { readonly older: number; readonly latest: number } | undefined

  constructor(options: GameProcessOptions) {
    this.#options = options
    this.leader = options.leader
    if (options.isNew) this.#kills = { older: 0, latest: 0 }
  }

  /** Call at intervals: a process that the memory limit ended before the last two calls is not why the game exits. */
  sampleKills(): void {
    const { mark, runDirectory } = this.#options
    const latest = endedByLimit(mark, runDirectory)?.kills ?? 0
    this.#kills = { older: this.#kills?.latest ?? latest, latest }
  }

  /** Whether the process must be polled because no event reports its exit. */
  get needsPolling(): boolean {
    return this.#exit === undefined && this.#options.supervisor?.hasEnded !== false
  }

  /** Undefined while the game is running, and while only `look` can tell. */
  get exit(): Exit | undefined {
    return this.#exit
  }

  /** Checks whether the game has exited, without a scan. `unclear`: its supervisor was killed, so only `look` can tell. */
  check(): 'running' | 'exited' | 'unclear' {
    if (this.#exit) return 'exited'
    if (this.#leaderRuns()) return 'running'
    const { runDirectory, logPath, clock, mark } = this.#options
    const code = readExitCode(runDirectory)
    if (code !== undefined) {
      this.#exit = {
        code,
        reason: `${code === 0 ? '' : outOfMemory(endedByLimit(mark, runDirectory), this.#kills?.older ?? 0)}${killedBy(code)}see ${logPath}`,
      }
      return 'exited'
    }
    this.#leaderGoneAt ??= clock.elapsed()
    return this.#survivors.some(isAlive) ? 'running' : 'unclear'
  }

  /** Stops following the supervisor, which keeps running. */
  release(): void {
    this.#options.supervisor?.release()
  }

  /** Finds all processes of this run. Also determines the exit if it is unclear. Shares its scan with other runs. */
  async look(): Promise<readonly RunningProcess[]> {
    const members = this.#membersIn(await this.#options.processes.snapshot())
    if (this.check() === 'unclear') {
      this.#survivors = members
      if (members.length === 0) this.#exit = this.#exitWithoutCode()
    }
    return members
  }

  /** Whether this process has left the game's process group. */
  hasLeftGroup({ group }: RunningProcess): boolean {
    return group !== this.#options.group
  }

  /** Returns false right after the start, when a signal could be lost. */
  get acceptsSignals(): boolean {
    return isStartClaimed(this.#options.runDirectory)
  }

  /**
   * Signals all processes of this run, but never an unrelated process that reuses one of their ids. Those in the supervisor's
   * group get the signal at once, including any that are just being started.
   */
  async signal(signal: NodeJS.Signals): Promise<readonly RunningProcess[]> {
    const hasSignalledGroup = this.leader !== undefined && signalGroup(this.leader, signal)
    const members = await this.look()
    for (const member of members) {
      if (!hasSignalledGroup || this.hasLeftGroup(member)) signalProcess(member, signal)
    }
    return members
  }

  /** The exit to report if the game was never started, or was killed together with its supervisor. */
  #exitWithoutCode(): Exit {
    const { supervisor, clock, runDirectory, logPath } = this.#options
    if (!supervisor || clock.elapsed() - (this.#leaderGoneAt ?? 0) > groupKillMs) {
      return { reason: 'its supervisor was killed or the machine restarted' }
    }
    if (!isStartClaimed(runDirectory)) {
      return {
        code: notStartedCode,
        reason: `not started: its supervisor could not write to ${runDirectory}; see ${logPath}`,
      }
    }
    // The supervisor survives all other signals to its group.
    return { code: 128 + constants.signals.SIGKILL, reason: 'its process group was killed by SIGKILL' }
  }

  #leaderRuns(): boolean {
    const { supervisor, runDirectory, clock } = this.#options
    if (supervisor) return !supervisor.hasEnded
    const { leader } = this
    if (!leader || this.#leaderGoneAt !== undefined || !isInUse(leader.pid)) return false
    // On some platforms the identity check runs `ps`, which is too slow for a thousand processes four times a second.
    const now = clock.elapsed()
    if (now - this.#lastIdentityCheck < identityCheckIntervalMs && !isExitWritten(runDirectory)) return true
    this.#lastIdentityCheck = now
    return isAlive(leader)
  }

  #membersIn(snapshot: ProcessSnapshot): readonly RunningProcess[] {
    const { mark, group, uid, runDirectory } = this.#options
    // After a restart of the machine, the ids may belong to other processes.
    const game = this.leader && isOfThisBoot(this.leader) ? readGamePid(runDirectory) : undefined
    return snapshot.membersOf({ mark, group, game, uid, pids: processesIn(mark) })
  }
}

/** Returns an empty string unless the memory limit has ended more processes of the run than these. */
function outOfMemory(ended: LimitKills | undefined, before: number): string {
  if (ended === undefined || ended.kills <= before) return ''
  return `out of memory: it exceeded its limit of ${ended.limitBytes} bytes; `
}

/** Returns an empty string unless the exit code stands for a signal. */
function killedBy(code: number): string {
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)
  return signal ? `killed by ${signal[0]}; ` : ''
}

export class ManagedInstance {
  record: InstanceRecord
  /** A port is added as soon as it is picked, before it appears in the record. */
  readonly takenPorts: number[]
  process: GameProcess | undefined
  #saved: Promise<void> = Promise.resolve()

  constructor(record: InstanceRecord, process?: GameProcess) {
    this.record = record
    this.process = process
    this.takenPorts = record.ports.map((port) => port.public)
  }

  get ref(): Ref {
    return this.record.ref
  }

  get key(): string {
    return keyOf(this.record.ref)
  }

  /** Whether the game is running, or may be. */
  get isRunning(): boolean {
    return this.process !== undefined && this.record.exit === undefined
  }

  toInstance(): Instance {
    const { ref, uid, address, node, ports, exit, origin } = this.record
    const base = { ref, uid, address, node, ports, inside, ...(origin && { origin }) }
    if (exit) {
      const { code, reason } = exit
      return { ...base, phase: 'exited', reason, ...(code === undefined ? {} : { exitCode: code }) }
    }
    return this.process
      ? { ...base, phase: 'running' }
      : { ...base, phase: 'pending', reason: 'the process is starting' }
  }

  /** Writes the record after all earlier writes. A failed write is harmless: the run's files contain the same information. */
  save(files: InstanceFiles, logger: Logger): void {
    this.#saved = this.#saved
      .then(() => files.writeRecord(this.record))
      .catch((error: unknown) => logger.warn({ err: error, ref: this.ref }, 'cannot write an instance record'))
  }

  /** Resolves once all writes so far have succeeded or failed. Never rejects. */
  saved(): Promise<void> {
    return this.#saved
  }
}
