/**
 * A store in the memory of its process, for the memory backend and for unit tests.
 *
 * Every call does its work synchronously. Records are not copied: their types are readonly, and copying would cost more than
 * the write.
 */
import type { CallOptions } from '../contracts/call-options.js'
import { throwIfAborted } from '../contracts/errors.js'
import type { Collection, Store, Versioned } from '../contracts/store.js'
import type { DemandRecord } from '../rules/demand/demand-day.js'
import type { Build, Detail, Ref, Server } from '../rules/model/resources.js'
import {
  alreadyExists,
  type CollectionName,
  recordNotFound,
  revisionConflict,
  storeClosed,
} from './lmdb-environment.js'

export function memoryStore(): Store {
  const life = { closed: false }
  return Object.freeze({
    shared: false,
    builds: new MemoryCollection<Build>('builds', life),
    servers: new MemoryCollection<Server>('servers', life),
    details: new MemoryCollection<Detail>('details', life),
    demand: new MemoryCollection<DemandRecord>('demand', life),
    close() {
      life.closed = true
      return Promise.resolve()
    },
  })
}

class MemoryCollection<T extends Ref> implements Collection<T> {
  readonly #name: CollectionName
  readonly #life: { readonly closed: boolean }
  /** Records by namespace, then by name: two lookups are faster than building a combined key. */
  readonly #namespaces = new Map<string, Map<string, Versioned<T>>>()
  /** Never reset, so that the revision of a deleted record never matches a later record with the same name. */
  #lastRevision = 0

  constructor(name: CollectionName, life: { readonly closed: boolean }) {
    this.#name = name
    this.#life = life
  }

  async get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined> {
    this.#throwIfDone(options)
    return this.#namespaces.get(ref.namespace)?.get(ref.name)
  }

  async list(options?: CallOptions): Promise<readonly Versioned<T>[]> {
    this.#throwIfDone(options)
    const all: Versioned<T>[] = []
    for (const records of this.#namespaces.values()) {
      for (const versioned of records.values()) all.push(versioned)
    }
    return all
  }

  async create(record: T, options?: CallOptions): Promise<string> {
    this.#throwIfDone(options)
    const records = this.#recordsIn(record.namespace)
    if (records.has(record.name)) throw alreadyExists(this.#name, record)
    return this.#write(records, record)
  }

  /** Every allocation comes here, and an async function would cost more than the write. */
  update(record: T, revision: string, options?: CallOptions): Promise<string> {
    try {
      this.#throwIfDone(options)
      const records = this.#recordsIn(record.namespace)
      const present = records.get(record.name)
      if (present === undefined) throw recordNotFound(this.#name, record)
      if (present.revision !== revision) throw revisionConflict(this.#name, record)
      return Promise.resolve(this.#write(records, record))
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async delete(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    this.#throwIfDone(options)
    const records = this.#recordsIn(ref.namespace)
    const present = records.get(ref.name)
    if (present === undefined) return
    if (present.revision !== revision) throw revisionConflict(this.#name, ref)
    records.delete(ref.name)
  }

  #recordsIn(namespace: string): Map<string, Versioned<T>> {
    let records = this.#namespaces.get(namespace)
    if (records === undefined) {
      records = new Map()
      this.#namespaces.set(namespace, records)
    }
    return records
  }

  #write(records: Map<string, Versioned<T>>, record: T): string {
    const revision = String(++this.#lastRevision)
    records.set(record.name, { record, revision })
    return revision
  }

  #throwIfDone(options: CallOptions | undefined): void {
    if (this.#life.closed) throw storeClosed()
    throwIfAborted(options?.signal)
  }
}
