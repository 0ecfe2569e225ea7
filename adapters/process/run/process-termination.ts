/**
 * Terminates an instance: sends SIGTERM, waits for the grace period, sends SIGKILL if necessary, then removes the instance's
 * files. Also ends processes that have left the game's group.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import { FleetError } from '../../../src/contracts/errors.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Listeners } from '../../shared/backend-lifecycle.js'
import type { Termination } from '../../shared/in-flight.js'
import type { InstanceFiles } from '../files/instance-files.js'
import type { GameProcess, ManagedInstance } from './game-process.js'
import type { LogFiles } from '../files/logs.js'
import type { RunningProcess } from '../processes.js'

interface ProcessTerminationDependencies {
  readonly clock: Clock
  readonly instances: Map<string, ManagedInstance>
  readonly starts: { settled(key: string): Promise<void> }
  readonly files: InstanceFiles
  readonly logs: LogFiles
  readonly listeners: Listeners
  readonly logger: Logger
}

const checkIntervalInitialMs = 10
const checkIntervalMaxMs = 250

export class ProcessTermination implements Termination {
  readonly #instance: ManagedInstance
  readonly #deps: ProcessTerminationDependencies
  #deadline: number
  #wake = () => {}
  #closed = false
  readonly #reported = new Set<number>()

  constructor(instance: ManagedInstance, graceMs: number, deps: ProcessTerminationDependencies) {
    this.#instance = instance
    this.#deps = deps
    this.#deadline = deps.clock.elapsed() + graceMs
  }

  get uid(): string {
    return this.#instance.record.uid
  }

  shorten(graceMs: number): void {
    this.#deadline = Math.min(this.#deadline, this.#deps.clock.elapsed() + graceMs)
    this.#wake()
  }

  /** Makes `run` check the process immediately, because its state may have changed. */
  wake(): void {
    this.#wake()
  }

  /** Makes `run` reject with `closed` as soon as the process has received its termination signal. */
  close(): void {
    this.#closed = true
    this.#wake()
  }

  async run(): Promise<void> {
    const { instances, starts, files, logs, listeners } = this.#deps
    const instance = this.#instance
    const { key, ref } = instance
    try {
      await starts.settled(key)
      // If the start failed, it has already removed everything.
      if (instances.get(key) !== instance) return
      if (instance.process) await this.#end(instance.process)
      await instance.saved()
      await files.remove(ref)
    } catch (error) {
      throw files.failure(error)
    }
    await logs.ended(files.logOf(ref))
    instances.delete(key)
    logs.sweep()
    listeners.notifyAll((listener) => listener.gone(ref, this.uid))
  }

  async #end(game: GameProcess): Promise<void> {
    let isSignalled = false
    let isKilled = false
    let intervalMs = checkIntervalInitialMs
    // As in a container, processes that a game leaves behind get no grace period of their own.
    if (game.check() === 'exited') this.shorten(0)
    while (!(await this.#isGone(game))) {
      const remainingMs = this.#deadline - this.#deps.clock.elapsed()
      if (remainingMs <= 0) {
        // Repeated on every check, because a process may have been forked since the last one.
        this.#report(game, await game.signal('SIGKILL'))
        if (!isKilled) intervalMs = checkIntervalInitialMs
        isKilled = true
      } else if (!isSignalled && game.acceptsSignals) {
        this.#report(game, await game.signal('SIGTERM'))
        isSignalled = true
      }
      if (this.#closed && (isSignalled || isKilled)) {
        throw new FleetError('closed', 'the backend was closed before the instance had exited')
      }
      const untilSignalMs = isSignalled ? checkIntervalMaxMs : checkIntervalInitialMs
      const maxMs = isKilled ? checkIntervalMaxMs : Math.max(0, Math.min(remainingMs, untilSignalMs))
      await this.#sleep(Math.min(intervalMs, maxMs))
      intervalMs = Math.min(intervalMs * 2, checkIntervalMaxMs)
    }
  }

  /** Looks for what is left of the run only once the game itself has exited. */
  async #isGone(game: GameProcess): Promise<boolean> {
    if (game.check() === 'running') return false
    const left = await game.look()
    if (game.exit) this.#report(game, left)
    return game.exit !== undefined && left.length === 0
  }

  #report(game: GameProcess, members: readonly RunningProcess[]): void {
    const pids = members.filter((member) => game.hasLeftGroup(member)).map(({ pid }) => pid)
    const unreported = pids.filter((pid) => !this.#reported.has(pid))
    if (unreported.length === 0) return
    for (const pid of unreported) this.#reported.add(pid)
    const { ref } = this.#instance
    this.#deps.logger.warn({ ref, pids: unreported }, 'ending processes that have left the process group of their game')
  }

  async #sleep(ms: number): Promise<void> {
    let cancel = () => {}
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      cancel = this.#deps.clock.after(ms, resolve)
    })
    this.#wake = () => {}
    cancel()
  }
}
