/**
 * Starts instances: takes ports, writes the record, then starts the process. Each server has at most one start in progress.
 */
import { randomBytes } from 'node:crypto'
import type { Instance, InstanceSpec } from '../../src/contracts/backend.js'
import { throwIfAborted } from '../../src/contracts/errors.js'
import { lowestFreeNumber } from '../../src/rules/game/sdk-config.js'
import { InFlight } from '../shared/in-flight.js'
import type { BackendLifecycle } from '../shared/backend-lifecycle.js'
import type { ExitMonitor } from './run/exit-monitor.js'
import type { InstanceFiles } from './files/instance-files.js'
import { prepareLaunch } from './run/game-launch.js'
import type { GameIsolation } from './isolation/game-isolation.js'
import type { GameUser } from './isolation/users.js'
import type { LogFiles } from './files/logs.js'
import { ManagedInstance } from './run/game-process.js'
import type { ResolvedProcessOptions } from './options.js'
import type { PortPool } from './port-pool.js'
import type { ProcessTable } from './processes.js'
import type { Exit } from './files/record.js'

interface StartsDependencies {
  readonly options: ResolvedProcessOptions
  readonly lifecycle: BackendLifecycle<void>
  readonly instances: Map<string, ManagedInstance>
  readonly ports: PortPool
  readonly files: InstanceFiles
  readonly logs: LogFiles
  readonly monitor: ExitMonitor
  readonly processes: ProcessTable
  readonly isolation: GameIsolation
}

interface Run {
  readonly spec: InstanceSpec
  readonly nonce: string
  readonly user: GameUser | undefined
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
    // Taken before the first await, so that concurrent starts get different numbers.
    const instanceNumber = lowestFreeNumber(this.#takenNumbers())
    const { namespace, name, uid: buildUid } = spec.build
    const origin = { build: { namespace, name, uid: buildUid }, sessionHostId: spec.sdk.sessionHostId }
    const user = this.#deps.isolation.userOfNext(new Set(this.#takenUsers()))
    const own = {
      ...(user?.own === true && { uidOfGame: user.uid }),
    }
    const record = { version: 1, ref, uid, address, node, instanceNumber, ports: [], nonce, ...own, origin } as const
    const instance = new ManagedInstance(record)
    const { key } = instance
    this.#deps.instances.set(key, instance)
    const run = { spec: { ref, uid, ...spec }, nonce, user }
    return this.#inFlight.start(key, instance, () => this.#run(instance, run, signal))
  }

  async #run(instance: ManagedInstance, run: Run, signal: AbortSignal | undefined): Promise<Instance> {
    const { spec, nonce, user } = run
    const { lifecycle, ports, files, logs, options } = this.#deps
    try {
      await ports.take(spec.portsToExpose.length, instance.takenPorts)
      const pairs = spec.portsToExpose.map((container, i) => ({ container, public: instance.takenPorts[i] ?? 0 }))
      instance.record = { ...instance.record, ports: pairs }
      await files.prepare(instance.ref, nonce, { user, ownsFolders: this.#deps.isolation.ownsFolders })
      const launch = await this.#prepare(instance, run)
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
    this.#deps.monitor.poll()
    void this.#deps.monitor.sample()
    return this.#notify(instance)
  }

  #prepare(instance: ManagedInstance, run: Run) {
    const { files, monitor, options, processes, isolation } = this.#deps
    const { clock } = options
    const onExit = () => monitor.check(instance)
    return prepareLaunch({ ...run, record: instance.record, files, options, isolation, processes, clock, onExit })
  }

  /** Keeps an instance that cannot run, so that its reason can be read, but releases its ports. */
  async #reject(instance: ManagedInstance, exit: Exit): Promise<Instance> {
    const { nonce: _, ...record } = instance.record
    instance.record = { ...record, ports: [], exit }
    instance.takenPorts.length = 0
    await this.#deps.files.writeRecord(instance.record)
    return this.#notify(instance)
  }

  async #discard(instance: ManagedInstance): Promise<void> {
    const { files, instances } = this.#deps
    await files.remove(instance.ref)
    instances.delete(instance.key)
  }

  *#takenNumbers(): Generator<number> {
    for (const { record } of this.#deps.instances.values()) yield record.instanceNumber
  }

  *#takenUsers(): Generator<number> {
    for (const { record } of this.#deps.instances.values()) if (record.uidOfGame !== undefined) yield record.uidOfGame
  }

  #notify(instance: ManagedInstance): Instance {
    const shown = instance.toInstance()
    this.#deps.lifecycle.listeners.notifyAll((listener) => listener.changed(shown))
    return shown
  }
}
