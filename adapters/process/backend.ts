/**
 * The process backend: runs each instance as processes of this machine. Keeps in memory what the directory has on disk,
 * reads that once, and is the only one to write there.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type {
  Backend,
  BackendCapabilities,
  BackendListener,
  DefaultStore,
  DestroyOptions,
  Instance,
  InstanceSpec,
  LogsOptions,
} from '../../src/contracts/backend.js'
import type { CallOptions } from '../../src/contracts/call-options.js'
import { FleetError, messageOf, throwIfAborted } from '../../src/contracts/errors.js'
import { Listeners } from '../shared/listeners.js'
import { unlessAborted } from '../../src/util/signals.js'
import { shown } from '../../src/rules/validation/problem.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import { adoptAll } from './adoption.js'
import { Ending } from './ending.js'
import { type Entry, instanceOf, isRunning, newEntry } from './entry.js'
import { checkRef, InstanceFiles } from './files.js'
import { prepareLaunch } from './launch.js'
import { Logs } from './logs.js'
import type { ResolvedProcessOptions } from './options.js'
import { PortPool } from './ports.js'
import { readLog } from './read-log.js'
import type { Exit } from './record.js'

export class ProcessBackend implements Backend {
  readonly name = 'process'
  readonly capabilities: BackendCapabilities = Object.freeze({ template: 'process', agent: true })
  readonly defaultStore: DefaultStore

  readonly #options: ResolvedProcessOptions
  readonly #files: InstanceFiles
  readonly #ports: PortPool
  readonly #logs: Logs
  readonly #listeners: Listeners
  readonly #entries = new Map<string, Entry>()
  #opening: Promise<void> | undefined
  #cancelPoll: (() => void) | undefined
  #closed = false

  constructor(options: ResolvedProcessOptions) {
    const { directory, portRange, publicAddress, clock, logger } = options
    this.#options = options
    this.defaultStore = Object.freeze({ kind: 'file', directory: join(directory, 'store') })
    this.#files = new InstanceFiles(directory)
    this.#ports = new PortPool(portRange, publicAddress, () => this.#heldPorts())
    this.#listeners = new Listeners(this.name, logger)
    this.#logs = new Logs({
      directory: this.#files.logs,
      maxBytes: options.logMaxBytes,
      retentionMs: options.logRetentionMs,
      kept: options.maxLogFiles,
      inUse: () => new Set([...this.#entries.values()].map((entry) => this.#logOf(entry))),
      growing: () => [...this.#entries.values()].filter(isRunning).map((entry) => this.#logOf(entry)),
      clock,
      logger,
    })
  }

  async create(spec: InstanceSpec, options: CallOptions = {}): Promise<Instance> {
    throwIfAborted(options.signal)
    checkRef(spec.ref)
    await this.#open()
    throwIfAborted(options.signal)
    const key = keyOf(spec.ref)
    const existing = this.#entries.get(key)
    if (existing) {
      if (existing.record.uid === spec.uid && !existing.ending) return existing.starting ?? instanceOf(existing)
      throw new FleetError('conflict', `an earlier instance ${key} is still here`)
    }
    const { node, publicAddress: address } = this.#options
    // Not the clock's chance, which a test may repeat: it tells processes apart that are real.
    const nonce = randomBytes(16).toString('hex')
    const entry = newEntry({ version: 1, ref: spec.ref, uid: spec.uid, address, node, ports: [], nonce })
    this.#entries.set(key, entry)
    entry.starting = this.#start(entry, spec, nonce, options.signal)
    try {
      return await entry.starting
    } catch (error) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key)
      throw error
    } finally {
      delete entry.starting
    }
  }

  async destroy(ref: Ref, uid: string, options: DestroyOptions): Promise<void> {
    const { graceMs, signal } = options
    throwIfAborted(signal)
    if (!(graceMs >= 0)) throw new FleetError('invalid', `graceMs must be a number ≥ 0, but is ${shown(graceMs)}`)
    await this.#open()
    throwIfAborted(signal)
    const entry = this.#entries.get(keyOf(ref))
    if (!entry || entry.record.uid !== uid) return
    if (entry.ending) {
      entry.ending.ending.shorten(graceMs)
    } else {
      const ending = new Ending(this.#options.clock, graceMs)
      entry.ending = { ending, done: this.#end(entry, ending) }
    }
    await unlessAborted(entry.ending.done, signal)
  }

  async list(options: CallOptions = {}): Promise<readonly Instance[]> {
    throwIfAborted(options.signal)
    await this.#open()
    for (const entry of this.#entries.values()) this.#look(entry)
    return [...this.#entries.values()].map(instanceOf)
  }

  watch(listener: BackendListener): () => void {
    if (this.#closed) return () => {}
    const stop = this.#listeners.add(listener)
    // Whoever listens wants to hear of the instances of an earlier host too, and those have to be read first.
    void this.#open().then(
      () => this.#listeners.tell(listener, (told) => told.resync()),
      (error: unknown) => {
        if (this.#closed) return
        this.#options.logger.error({ err: error }, `instances cannot be watched: ${messageOf(error)}`)
      },
    )
    return stop
  }

  /** Also those of servers that have ended, as long as they are kept. */
  async *logs(ref: Ref, options: LogsOptions = {}): AsyncGenerator<string> {
    checkRef(ref)
    await this.#open()
    const isGrowing = () => {
      const entry = this.#closed ? undefined : this.#entries.get(keyOf(ref))
      return entry !== undefined && (entry.starting !== undefined || isRunning(entry))
    }
    const input = { path: this.#files.logOf(ref), server: keyOf(ref), isGrowing, clock: this.#options.clock }
    yield* readLog(input, options)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#cancelPoll?.()
    const entries = [...this.#entries.values()]
    for (const entry of entries) entry.ending?.ending.close()
    // What was begun comes to an end, for better or worse; each failure has reached the caller that it belongs to.
    await Promise.allSettled([this.#opening, ...entries.flatMap((entry) => [entry.starting, entry.ending?.done])])
    await Promise.allSettled(entries.map((entry) => entry.saving))
    await this.#logs.close()
  }

  /** Reads the directory, once. After a failure the next call tries again. */
  async #open(): Promise<void> {
    if (this.#closed) throw closed()
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = undefined
      throw this.#files.failure(error)
    })
    await this.#opening
    if (this.#closed) throw closed()
  }

  async #load(): Promise<void> {
    await this.#files.open()
    const { clock, logger } = this.#options
    for (const entry of await adoptAll({ files: this.#files, clock, logger })) {
      this.#entries.set(keyOf(entry.record.ref), entry)
      this.#look(entry)
    }
    this.#logs.watch()
    this.#logs.sweep()
    this.#poll()
  }

  async #start(entry: Entry, spec: InstanceSpec, nonce: string, signal: AbortSignal | undefined): Promise<Instance> {
    const { ref } = entry.record
    try {
      await this.#ports.take(spec.portsToExpose.length, entry.heldPorts)
      const ports = spec.portsToExpose.map((container, i) => ({ container, public: entry.heldPorts[i] ?? 0 }))
      entry.record = { ...entry.record, ports }
      await this.#files.prepare(ref, nonce)
      const { inheritEnv, clock } = this.#options
      const onExit = () => this.#look(entry)
      const input = { spec, record: entry.record, nonce, files: this.#files, inheritEnv, clock, onExit }
      const launch = await prepareLaunch(input)
      if (!launch.ok) return await this.#refuse(entry, launch.refused)
      // On disk first: whatever happens from here on, the next host knows that there may be a process.
      await this.#files.writeRecord(entry.record)
      throwIfAborted(signal)
      if (this.#closed) throw closed()
      const started = await launch.start()
      if ('refused' in started) return await this.#refuse(entry, started.refused)
      entry.process = started
    } catch (error) {
      await this.#files.remove(ref).catch((failure: unknown) => {
        // The next host finds a start that never was, and removes it.
        this.#options.logger.warn({ err: failure, ref }, 'the files of a failed creation could not be removed')
      })
      throw this.#files.failure(error)
    }
    if (entry.process.leader) entry.record = { ...entry.record, process: entry.process.leader }
    this.#save(entry)
    this.#logs.watch()
    this.#tellChanged(entry)
    return instanceOf(entry)
  }

  /** An instance that could not be run is kept, so that its reason can be read, but holds no port. */
  async #refuse(entry: Entry, exit: Exit): Promise<Instance> {
    const { nonce: _, ...record } = entry.record
    entry.record = { ...record, ports: [], exit }
    entry.heldPorts.length = 0
    await this.#files.writeRecord(entry.record)
    this.#tellChanged(entry)
    return instanceOf(entry)
  }

  async #end(entry: Entry, ending: Ending): Promise<void> {
    const { ref, uid } = entry.record
    try {
      // A creation that fails has removed what there was; its caller is told why.
      await entry.starting?.catch(() => {})
      if (this.#entries.get(keyOf(ref)) !== entry) return
      if (entry.process) await ending.run(entry.process)
      await entry.saving
      await this.#files.remove(ref)
    } catch (error) {
      // So that the next call tries again.
      delete entry.ending
      throw this.#files.failure(error)
    }
    await this.#logs.ended(this.#logOf(entry))
    this.#entries.delete(keyOf(ref))
    this.#logs.sweep()
    if (!this.#closed) this.#listeners.tellAll((listener) => listener.gone(ref, uid))
  }

  /** Takes note if this instance's game has ended. Never throws: what cannot be told now is told at the next look. */
  #look(entry: Entry): void {
    if (this.#closed) return
    entry.ending?.ending.wake()
    if (!entry.process || entry.record.exit) return
    try {
      const exit = entry.process.exit()
      if (exit) this.#noteExit(entry, exit)
      else if (entry.process.needsPolling) this.#poll()
    } catch (error) {
      this.#options.logger.warn(
        { err: error, ref: entry.record.ref },
        `an instance cannot be seen: ${messageOf(error)}`,
      )
      this.#poll()
    }
  }

  #noteExit(entry: Entry, exit: Exit): void {
    entry.record = { ...entry.record, exit }
    if (entry.ending) return
    this.#save(entry)
    this.#tellChanged(entry)
  }

  /** Looks from time to time at processes that are not this host's children, as long as there are any. */
  #poll(): void {
    if (this.#closed || this.#cancelPoll) return
    if (![...this.#entries.values()].some((entry) => entry.process?.needsPolling)) return
    this.#cancelPoll = this.#options.clock.after(this.#options.pollIntervalMs, () => {
      this.#cancelPoll = undefined
      for (const entry of this.#entries.values()) if (entry.process?.needsPolling) this.#look(entry)
      this.#poll()
    })
  }

  /** Writes the record after all earlier writes of it. A failure costs comfort only: the run's own files tell the same. */
  #save(entry: Entry): void {
    entry.saving = entry.saving
      .then(() => this.#files.writeRecord(entry.record))
      .catch((error: unknown) => {
        this.#options.logger.warn(
          { err: error, ref: entry.record.ref },
          'the record of an instance could not be written',
        )
      })
  }

  #tellChanged(entry: Entry): void {
    const instance = instanceOf(entry)
    this.#listeners.tellAll((listener) => listener.changed(instance))
  }

  #logOf(entry: Entry): string {
    return this.#files.logOf(entry.record.ref)
  }

  *#heldPorts(): Generator<number> {
    for (const entry of this.#entries.values()) yield* entry.heldPorts
  }
}

function closed(): FleetError {
  return new FleetError('closed', 'the process backend is closed')
}
