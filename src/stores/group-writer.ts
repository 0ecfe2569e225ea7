/**
 * Writes to lmdb in groups: all that is asked for while one transaction is flushed shares the next one, so that a
 * thousand callers wait little longer than one. Touches the environment that it is given, with one thread at a time.
 *
 * A transaction that failed may leave lmdb's environment dead for good, and a write to a dead one would never return.
 * So no transaction starts before the one before it ended well, or the environment answered, or it was opened again.
 */
import type { Database } from 'lmdb'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FleetError } from '../contracts/errors.js'
import { release, type Collections, type Environment } from './environment.js'
import { reasonOf, type CollectionName } from './failures.js'
import type { DiskReserve } from './disk-reserve.js'

/** What happens to one record: a value and no version creates it, both replace it, a version alone removes it. */
export interface Write {
  readonly collection: CollectionName
  readonly key: string
  readonly value?: string
  /** The version that the record must have. */
  readonly ifVersion?: number
  /** A write whose signal fires before its turn is left out. */
  readonly signal: AbortSignal | undefined
}

export interface OpenEnvironment extends Environment {
  readonly collections: Collections
}

export interface GroupWriterOptions {
  readonly environment: OpenEnvironment
  /** Where the environment grows. The writer closes both. */
  readonly room: DiskReserve
  /** Every version ever given out is below or equal. */
  readonly lastVersion: number
  /** Opens the environment again, once the dead one is closed. */
  readonly reopen: () => Promise<OpenEnvironment>
}

interface Pending {
  readonly write: Write
  readonly resolve: (version: number | undefined) => void
  readonly reject: (error: unknown) => void
}

const maxGroup = 2_000
/** Versions are set aside in blocks, the block recorded with its first use, so that none is ever given out twice. */
const versionBlock = 1_000_000

export class GroupWriter {
  readonly #reopen: GroupWriterOptions['reopen']
  readonly #room: DiskReserve
  readonly #queue: Pending[] = []
  #environment: OpenEnvironment
  #state: 'open' | 'dead' | 'closed' = 'open'
  #running: Promise<void> | undefined
  #lastVersion: number
  #lastReserved: number

  constructor(options: GroupWriterOptions) {
    this.#environment = options.environment
    this.#reopen = options.reopen
    this.#room = options.room
    this.#lastVersion = options.lastVersion
    this.#lastReserved = options.lastVersion
  }

  /** Where to read. Throws `unavailable` while the database is dead, and sees to it that it is opened again. */
  get environment(): OpenEnvironment {
    if (this.#state === 'open') return this.#environment
    this.#running ??= this.#run()
    throw new FleetError('unavailable', 'the database is being opened again after a write that failed')
  }

  /** Resolves, once it is on the disk, to the record's new version; to undefined if the condition did not hold. */
  write(write: Write): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ write, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Writes what is left, lets the next process in, and closes the environment. */
  async close(): Promise<void> {
    await this.#running
    try {
      await this.#revive()
      release(this.#environment)
    } catch (error) {
      const message = `the store is closed, but its directory stays taken until this process ends: ${reasonOf(error)}`
      throw new FleetError('unavailable', message, { cause: error })
    } finally {
      this.#room.close()
      if (this.#state === 'open') await this.#environment.root.close()
    }
  }

  async #run(): Promise<void> {
    await this.#revive().catch(nobodyWaits)
    for (;;) {
      // Whoever asks in the same turn of the event loop shares the transaction.
      await nextTurn()
      if (this.#queue.length === 0) break
      const group = this.#queue.splice(0, maxGroup).filter(({ write }) => !write.signal?.aborted)
      try {
        await this.#revive()
        const writes = group.map(({ write }) => write)
        this.#queue.unshift(...group.splice(this.#room.make(this.#environment.root, writes)))
        if (group.length > 0) await this.#commit(group)
      } catch (error) {
        await this.#fail(group, error)
      }
    }
    this.#running = undefined
  }

  async #commit(group: readonly Pending[]): Promise<void> {
    const { root, about, collections } = this.#environment
    const firstVersion = this.#lastVersion + 1
    this.#lastVersion += group.length
    const reserved = this.#lastVersion > this.#lastReserved ? this.#lastVersion + versionBlock : this.#lastReserved

    let outcomes: Promise<boolean>[] = []
    const committed = root.batch(() => {
      outcomes = group.map(({ write }, i) => put(collections[write.collection], write, firstVersion + i))
      if (reserved !== this.#lastReserved) outcomes.push(about.put('versions', String(reserved)))
    })
    const [, ...written] = await Promise.all([committed, ...outcomes])

    this.#lastReserved = reserved
    for (const [i, { resolve }] of group.entries()) resolve(written[i] ? firstVersion + i : undefined)
  }

  async #revive(): Promise<void> {
    if (this.#state === 'dead') {
      await this.#environment.root.close()
      this.#state = 'closed'
    }
    if (this.#state === 'closed') {
      this.#environment = await this.#reopen()
      this.#state = 'open'
    }
  }

  /** Rejects last, so that whoever then reads back finds the environment open. */
  async #fail(group: readonly Pending[], error: unknown): Promise<void> {
    const cause = await causeOf(error)
    if (this.#state === 'open' && !answers(this.#environment)) this.#state = 'dead'
    await this.#revive().catch(nobodyWaits)
    for (const { write, reject } of group) {
      const message = `writing ${write.key} to ${write.collection} failed: ${reasonOf(cause)}`
      reject(new FleetError('unavailable', message, { cause }))
    }
  }
}

function put(database: Database<string, string>, write: Write, version: number): Promise<boolean> {
  const { key, value, ifVersion } = write
  if (ifVersion === undefined) {
    return database.ifNoExists(key, () => {
      // Settles with the condition around it.
      void database.put(key, value ?? '', version)
    })
  }
  return value === undefined ? database.remove(key, ifVersion) : database.put(key, value, version, ifVersion)
}

/** lmdb rejects with "see commitError", a promise that rejects with what the system said, in the same turn. */
async function causeOf(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error
  return Promise.race([Promise.resolve(error.commitError).catch((cause: unknown) => cause), nextTurn(error)])
}

/** Whoever reads or writes next tries again, and is told if it fails again. */
function nobodyWaits(): void {}

/** True when a transaction can be begun. It is empty, so nothing is written. */
function answers({ root }: Environment): boolean {
  try {
    root.transactionSync(() => undefined)
    return true
  } catch {
    // Why it does not is of no use: it is opened again either way.
    return false
  }
}
