/** One collection in a file store, with its records stored as JSON. Touches lmdb. */
import type { Database } from 'lmdb'
import type { CallOptions } from '../contracts/call-options.js'
import { FleetError, throwIfAborted } from '../contracts/errors.js'
import type { Collection, StoreCheck, Versioned } from '../contracts/store.js'
import { keyOf, type Ref } from '../rules/model/resources.js'
import { shown } from '../rules/validation/problem.js'
import {
  alreadyExists,
  notFound,
  reasonOf,
  revisionConflict,
  storeClosed,
  storeDamaged,
  type CollectionName,
} from './failures.js'
import type { GroupWriter, Write } from './group-writer.js'
import { encode, jsonOf } from './integrity/checksums.js'

export interface StoreLife {
  readonly directory: string
  readonly closed: boolean
  /** Damage that has not been accepted yet. */
  readonly damage: StoreCheck | undefined
}

export class FileCollection<T extends Ref> implements Collection<T> {
  readonly #name: CollectionName
  readonly #writer: GroupWriter
  readonly #life: StoreLife

  constructor(name: CollectionName, writer: GroupWriter, life: StoreLife) {
    this.#name = name
    this.#writer = writer
    this.#life = life
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    this.#throwIfDone(options)
    const entry = this.#read((records) => records.getEntry(keyOf(ref)))
    return entry && this.#versioned(keyOf(ref), entry)
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    this.#throwIfDone(options)
    return this.#read((records) =>
      Array.from(records.getRange({ versions: true }), (entry) => this.#versioned(entry.key, entry)),
    )
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    const version = await this.#write(record, { value: encode(JSON.stringify(record)) }, options)
    if (version === undefined) throw alreadyExists(this.#name, record)
    return String(version)
  }

  async update(record: T, revision: string, options?: CallOptions): Promise<string> {
    const change = { value: encode(JSON.stringify(record)), ifVersion: versionOf(revision) }
    const version = await this.#write(record, change, options)
    if (version === undefined)
      throw this.#has(record) ? revisionConflict(this.#name, record) : notFound(this.#name, record)
    return String(version)
  }

  async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const version = await this.#write(ref, { ifVersion: versionOf(revision) }, options)
    if (version === undefined && this.#has(ref)) throw revisionConflict(this.#name, ref)
  }

  #write(ref: Ref, change: Change, options: CallOptions | undefined): Promise<number | undefined> {
    this.#throwIfDone(options)
    const key = keyOf(ref)
    if (Buffer.byteLength(key) > maxKeyBytes || key.includes('\0')) {
      throw new FleetError('invalid', `invalid record name ${shown(key)}: too long or with a NUL character`)
    }
    const signal = options?.signal
    return rejectOnAbort(this.#writer.write({ collection: this.#name, key, signal, ...change }), signal)
  }

  #has(ref: Ref): boolean {
    return this.#read((records) => records.doesExist(keyOf(ref)))
  }

  #read<R>(read: (records: Database<string, string>) => R): R {
    try {
      return read(this.#writer.environment.collections[this.#name])
    } catch (error) {
      if (FleetError.is(error)) throw error
      throw new FleetError('unavailable', `reading ${this.#name} failed: ${reasonOf(error)}`, { cause: error })
    }
  }

  #versioned(key: string, { value, version }: { readonly value: string; readonly version?: number }): Versioned<T> {
    try {
      const record: T = JSON.parse(jsonOf(key, version ?? 0, value))
      return { record, revision: String(version) }
    } catch (error) {
      throw new FleetError('unavailable', `${this.#name}: record ${key} is damaged: ${reasonOf(error)}`, {
        cause: error,
      })
    }
  }

  #throwIfDone(options: CallOptions | undefined): void {
    const { closed, damage, directory } = this.#life
    if (closed) throw storeClosed()
    if (damage) throw storeDamaged(directory, damage)
    throwIfAborted(options?.signal)
  }
}

type Change = Pick<Write, 'value' | 'ifVersion'>

/** lmdb allows 1978 bytes; valid names are much shorter. */
const maxKeyBytes = 1_024

/** Returns NaN, which matches no version, for a revision that this store did not issue. */
function versionOf(revision: string): number {
  return /^[1-9]\d{0,15}$/.test(revision) ? Number(revision) : Number.NaN
}

/** Rejects when the signal fires, even if the disk does not respond. */
function rejectOnAbort<R>(write: Promise<R>, signal: AbortSignal | undefined): Promise<R> {
  if (!signal) return write
  return new Promise((resolve, reject) => {
    const abort = () => {
      const message = 'the call was aborted by its signal; its write may still take effect'
      reject(new FleetError('aborted', message, { cause: signal.reason }))
    }
    signal.addEventListener('abort', abort, { once: true })
    const settled = () => signal.removeEventListener('abort', abort)
    write.then(resolve, reject).then(settled, settled)
  })
}
