/**
 * Detects when games exit, records the exits and notifies the listeners. Polls processes that are not children of this host.
 */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Logger } from '../../../src/contracts/logger.js'
import type { Listeners } from '../../shared/backend-lifecycle.js'
import type { Terminations } from '../../shared/in-flight.js'
import type { InstanceFiles } from '../files/instance-files.js'
import { mapInSlices } from '../../../src/platform/turns.js'
import { endsSingleProcesses } from '../isolation/cgroups.js'
import type { GameProcess, ManagedInstance } from './game-process.js'
import type { ProcessTermination } from './process-termination.js'
import type { Exit } from '../files/record.js'

interface ExitMonitorDependencies {
  readonly instances: ReadonlyMap<string, ManagedInstance>
  readonly terminations: Terminations<ProcessTermination>
  readonly files: InstanceFiles
  readonly listeners: Listeners
  readonly clock: Clock
  readonly logger: Logger
  readonly pollIntervalMs: number
}

const sampleIntervalMs = 5_000

export class ExitMonitor {
  readonly #deps: ExitMonitorDependencies
  #cancelPoll: (() => void) | undefined
  #cancelSample: (() => void) | undefined
  #closed = false
  /** Instances that are being looked for among the system's processes. */
  readonly #looking = new Map<ManagedInstance, Promise<void>>()

  constructor(deps: ExitMonitorDependencies) {
    this.#deps = deps
  }

  /** Records the exit if the game has exited. Never throws: if the check fails, the next poll repeats it. */
  check(instance: ManagedInstance): void {
    if (this.#closed) return
    this.#deps.terminations.get(instance.key)?.wake()
    const { process } = instance
    if (!process || instance.record.exit) return
    try {
      if (process.check() === 'unclear') this.#look(instance, process)
      else this.#record(instance, process)
    } catch (error) {
      this.#failed(instance, error)
    }
  }

  /** Resolves once all instances have been checked. Never rejects. */
  async checkAll(): Promise<void> {
    for (const instance of this.#deps.instances.values()) this.check(instance)
    await Promise.all(this.#looking.values())
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

  /** Samples what memory limits have ended, now and at intervals while games run. */
  async sample(): Promise<void> {
    const { clock, instances } = this.#deps
    if (!endsSingleProcesses() || this.#closed || this.#cancelSample) return
    const running = [...instances.values()].filter(({ isRunning }) => isRunning)
    if (running.length === 0) return
    this.#cancelSample = clock.after(sampleIntervalMs, () => {
      this.#cancelSample = undefined
      void this.sample()
    })
    await mapInSlices(running, ({ process }) => process?.sampleKills())
  }

  close(): void {
    this.#closed = true
    this.#cancelPoll?.()
    this.#cancelSample?.()
  }

  #look(instance: ManagedInstance, process: GameProcess): void {
    if (this.#looking.has(instance)) return
    const looked = process
      .look()
      .then(
        () => this.#record(instance, process),
        (error: unknown) => this.#failed(instance, error),
      )
      .finally(() => this.#looking.delete(instance))
    this.#looking.set(instance, looked)
  }

  #failed(instance: ManagedInstance, error: unknown): void {
    this.#deps.logger.warn({ err: error, ref: instance.ref }, 'cannot check the process of an instance; will retry')
    this.poll()
  }

  #record(instance: ManagedInstance, process: GameProcess): void {
    if (this.#closed || instance.record.exit) return
    if (process.exit) this.#recordExit(instance, process.exit)
    else if (process.needsPolling) this.poll()
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
