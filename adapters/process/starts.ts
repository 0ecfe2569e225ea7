/**
 * Starts instances: takes ports, writes the record, then starts the process. Each server has at most one start in progress.
 */
import { randomBytes } from 'node:crypto'
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { throwIfAborted } from '../../src/contracts/errors.js'
import { InFlight } from '../shared/in-flight.js'
import type { BackendLifecycle } from '../shared/lifecycle.js'
import type { ExitMonitor } from './exit-monitor.js'
import type { InstanceFiles } from './files.js'
import { prepareLaunch } from './game-launch.js'
import type { Logs } from './logs.js'
import { ManagedInstance } from './managed-instance.js'
import type { ResolvedProcessOptions } from './options.js'
import type { PortPool } from './port-pool.js'
import type { Exit } from './record.js'

export interface StartsDependencies {
  readonly options: ResolvedProcessOptions
  readonly lifecycle: BackendLifecycle<void>
  readonly instances: Map<string, ManagedInstance>
  readonly ports: PortPool
  readonly files: InstanceFiles
  readonly logs: Logs
  readonly monitor: ExitMonitor
}

export class Starts {
  readonly #deps: StartsDependencies
  readonly #inFlight = new InFlight<ManagedInstance, Instance>()

  constructor(deps: StartsDependencies) {
    this.#deps = deps
  }

  has(key: string): boolean {
    return this.#inFlight.has(key)
  }

  /** Returns the result of the start in progress, if there is one. */
  get(key: string): Promise<Instance> | undefined {
    return this.#inFlight.get(key)?.done
  }

  settled(key: string): Promise<void> {
    return this.#inFlight.settled(key)
  }

  allSettled(): Promise<void> {
    return this.#inFlight.allSettled()
  }

  /** No instance may exist for this ref. Rejects with `ports-exhausted`, `unavailable`, `directory-unusable` or `aborted`. */
  start({ ref, uid, ...spec }: InstanceSpec, signal: AbortSignal | undefined): Promise<Instance> {
    const { node, publicAddress: address } = this.#deps.options
    // Does not use the clock's random bytes, which may repeat in tests: the nonce identifies real processes.
    const nonce = randomBytes(16).toString('hex')
    const instance = new ManagedInstance({ version: 1, ref, uid, address, node, ports: [], nonce })
    const { key } = instance
    this.#deps.instances.set(key, instance)
    return this.#inFlight.start(key, instance, () => this.#run(instance, { ref, uid, ...spec }, nonce, signal))
  }

  async #run(
    instance: ManagedInstance,
    spec: InstanceSpec,
    nonce: string,
    signal: AbortSignal | undefined,
  ): Promise<Instance> {
    const { lifecycle, ports, files, logs, options } = this.#deps
    try {
      await ports.take(spec.portsToExpose.length, instance.heldPorts)
      const pairs = spec.portsToExpose.map((container, i) => ({ container, public: instance.heldPorts[i] ?? 0 }))
      instance.record = { ...instance.record, ports: pairs }
      await files.prepare(instance.ref, nonce)
      const launch = await this.#prepare(instance, spec, nonce)
      if (!launch.ok) return await this.#reject(instance, launch.rejected)
      // Written before the process starts, so that the next host knows that a process may exist.
      await files.writeRecord(instance.record)
      throwIfAborted(signal)
      lifecycle.throwIfClosed()
      const started = await launch.start()
      if ('rejected' in started) return await this.#reject(instance, started.rejected)
      instance.process = started
    } catch (error) {
      await this.#discard(instance)
      throw files.failure(error)
    }
    if (instance.process.leader) instance.record = { ...instance.record, process: instance.process.leader }
    instance.save(files, options.logger)
    logs.watch()
    return this.#notify(instance)
  }

  #prepare(instance: ManagedInstance, spec: InstanceSpec, nonce: string) {
    const { files, monitor, options } = this.#deps
    const { inheritEnv, clock } = options
    const onExit = () => monitor.check(instance)
    return prepareLaunch({ spec, record: instance.record, nonce, files, inheritEnv, clock, onExit })
  }

  /** Keeps an instance that cannot run, so that its reason can be read, but releases its ports. */
  async #reject(instance: ManagedInstance, exit: Exit): Promise<Instance> {
    const { nonce: _, ...record } = instance.record
    instance.record = { ...record, ports: [], exit }
    instance.heldPorts.length = 0
    await this.#deps.files.writeRecord(instance.record)
    return this.#notify(instance)
  }

  async #discard(instance: ManagedInstance): Promise<void> {
    const { files, instances, options } = this.#deps
    await files.remove(instance.ref).catch((error: unknown) => {
      // The next host will find that the game was never started, and remove the files.
      options.logger.warn({ err: error, ref: instance.ref }, 'removing the files of a failed start failed')
    })
    instances.delete(instance.key)
  }

  #notify(instance: ManagedInstance): Instance {
    const shown = instance.toInstance()
    this.#deps.lifecycle.listeners.notifyAll((listener) => listener.changed(shown))
    return shown
  }
}
