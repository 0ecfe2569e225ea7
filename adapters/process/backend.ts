/**
 * The process backend: runs each instance as processes on this machine. Reads its directory once, then keeps the contents in
 * memory; no other process may write to the directory.
 */
import {
  type Backend,
  type BackendCapabilities,
  type BackendListener,
  type DefaultStore,
  type DestroyOptions,
  developmentGraceMs,
  type ExecOptions,
  type ExecResult,
  type Instance,
  type InstanceSpec,
  type InstanceUsage,
  type IsolationStatus,
  type LogsOptions,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../src/contracts/errors.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { gameContainerOf } from '../../src/rules/validation/pod-template.js'
import { eitherSignal } from '../../src/util/signals.js'
import { storeIn } from '../shared/option-reader.js'
import { BackendLifecycle, checkRef, noStdin } from '../shared/backend-lifecycle.js'
import { checkGraceMs, Terminations } from '../shared/in-flight.js'
import { ExitMonitor } from './run/exit-monitor.js'
import { InstanceFiles } from './files/instance-files.js'
import { GameIsolation } from './isolation/game-isolation.js'
import { LogFiles, readLog } from './files/logs.js'
import type { ManagedInstance } from './run/game-process.js'
import type { ResolvedProcessOptions } from './options.js'
import { PortPool } from './port-pool.js'
import { ProcessTable, usageOf } from './processes.js'
import { ProcessTermination } from './run/process-termination.js'
import { execBeside } from './run/game-exec.js'
import { writeStdin } from './files/stdin.js'
import { recoverInstances } from './recovery.js'
import { checkMemoryLimit } from './run/game-launch.js'
import { Starts } from './starts.js'

export class ProcessBackend implements Backend {
  readonly name = 'process'
  readonly capabilities: BackendCapabilities
  readonly defaultStore: DefaultStore
  readonly isolation: IsolationStatus

  readonly #options: ResolvedProcessOptions
  readonly #lifecycle: BackendLifecycle<void>
  readonly #files: InstanceFiles
  readonly #logs: LogFiles
  readonly #instances = new Map<string, ManagedInstance>()
  readonly #terminations = new Terminations<ProcessTermination>()
  readonly #monitor: ExitMonitor
  readonly #starts: Starts

  readonly #processes: ProcessTable
  readonly #isolation: GameIsolation
  /** Ends the commands in progress. */
  readonly #closing = new AbortController()
  /** On Linux, which shows what a game was started with. */
  readonly exec?: NonNullable<Backend['exec']>

  constructor(options: ResolvedProcessOptions, processes = new ProcessTable()) {
    const { directory, portRange, publicAddress, clock, logger, pollIntervalMs } = options
    const instances = this.#instances
    const files = new InstanceFiles(directory, logger)
    this.#options = options
    this.#files = files
    this.#processes = processes
    const isolation = new GameIsolation(options)
    this.#isolation = isolation
    this.isolation = isolation.status()
    this.capabilities = Object.freeze({
      template: isolation.limitsMemory ? 'process-memory' : 'process',
      agent: true,
      ...(options.development && { development: options.development }),
    })
    const store = storeIn(options)
    this.defaultStore = Object.freeze(options.development ? { ...store, startsEmpty: true } : store)
    this.#lifecycle = new BackendLifecycle({ backend: this.name, logger, open: () => this.#load() })
    const { listeners } = this.#lifecycle
    this.#logs = new LogFiles({
      directory: files.logs,
      maxBytes: options.logMaxBytes,
      retentionMs: options.logRetentionMs,
      maxFiles: options.maxLogFiles,
      inUse: () => new Set(Array.from(instances.values(), ({ ref }) => files.logOf(ref))),
      growing: () => [...instances.values()].filter(({ isRunning }) => isRunning).map(({ ref }) => files.logOf(ref)),
      clock,
      logger,
    })
    const shared = { instances, files, listeners, clock, logger }
    this.#monitor = new ExitMonitor({ ...shared, terminations: this.#terminations, pollIntervalMs })
    const ports = new PortPool(portRange, publicAddress, () => this.#takenPorts())
    const { logs, monitor, lifecycle } = { logs: this.#logs, monitor: this.#monitor, lifecycle: this.#lifecycle }
    if (process.platform === 'linux') this.exec = (ref, command, exec) => this.#exec(ref, command, exec)
    this.#starts = new Starts({ options, lifecycle, instances, ports, files, logs, monitor, processes, isolation })
  }

  check({ template }: Pick<InstanceSpec, 'template'>): void {
    if (this.capabilities.template === 'process-memory') checkMemoryLimit(gameContainerOf(template))
  }

  async create(spec: InstanceSpec, { signal }: CallOptions = {}): Promise<Instance> {
    throwIfAborted(signal)
    checkRef(spec.ref)
    await this.#lifecycle.open()
    throwIfAborted(signal)
    const key = keyOf(spec.ref)
    const existing = this.#instances.get(key)
    if (!existing) return this.#starts.start(spec, signal)
    if (existing.record.uid !== spec.uid || this.#terminations.has(key)) {
      throw new FleetError('conflict', `an earlier instance of ${key} still exists`)
    }
    return this.#starts.get(key) ?? existing.toInstance()
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    const { graceMs, signal } = options
    throwIfAborted(signal)
    checkGraceMs(graceMs)
    await this.#lifecycle.begin(() => this.#terminate(ref, uid, options))
  }

  async list({ signal }: CallOptions = {}): Promise<readonly Instance[]> {
    throwIfAborted(signal)
    await this.#lifecycle.open()
    await this.#monitor.checkAll()
    return Array.from(this.#instances.values(), (instance) => instance.toInstance())
  }

  watch(listener: BackendListener): () => void {
    return this.#lifecycle.watch(listener)
  }

  /** Also reads the logs of terminated servers, until those logs are removed. */
  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    checkRef(ref)
    await this.#lifecycle.open()
    const key = keyOf(ref)
    const isGrowing = () =>
      !this.#lifecycle.isClosed && (this.#starts.has(key) || this.#instances.get(key)?.isRunning === true)
    const source = { path: this.#files.logOf(ref), server: key, isGrowing, clock: this.#options.clock }
    yield* readLog(source, options)
  }

  async usage(ref: Ref, { signal }: CallOptions = {}): Promise<InstanceUsage> {
    checkRef(ref)
    await this.#lifecycle.open()
    throwIfAborted(signal)
    const game = this.#instances.get(keyOf(ref))?.process
    const members = (await game?.look()) ?? []
    if (members.length === 0) throw new FleetError('not-found', `server ${keyOf(ref)} does not run`)
    return usageOf(members.map(({ pid }) => pid))
  }

  async writeStdin(ref: Ref, line: string, { signal }: CallOptions = {}): Promise<void> {
    checkRef(ref)
    await this.#lifecycle.open()
    throwIfAborted(signal)
    const instance = this.#instances.get(keyOf(ref))
    if (!instance) throw new FleetError('not-found', `server ${keyOf(ref)} does not exist`)
    const { isRunning, record } = instance
    if (!isRunning || record.nonce === undefined) throw noStdin(ref, 'ended')
    await writeStdin(this.#files.stdinOf(ref, record.nonce), ref, line)
  }

  async #exec(ref: Ref, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    checkRef(ref)
    await this.#lifecycle.open()
    throwIfAborted(options.signal)
    const instance = this.#instances.get(keyOf(ref))
    const { nonce, uidOfGame } = instance?.record ?? {}
    const leader = instance?.process?.leader
    if (!instance?.isRunning || !leader || nonce === undefined) {
      throw new FleetError('not-found', `server ${keyOf(ref)} does not run`)
    }
    const isolation = this.#isolation
    const hasOwnUser = uidOfGame !== undefined || isolation.changesUser
    const runDirectory = this.#files.runDirectory(ref, nonce)
    const place = { leader, runDirectory, mark: nonce, hasOwnUser, isolation, clock: this.#options.clock }
    const { signal, release } = eitherSignal(this.#closing.signal, options.signal)
    return execBeside(place, command, { ...options, signal }).finally(release)
  }

  async close(): Promise<void> {
    if (this.#options.development && !this.#lifecycle.isClosed) await this.#endAll()
    this.#lifecycle.close()
    this.#closing.abort()
    this.#monitor.close()
    await this.#lifecycle.settled()
    for (const termination of this.#terminations.inProgress()) termination.close()
    await Promise.all([this.#starts.allSettled(), this.#terminations.allSettled()])
    for (const { process } of this.#instances.values()) process?.release()
    await Promise.all(Array.from(this.#instances.values(), (instance) => instance.saved()))
    await this.#logs.close()
  }

  async #terminate(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    throwIfAborted(options.signal)
    const instance = this.#instances.get(keyOf(ref))
    if (!instance || instance.record.uid !== uid) return
    const { clock, logger } = this.#options
    const { listeners } = this.#lifecycle
    const [instances, starts, files, logs] = [this.#instances, this.#starts, this.#files, this.#logs]
    const deps = { clock, instances, starts, files, logs, listeners, logger }
    const graceMs = this.#options.development ? Math.min(options.graceMs, developmentGraceMs) : options.graceMs
    const begin = () => new ProcessTermination(instance, graceMs, deps)
    await this.#terminations.terminate(ref, uid, { ...options, graceMs }, begin)
  }

  /** Games whose start is in progress end with this process. */
  async #endAll(): Promise<void> {
    const running = [...this.#instances.values()]
    const options = { graceMs: developmentGraceMs }
    await Promise.allSettled(running.map(({ ref, record }) => this.#terminate(ref, record.uid, options)))
  }

  async #load(): Promise<void> {
    const { clock, logger } = this.#options
    const [files, processes] = [this.#files, this.#processes]
    try {
      await files.open(this.#isolation.needsPassage)
      await files.emptyTrash()
      for (const instance of await recoverInstances({ files, processes, clock, logger })) {
        this.#instances.set(instance.key, instance)
        if (!this.#options.development) this.#monitor.check(instance)
      }
    } catch (error) {
      throw files.failure(error)
    }
    // The system may have ended their supervisors as well, so some may still run.
    if (this.#options.development) await this.#endAll()
    this.#logs.watch()
    this.#logs.sweep()
    this.#monitor.poll()
    void this.#monitor.sample()
  }

  *#takenPorts(): Generator<number> {
    for (const { takenPorts } of this.#instances.values()) yield* takenPorts
  }
}
