/**
 * Store: keeps the records of builds, servers and details. Every update is a compare-and-swap on an opaque revision, so a
 * writer never overwrites a change that it has not seen. Implementations must pass `storeConformance` from
 * `gamekeeper/testing`.
 */
import type { Build, Detail, Ref, Server } from '../rules/model/resources.js'
import type { GameServerBuild } from '../rules/model/wire.js'
import type { CallOptions } from './call-options.js'
import type { FleetEvent } from './events.js'

/** A record and the revision at which it was read or written. */
export interface Versioned<T> {
  readonly record: T
  /** Opaque and unordered. Every write of the record produces a different one. */
  readonly revision: string
}

/**
 * Every call must settle, so a networked store must set timeouts for its own requests. A write that resolves is durable. A
 * write that rejects with `conflict` or `not-found` did not happen. After any other rejection the outcome is unknown, and
 * the write may still take effect later: read the record back before you act.
 */
export interface Collection<T extends Ref> {
  get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined>
  list(options?: CallOptions): Promise<readonly Versioned<T>[]>
  /** Creates the record and resolves with its revision. Rejects with `conflict` if the name is taken. */
  create(record: T, options?: CallOptions): Promise<string>
  /**
   * Replaces the record if it is still at `revision`, and resolves with the new revision. Otherwise rejects with `conflict`
   * or `not-found`.
   */
  update(record: T, revision: string, options?: CallOptions): Promise<string>
  /**
   * Deletes the record if it is still at `revision`; otherwise rejects with `conflict`. Succeeds if the record does not
   * exist.
   */
  delete(ref: Ref, revision: string, options?: CallOptions): Promise<void>
}

/**
 * Receives the changes to a collection. These are only hints: they may be late or repeated, and include this host's own
 * writes.
 */
export interface CollectionListener<T extends Ref> {
  /**
   * Delivers a snapshot of the whole collection, or of one namespace. A record that is missing from it did not exist when it
   * was taken. Called when the watch starts, and whenever changes may have been lost.
   */
  listed(all: readonly Versioned<T>[], namespace?: string): void
  /** A record was created or updated. */
  changed(found: Versioned<T>): void
  /** A record was deleted. */
  gone(ref: Ref): void
}

export interface StoreListener {
  readonly builds: CollectionListener<Build>
  readonly servers: CollectionListener<Server>
}

/**
 * Output for people who inspect the store with other tools. The calls are not awaited and must not throw, and the engine
 * never reads the output back.
 */
export interface StoreDisplay {
  /**
   * Displays the parts of a build's status that its record does not contain, such as counts. Each call replaces the previous
   * status.
   */
  build(ref: Ref, status: GameServerBuild['status']): void
  event(event: FleetEvent): void
}

export interface Store {
  /**
   * True if other hosts or people also write to this store. The engine then watches it, or lists it at every resync if it
   * has no `watch`.
   */
  readonly shared: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  /** The players connected to each server. */
  readonly details: Collection<Detail>
  /** Reports changes until the returned function is called. Never throws. */
  watch?(listener: StoreListener): () => void
  readonly display?: StoreDisplay
  /** Resolves if the store works. Called every few seconds, so it should be as cheap as possible. Default: reads a build. */
  probe?(options?: CallOptions): Promise<void>
  /** Closes files and connections. The records are kept. */
  close(): Promise<void>
}
