/**
 * Store: where builds, servers and details are kept. Each collection changes by compare-and-swap on an opaque
 * revision, so a writer never overwrites what it has not seen. Passes `storeConformance` of `gamekeeper/testing`.
 */
import type { Build, Detail, Ref, Server } from './rules/resources.js'

/** A record and the revision at which it was read or written. */
export interface Versioned<T> {
  readonly record: T
  /** Opaque; differs after every write of the record. */
  readonly revision: string
}

export interface StoreOptions {
  readonly signal?: AbortSignal
}

/**
 * Every call settles: a store that talks over a network bounds its own calls. A write that resolves is durable. One that rejects with `conflict` or `not-found` did not happen. After any other
 * rejection nobody knows whether it happened, or will: read back before acting on it.
 */
export interface Collection<T extends Ref> {
  get(ref: Ref, options?: StoreOptions): Promise<Versioned<T> | undefined>
  list(options?: StoreOptions): Promise<readonly Versioned<T>[]>
  /** Returns the first revision. Rejects with `conflict` when the name is taken. */
  create(record: T, options?: StoreOptions): Promise<string>
  /** Replaces the record if it is still at `revision`; returns the new one. Rejects with `conflict` or `not-found`. */
  update(record: T, revision: string, options?: StoreOptions): Promise<string>
  /** Removes the record if it is still at `revision`, else `conflict`; absent is success. */
  delete(ref: Ref, revision: string, options?: StoreOptions): Promise<void>
}

export interface Store {
  /** Other hosts write to it as well: it is read again at every resync. */
  readonly shared: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  readonly details: Collection<Detail>
  /** Lets go of files and connections. The records stay. */
  close(): Promise<void>
}
