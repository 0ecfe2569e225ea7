/**
 * Detects when games exit, records the exits and notifies the listeners. Polls processes that are not children of this host.
 */
import type { Clock } from '../../src/contracts/clock.js'
import type { Logger } from '../../src/contracts/logger.js'
import type { Listeners } from '../shared/listeners.js'
import type { Terminations } from '../shared/terminations.js'
import type { InstanceFiles } from './files.js'
import type { ManagedInstance } from './managed-instance.js'
import type { ProcessTermination } from './process-termination.js'
import type { Exit } from './record.js'

export interface ExitMonitorDependencies {
  readonly instances: ReadonlyMap<string, ManagedInstance>
  readonly terminations: Terminations<ProcessTermination>
  readonly files: InstanceFiles
  readonly listeners: Listeners
  readonly clock: Clock
  readonly logger: Logger
  readonly pollIntervalMs: number
}

export class ExitMonitor {
  readonly #deps: ExitMonitorDependencies
  #cancelPoll: (() => void) | undefined
  #closed = false

  constructor(deps: ExitMonitorDependencies) {
    this.#deps = deps
  }

  /** Records the exit if the game has exited. Never throws: if the check fails, the next poll repeats it. */
  check(instance: ManagedInstance): void {
    if (this.#closed) return
    this.#deps.terminations.get(instance.key)?.wake()
    if (!instance.process || instance.record.exit) return
    try {
      const exit = instance.process.exit()
      if (exit) this.#recordExit(instance, exit)
      else if (instance.process.needsPolling) this.poll()
    } catch (error) {
      this.#deps.logger.warn(
        { err: error, ref: instance.ref },
        'checking the process of an instance failed; will retry',
      )
      this.poll()
    }
  }

  checkAll(): void {
    for (const instance of this.#deps.instances.values()) this.check(instance)
  }

  /** Checks at regular intervals while any process needs polling. */
  poll(): void {
    const { clock, instances, pollIntervalMs } = this.#deps
    if (this.#closed || this.#cancelPoll) return
    if (![...instances.values()].some(({ process }) => process?.needsPolling)) return
    this.#cancelPoll = clock.after(pollIntervalMs, () => {
      this.#cancelPoll = undefined
      for (const instance of instances.values()) if (instance.process?.needsPolling) this.check(instance)
      this.poll()
    })
  }

  close(): void {
    this.#closed = true
    this.#cancelPoll?.()
  }

  #recordExit(instance: ManagedInstance, exit: Exit): void {
    const { terminations, files, listeners, logger } = this.#deps
    instance.record = { ...instance.record, exit }
    // A termination removes the record and reports the end itself.
    if (terminations.has(instance.key)) return
    instance.save(files, logger)
    const exited = instance.toInstance()
    listeners.notifyAll((listener) => listener.changed(exited))
  }
}
