/** One instance on this host: its record on disk, its process, and the ports it holds. */
import type { Instance } from '../../src/contracts/backend.js'
import type { Logger } from '../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../src/rules/model/resources.js'
import type { InstanceFiles } from './files/instance-files.js'
import type { GameProcess } from './run/game-process.js'
import type { InstanceRecord } from './files/record.js'

export class ManagedInstance {
  record: InstanceRecord
  /** A port is added as soon as it is picked, before it appears in the record. */
  readonly heldPorts: number[]
  process: GameProcess | undefined
  #saved: Promise<void> = Promise.resolve()

  constructor(record: InstanceRecord, process?: GameProcess) {
    this.record = record
    this.process = process
    this.heldPorts = record.ports.map((port) => port.public)
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
    const base = { ref, uid, address, node, ports, ...(origin && { origin }) }
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
