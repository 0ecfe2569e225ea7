/**
 * Store: keeps the records of builds, servers, details and demand. Every update is a compare-and-swap on an opaque revision, so a
 * writer never overwrites a change that it has not seen. Implementations must pass `storeConformance` from
 * `gamekeeper/testing`.
 */
import type { Build, BuildSpec, Detail, Ref, Server } from '../rules/model/resources.js'
import type { BuildReadiness } from '../rules/model/build-status.js'
import type { DemandRecord } from '../rules/demand/demand-day.js'
import type { GameServerBuild } from '../rules/model/wire.js'
import type { CallOptions } from './call-options.js'
import type { FleetEvent } from './events.js'
import type { AllocateRequested } from './sessions.js'

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

/** Receives the changes to a collection, including this host's own writes. They may be late or repeated. */
export interface CollectionListener<T extends Ref> {
  /**
   * Delivers a snapshot of the whole collection, or of one namespace. A record that is missing from it did not exist when it
   * was taken. Called when the watch starts, and whenever changes may have been lost. May be older than what this store has
   * already returned.
   */
  listed(all: readonly Versioned<T>[], namespace?: string): void
  /**
   * A record was created or updated. Never goes back: while the record exists, this version of it is no older than any that
   * this store has returned from a call or reported here. The engine therefore uses it without reading the record again.
   */
  changed(found: Versioned<T>): void
  /** A record was deleted. Its name may have been used again since. */
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
/** Whether a build has the servers that it should have, and the spec for which this was found. */
export interface DisplayedReadiness extends BuildReadiness {
  readonly spec: BuildSpec
}

export interface StoreDisplay {
  /**
   * Displays the parts of a build's status that its record does not contain, such as counts. Each call replaces the previous
   * status.
   */
  build(ref: Ref, status: GameServerBuild['status'], readiness: DisplayedReadiness): void
  /** Displays why a server is still Pending, until it no longer is. Undefined: no reason is known any more. */
  server?(ref: Ref, message: string | undefined): void
  event(event: FleetEvent): void
}

export type RecordKind = 'build' | 'server' | 'detail' | 'demand'

/** A record that cannot be used. */
export interface DamagedRecord {
  readonly kind: RecordKind
  /** `<namespace>/<name>`. If the name itself is damaged, what is left of it. */
  readonly key: string
  /** What is wrong with it, such as "its checksum does not match". */
  readonly problem: string
}

/** The state of a store's records. */
export interface StoreCheck {
  /** True if every record that was ever stored and not deleted is there, undamaged and in its newest version. */
  readonly isWhole: boolean
  /** What is wrong, as sentences that name the damaged records. Empty if the store is whole. */
  readonly problems: readonly string[]
  readonly damaged: readonly DamagedRecord[]
  /** The kinds of which records are damaged, missing, or older than they should be. */
  readonly affected: readonly RecordKind[]
  /** How many of the newest writes are missing: the data were replaced by an older copy, or damage has hidden the newest ones. */
  readonly lostWrites: number
  /** Number of usable records. */
  readonly records: Readonly<Record<RecordKind, number>>
}

/** Returns builds that replace lost ones, given all builds and servers that are not damaged. Called once, synchronously. */
export type ReplaceLost = (builds: readonly Build[], servers: readonly Server[]) => readonly Build[]

export interface Store {
  /**
   * True if other hosts or people also write to this store. The engine then watches it, or lists it at every resync if it
   * has no `watch`.
   */
  readonly shared: boolean
  /** True if nothing had ever been written to the store when it was opened. Absent if that is not known. */
  readonly isNew?: boolean
  readonly builds: Collection<Build>
  readonly servers: Collection<Server>
  /** The players connected to each server. */
  readonly details: Collection<Detail>
  /** The demand for each build, by day. Absent: demand is not recorded, and policies that need it ask for nothing. */
  readonly demand?: Collection<DemandRecord>
  /** Reports changes until the returned function is called. Never throws. */
  watch?(listener: StoreListener): () => void
  readonly display?: StoreDisplay
  /**
   * Has the allocations carried out that are requested through the store, and reports their outcomes there, until the returned function is
   * called. Called on the host that leads. The same request may be carried out again, always with the same sessionID. Never throws. Absent
   * if allocations are not requested through the store.
   */
  serveAllocations?(allocate: AllocateRequested): () => void
  /**
   * A key of 32 bytes that only hosts of this store can compute, and that differs for each purpose. Hosts prove themselves to each other
   * by it. Undefined while the secret is not known. Absent if the store keeps none.
   */
  deriveKey?(purpose: string): Uint8Array | undefined
  /** Resolves if the store works. Called every few seconds, so it should be as cheap as possible. Default: reads a build. */
  probe?(options?: CallOptions): Promise<void>
  /**
   * Copies the records, as they are at one moment, to a directory from which a store can be opened. The store stays in use. The copy
   * appears there whole or not at all. Rejects with `invalid` if the directory is not empty, and with `directory-unusable` if it
   * cannot be written. Absent if the store has no files, such as the Kubernetes store.
   */
  backup?(directory: string): Promise<void>
  /**
   * What was found damaged or missing when the store was opened. The store's calls are rejected with `directory-unusable` until
   * `acceptDamage` has been called. Absent if the store is whole.
   */
  readonly damage?: StoreCheck | undefined
  /**
   * Removes the damaged records, so that the others can be used, and in the same transaction adds the builds that `replace` returns.
   * Absent if the store does not check its records.
   */
  acceptDamage?(replace?: ReplaceLost): Promise<void>
  /** Checks every record while the store stays in use. Absent if the store has no files, such as the Kubernetes store. */
  check?(): Promise<StoreCheck>
  /** Closes files and connections. The records are kept. */
  close(): Promise<void>
}

/** The fleet's store, as far as a host app needs it. */
export interface FleetStore {
  /**
   * Copies the store to a directory while the fleet keeps running. A fleet can be started from the copy later. `directory` must be
   * empty or missing. The copy contains every change that was durable when the call was made. Throws `invalid` if the
   * directory is not empty, `directory-unusable` if it cannot be written, `unavailable` while the store does not work, `closed`, and
   * `unsupported` if the store has no files of its own: the Kubernetes store is backed up with its cluster.
   */
  backup(directory: string): Promise<void>
  /**
   * Reads every record of the store while the fleet keeps running, and returns what is damaged or missing, by name. Takes about a
   * second for 100,000 records, in slices. Throws `unavailable` while the store does not work, `closed`, and `unsupported` if the store
   * has no files of its own.
   */
  check(): Promise<StoreCheck>
}
