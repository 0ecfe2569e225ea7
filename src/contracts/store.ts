/**
 * Store: where builds, servers and details are kept. Each collection changes by compare-and-swap on an opaque
 * revision, so a writer never overwrites what it has not seen. Passes `storeConformance` of `gamekeeper/testing`.
 */
import type { CallOptions } from './call-options.js'
import type { FleetEvent } from './events.js'
import type { Build, Detail, Ref, Server } from '../rules/model/resources.js'
import type { GameServerBuild } from '../rules/model/wire.js'

/** A record and the revision at which it was read or written. */
export interface Versioned<T> {
  readonly record: T
  /** Opaque; differs after every write of the record. */
  readonly revision: string
}

/**
 * Every call settles: a store that talks over a network bounds its own calls. A write that resolves is durable. One that rejects with `conflict` or `not-found` did not happen. After any other
 * rejection nobody knows whether it happened, or will: read back before acting on it.
 */
export interface Collection<T extends Ref> {
  get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined>
  list(options?: CallOptions): Promise<readonly Versioned<T>[]>
  /** Returns the first revision. Rejects with `conflict` when the name is taken. */
  create(record: T, options?: CallOptions): Promise<string>
  /** Replaces the record if it is still at `revision`; returns the new one. Rejects with `conflict` or `not-found`. */
  update(record: T, revision: string, options?: CallOptions): Promise<string>
  /** Removes the record if it is still at `revision`, else `conflict`; absent is success. */
  delete(ref: Ref, revision: string, options?: CallOptions): Promise<void>
}

/** Hears what becomes of a collection. Hints: they may come late or twice, and tell of this host's own writes as well. */
export interface CollectionListener<T extends Ref> {
  /**
   * All there is at one moment, or all of one namespace: what is not among it was gone then. At the start, and when changes
   * may have been missed.
   */
  listed(all: readonly Versioned<T>[], namespace?: string): void
  /** New, or written again. */
  changed(found: Versioned<T>): void
  gone(ref: Ref): void
}

export interface StoreListener {
  readonly builds: CollectionListener<Build>
  readonly servers: CollectionListener<Server>
}

/** For people who look into the store with tools of their own. Nothing here is awaited, throws, or is ever read back. */
export interface StoreDisplay {
  /** What a build's status says besides its record: counts and the like. The latest is what counts. */
  build(ref: Ref, status: GameServerBuild['status']): void
  event(event: FleetEvent): void
}

export interface Store {
  /** Other hosts and people write to it as well: it is watched, or where it cannot be, read again at every resync. */
  readonly shared: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  readonly details: Collection<Detail>
  /** Tells the listener of changes until the returned function is called. Never throws. */
  watch?(listener: StoreListener): () => void
  readonly display?: StoreDisplay
  /** Resolves when it can be relied on now, at the least cost: asked every few seconds. Default: reads a build. */
  probe?(options?: CallOptions): Promise<void>
  /** Lets go of files and connections. The records stay. */
  close(): Promise<void>
}
