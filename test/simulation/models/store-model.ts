/** Models a store that outlives the hosts: maps with compare-and-swap, accessed through calls that can fail in every way. */
import { FleetError } from '../../../src/contracts/errors.js'
import type { Collection, Store, StoreListener as WatchListener, Versioned } from '../../../src/contracts/store.js'
import { type Build, type Detail, keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'
import { AllocationTracker } from './allocation-tracker.js'
import { JournalModel } from './journal-model.js'
import { remoteCall, type RemoteCallOptions } from './remote-call.js'
import { StoreWatches } from './store-watches.js'
import type { StoredServer, TestedJournal } from './tested-journal.js'

/** Called synchronously when a change becomes durable. */
export interface StoreListener {
  buildWritten(before: Build | undefined, after: Build): void
  buildRemoved(before: Build): void
  detailWritten(after: Detail): void
  detailRemoved(before: Detail): void
  /** `late`: whether this is a call by a former leader that took effect after its term. */
  serverWritten(before: Server | undefined, after: Server, late: boolean): void
  /** `external`: whether the record was removed by something other than a host. */
  serverRemoved(before: Server, external: boolean): void
}

/** `private`: only one host uses the store. `shared`: others write to it too. `watched`: shared, and the hosts watch it. */
export type StoreSharing = 'private' | 'shared' | 'watched'

interface CollectionHooks<T> {
  written(before: T | undefined, after: T, late: boolean): void
  removed(before: T): void
  /** The kind under which watches report changes; undefined for records that are not watched. */
  readonly kind?: 'builds' | 'servers'
}

export class StoreModel {
  readonly builds = new Map<string, Versioned<Build>>()
  readonly servers = new Map<string, Versioned<Server>>()
  readonly details = new Map<string, Versioned<Detail>>()
  readonly allocations: AllocationTracker
  readonly watches: StoreWatches
  /** If several allocations share a write. */
  readonly journal: JournalModel | undefined
  /** Number of all calls so far. */
  calls = 0
  /** Number of write calls so far. */
  changes = 0
  #unavailableUntil = 0
  #dropsRepliesUntil = 0
  #revision = 0

  constructor(
    readonly world: World,
    readonly faultRate: number,
    readonly latencyMs: readonly [number, number],
    readonly sharing: StoreSharing,
    readonly listener: StoreListener,
    tested?: TestedJournal,
  ) {
    this.allocations = new AllocationTracker(world)
    this.journal = tested && this.#withJournal(tested)
    this.watches = new StoreWatches(world, this)
  }

  /** The records of servers as watches report them. */
  get objects(): ReadonlyMap<string, Versioned<Server>> {
    return this.journal?.objects ?? this.servers
  }

  listMs(): number {
    return this.journal?.listMs() ?? this.world.between(0, 200)
  }

  get shared(): boolean {
    return this.sharing !== 'private'
  }

  get watched(): boolean {
    return this.sharing === 'watched'
  }

  get unavailable(): boolean {
    return this.world.elapsedMs < this.#unavailableUntil
  }

  get dropsReplies(): boolean {
    return this.world.elapsedMs < this.#dropsRepliesUntil
  }

  makeUnavailable(ms: number): void {
    this.#unavailableUntil = this.world.elapsedMs + ms
  }

  /** For `ms`, applies all calls but loses their replies, like a connection that is broken in one direction. */
  dropReplies(ms: number): void {
    this.#dropsRepliesUntil = this.world.elapsedMs + ms
  }

  /** The highest revision so far. Each write gets a higher revision than the one before. */
  get latestRevision(): number {
    return this.#revision
  }

  /** Returns the store as one host sees it. */
  for(host: Host): Store {
    const { listener, faultRate, latencyMs, shared } = this
    const options: RemoteCallOptions = {
      of: 'store',
      isUnavailable: () => this.unavailable,
      dropsReplies: () => this.dropsReplies,
      latencyMs,
      faultRate,
      remote: shared,
    }
    const journaled = this.journal?.for(host, options)
    const servers =
      journaled?.servers ??
      this.#collection(this.servers, host, options, {
        written: (before, after, late) => listener.serverWritten(before, after, late),
        removed: (before) => listener.serverRemoved(before, false),
        kind: 'servers',
      })
    const watching = journaled?.watching ?? ((watchListener: WatchListener) => watchListener)
    return {
      shared,
      builds: this.#collection(this.builds, host, options, {
        written: (before, after) => listener.buildWritten(before, after),
        removed: (before) => listener.buildRemoved(before),
        kind: 'builds',
      }),
      servers: this.allocations.track(host, servers, (ref) => this.servers.get(keyOf(ref))?.record),
      details: this.#collection(this.details, host, options, {
        written: (_before, after) => listener.detailWritten(after),
        removed: (before) => listener.detailRemoved(before),
      }),
      ...(this.watched && { watch: (watchListener) => this.watches.open(host, watching(watchListener)) }),
      close: () => Promise.resolve(),
    }
  }

  /** Rewrites a random record unchanged, as when a label is changed externally. Returns the record's key. */
  rewriteRecord(): string | undefined {
    const { world, builds, servers, details } = this
    const records = world.oneOf<Map<string, Versioned<Ref>>>([builds, servers, servers, details])
    const key = world.oneOf([...(records?.keys() ?? [])])
    const current = key === undefined ? undefined : records?.get(key)
    if (!records || key === undefined || !current) return undefined
    if (records === servers && this.journal) {
      this.journal.touch(key)
      return key
    }
    records.set(key, { record: current.record, revision: this.#nextRevision() })
    if (records === builds) this.watches.changed('builds', current.record)
    else if (records === servers) this.watches.changed('servers', current.record)
    return key
  }

  /** Creates or updates a build as an external edit, not through a host. */
  writeBuild(record: Build): void {
    const key = keyOf(record)
    const before = this.builds.get(key)?.record
    this.builds.set(key, { record, revision: this.#nextRevision() })
    this.watches.changed('builds', record)
    this.listener.buildWritten(before, record)
  }

  /** Deletes a build as an external edit, not through a host. */
  removeBuild(record: Build): void {
    if (!this.builds.delete(keyOf(record))) return
    this.#nextRevision()
    this.watches.changed('builds', record)
    this.listener.buildRemoved(record)
  }

  /** Deletes a server record as an external edit, not through a host. */
  removeServer({ namespace, name }: Ref): void {
    const current = this.servers.get(keyOf({ namespace, name }))
    if (!current) return
    this.servers.delete(keyOf(current.record))
    this.journal?.remove(keyOf(current.record))
    this.#nextRevision()
    this.watches.changed('servers', current.record)
    this.listener.serverRemoved(current.record, true)
  }

  #withJournal(tested: TestedJournal): JournalModel {
    const { listener, servers } = this
    return new JournalModel(this.world, tested, {
      servers,
      nextRevision: () => this.#nextRevision(),
      changed: (ref) => this.watches.changed('servers', ref),
      received: (host, { record, revision }: StoredServer) => this.watches.seen(host, 'servers', record, revision),
      counted: (isChange) => {
        if (isChange) this.changes++
        else this.calls++
      },
      written: (before, after, late) => listener.serverWritten(before, after, late),
      removed: (before) => listener.serverRemoved(before, false),
    })
  }

  #nextRevision(): string {
    return String(++this.#revision)
  }

  #collection<T extends Ref>(
    records: Map<string, Versioned<T>>,
    host: Host,
    options: RemoteCallOptions,
    hooks: CollectionHooks<T>,
  ): Collection<T> {
    const { world } = this
    const { kind } = hooks
    const seen = (found: Versioned<T> | undefined) => {
      if (kind && found) this.watches.seen(host, kind, found.record, found.revision)
    }
    const request = <R>(effect: () => R, replied: (result: R) => void) => {
      this.calls++
      const reply = remoteCall(world, host, options, effect)
      // Subscribes before the caller does, so that this runs before the caller continues.
      reply.then(replied, () => {})
      return reply
    }
    const markNews = () => {
      host.hasNews = true
    }
    /** Even without an event, the reply may tell the host about an external edit to a build. */
    const mayLearn = <R>(reply: Promise<R>) => {
      if (this.watched && kind === 'builds') void reply.then(markNews, markNews)
      return reply
    }
    const read = <R>(effect: () => R, replied: (result: R) => void) => mayLearn(request(effect, replied))
    const change = <R>(effect: () => R, replied: (result: R) => void) => {
      host.beforeChange('store')
      this.changes++
      return mayLearn(request(effect, replied))
    }
    const write = (record: T, effect: () => string) => change(effect, (revision) => seen({ record, revision }))
    const put = (record: T, before: T | undefined) => {
      const revision = this.#nextRevision()
      records.set(keyOf(record), { record, revision })
      if (kind) this.watches.changed(kind, record)
      hooks.written(before, record, !host.mayWrite)
      return revision
    }
    return {
      get: (ref) => read(() => records.get(keyOf(ref)), seen),
      list: () =>
        read(
          () => [...records.values()],
          (all) => all.forEach(seen),
        ),
      create: (record) =>
        write(record, () => {
          if (records.has(keyOf(record))) throw new FleetError('conflict', `${keyOf(record)} exists`)
          return put(record, undefined)
        }),
      update: (record, expected) =>
        write(record, () => {
          const current = records.get(keyOf(record))
          if (!current) throw new FleetError('not-found', `${keyOf(record)} is gone`)
          if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(record)} has changed`)
          return put(record, current.record)
        }),
      delete: (ref, expected) =>
        change(
          () => {
            const current = records.get(keyOf(ref))
            if (!current) return
            if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(ref)} has changed`)
            records.delete(keyOf(ref))
            if (kind) this.watches.changed(kind, ref)
            hooks.removed(current.record)
          },
          () => {},
        ),
    }
  }
}
