/**
 * Terminates an instance: sends SIGTERM, waits for the grace period, sends SIGKILL if necessary, then removes the instance's
 * files.
 */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { Listeners } from '../shared/listeners.js'
import type { Termination } from '../shared/terminations.js'
import type { InstanceFiles } from './files.js'
import type { GameProcess } from './game-process.js'
import type { Logs } from './logs.js'
import type { ManagedInstance } from './managed-instance.js'

export interface ProcessTerminationDependencies {
  readonly clock: Clock
  readonly instances: Map<string, ManagedInstance>
  readonly starts: { settled(key: string): Promise<void> }
  readonly files: InstanceFiles
  readonly logs: Logs
  readonly listeners: Listeners
}

const checkIntervalInitialMs = 10
const checkIntervalMaxMs = 250

export class ProcessTermination implements Termination {
  readonly #instance: ManagedInstance
  readonly #deps: ProcessTerminationDependencies
  #deadline: number
  #wake = () => {}
  #closed = false

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

  /** Makes `run` reject with `closed` and leave the process as it is. */
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
    while (!game.isGone()) {
      if (this.#closed) throw new FleetError('closed', 'the backend was closed before the instance was terminated')
      const remainingMs = this.#deadline - this.#deps.clock.elapsed()
      if (remainingMs <= 0) {
        // Repeated on every check, because a process may have been forked since the last one.
        game.signal('SIGKILL')
        if (!isKilled) intervalMs = checkIntervalInitialMs
        isKilled = true
      } else if (!isSignalled && game.acceptsSignals) {
        game.signal('SIGTERM')
        isSignalled = true
      }
      const untilSignalMs = isSignalled ? checkIntervalMaxMs : checkIntervalInitialMs
      const maxMs = isKilled ? checkIntervalMaxMs : Math.min(remainingMs, untilSignalMs)
      await this.#sleep(Math.min(intervalMs, maxMs))
      intervalMs = Math.min(intervalMs * 2, checkIntervalMaxMs)
    }
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
