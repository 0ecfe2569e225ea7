/**
 * Store: keeps the records of builds, servers and details. Every update is a compare-and-swap on an opaque revision, so a
 * writer never overwrites a change that it has not seen. Implementations pass `storeConformance` of `gamekeeper/testing`.
 */
import type { Build, Detail, Ref, Server } from '../rules/model/resources.js'
import type { GameServerBuild } from '../rules/model/wire.js'
import type { CallOptions } from './call-options.js'
import type { FleetEvent } from './events.js'

/** A record and the revision at which it was read or written. */
export interface Versioned<T> {
  readonly record: T
  /** Opaque and without order; differs after every write of the record. */
  readonly revision: string
}

/**
 * Every call must settle: a networked store sets timeouts for its own requests. A write that resolves is durable. A write
 * that rejects with `conflict` or `not-found` did not happen. After any other rejection the outcome is unknown, and the write
 * may still take effect later: read the record back before you act.
 */
export interface Collection<T extends Ref> {
  get(ref: Ref, options?: CallOptions): Promise<Versioned<T> | undefined>
  list(options?: CallOptions): Promise<readonly Versioned<T>[]>
  /** Resolves with the first revision. Rejects with `conflict` if the name is taken. */
  create(record: T, options?: CallOptions): Promise<string>
  /** Replaces the record if it is still at `revision`; resolves with the new one. Rejects with `conflict` or `not-found`. */
  update(record: T, revision: string, options?: CallOptions): Promise<string>
  /** Deletes the record if it is still at `revision`; otherwise rejects with `conflict`. Succeeds if there is none. */
  delete(ref: Ref, revision: string, options?: CallOptions): Promise<void>
}

/** Receives the changes of a collection. They are hints, may be late or repeated, and include this host's own writes. */
export interface CollectionListener<T extends Ref> {
  /**
   * A snapshot of the whole collection, or of one namespace: a record that is missing did not exist at that moment. Called at
   * the start of the watch, and whenever changes may have been lost.
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

/** Output for people who look into the store with other tools. Never awaited, never throws, never read back. */
export interface StoreDisplay {
  /** The parts of a build's status that its record lacks, such as counts. Each call replaces the one before. */
  build(ref: Ref, status: GameServerBuild['status']): void
  event(event: FleetEvent): void
}

export interface Store {
  /** True if other hosts and people write to it too. Then it is watched, or listed at every resync if it has no `watch`. */
  readonly shared: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  /** Player lists. */
  readonly details: Collection<Detail>
  /** Reports changes until the returned function is called. Never throws. */
  watch?(listener: StoreListener): () => void
  readonly display?: StoreDisplay
  /** Resolves if the store works, at the least possible cost: called every few seconds. Default: reads a build. */
  probe?(options?: CallOptions): Promise<void>
  /** Closes files and connections. The records stay. */
  close(): Promise<void>
}
