/** The model of a store that outlives hosts: compare-and-swap over maps, behind calls that can fail in every way. */
import { FleetError } from '../../contracts/errors.js'
import { type Build, type Detail, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { Collection, Store, Versioned } from '../../contracts/store.js'
import { call, type CallOptions } from './calls.js'
import { Handing } from './handing.js'
import type { Host } from './host.js'
import { StoreWatches } from './store-watches.js'
import type { World } from './world.js'

/** Hears of every change in the instant in which it is durable. */
export interface StoreListener {
  buildWritten(before: Build | undefined, after: Build): void
  buildRemoved(before: Build): void
  /** `late`: by a host that led no more, which had asked for it while it still did. */
  serverWritten(before: Server | undefined, after: Server, late: boolean): void
  /** `byHand`: past every host. */
  serverRemoved(before: Server, byHand: boolean): void
}

/** Who else is at it: nobody, other hosts and people, or such as every host is told of. */
export type Sharing = 'own' | 'shared' | 'watched'

interface Hooks<T> {
  written(before: T | undefined, after: T, late: boolean): void
  removed(before: T): void
  /** Of these, hosts that watch are told. */
  readonly kind?: 'builds' | 'servers'
}

export class StoreModel {
  readonly builds = new Map<string, Versioned<Build>>()
  readonly servers = new Map<string, Versioned<Server>>()
  readonly details = new Map<string, Versioned<Detail>>()
  readonly handing: Handing
  /** Of hosts that are told of what changes. */
  readonly watches: StoreWatches
  /** Calls so far. */
  calls = 0
  /** Those of them that were to change something. */
  changes = 0
  #awayUntil = 0
  #muteUntil = 0
  #revision = 0

  constructor(
    readonly world: World,
    readonly faultiness: number,
    readonly latencyMs: readonly [number, number],
    readonly sharing: Sharing,
    readonly listener: StoreListener,
  ) {
    this.handing = new Handing(world)
    this.watches = new StoreWatches(world, this)
  }

  /** Others write to it as well. */
  get shared(): boolean {
    return this.sharing !== 'own'
  }

  get watched(): boolean {
    return this.sharing === 'watched'
  }

  get away(): boolean {
    return this.world.elapsedMs < this.#awayUntil
  }

  get mute(): boolean {
    return this.world.elapsedMs < this.#muteUntil
  }

  goAway(ms: number): void {
    this.#awayUntil = this.world.elapsedMs + ms
  }

  /** Takes all calls and answers none for a while, as over a connection that is broken one way. */
  goMute(ms: number): void {
    this.#muteUntil = this.world.elapsedMs + ms
  }

  /** Revisions are numbers that grow: whatever has a lower one than this was there before. */
  get newest(): number {
    return this.#revision
  }

  /** The store as one host reaches it. */
  for(host: Host): Store {
    const { listener, faultiness, latencyMs, shared } = this
    const options: CallOptions = {
      of: 'store',
      away: () => this.away,
      mute: () => this.mute,
      latencyMs,
      faultiness,
      far: shared,
    }
    const servers = this.#collection(this.servers, host, options, {
      written: (before, after, late) => listener.serverWritten(before, after, late),
      removed: (before) => listener.serverRemoved(before, false),
      kind: 'servers',
    })
    return {
      shared,
      builds: this.#collection(this.builds, host, options, {
        written: (before, after) => listener.buildWritten(before, after),
        removed: (before) => listener.buildRemoved(before),
        kind: 'builds',
      }),
      servers: this.handing.watched(host, servers, (ref) => this.servers.get(keyOf(ref))?.record),
      details: this.#collection(this.details, host, options, { written: () => {}, removed: () => {} }),
      ...(this.watched && { watch: (heard) => this.watches.open(host, heard) }),
      close: () => Promise.resolve(),
    }
  }

  /** An outside hand writes a record again as it is, as a label set by hand would. */
  touch(): string | undefined {
    const { world, builds, servers, details } = this
    const records = world.oneOf<Map<string, Versioned<Ref>>>([builds, servers, servers, details])
    const key = world.oneOf([...(records?.keys() ?? [])])
    const there = key === undefined ? undefined : records?.get(key)
    if (!records || key === undefined || !there) return undefined
    records.set(key, { record: there.record, revision: this.#next() })
    if (records === builds) this.watches.told('builds', there.record)
    else if (records === servers) this.watches.told('servers', there.record)
    return key
  }

  /** An outside hand creates a build or changes what one asks for, past every host. */
  writeBuild(record: Build): void {
    const key = keyOf(record)
    const before = this.builds.get(key)?.record
    this.builds.set(key, { record, revision: this.#next() })
    this.watches.told('builds', record)
    this.listener.buildWritten(before, record)
  }

  /** An outside hand deletes a build, past every host. */
  removeBuild(record: Build): void {
    if (!this.builds.delete(keyOf(record))) return
    this.#next()
    this.watches.told('builds', record)
    this.listener.buildRemoved(record)
  }

  /** An outside hand deletes the record of a server, past every host. */
  removeServer({ namespace, name }: Ref): void {
    const there = this.servers.get(keyOf({ namespace, name }))
    if (!there) return
    this.servers.delete(keyOf(there.record))
    this.#next()
    this.watches.told('servers', there.record)
    this.listener.serverRemoved(there.record, true)
  }

  #next(): string {
    return String(++this.#revision)
  }

  #collection<T extends Ref>(
    records: Map<string, Versioned<T>>,
    host: Host,
    options: CallOptions,
    hooks: Hooks<T>,
  ): Collection<T> {
    const { world } = this
    const ask = <R>(effect: () => R) => {
      this.calls++
      return call(world, host, options, effect)
    }
    const stir = () => {
      host.stirred = true
    }
    /** Of a build that was written by hand it may know from now on, and tell nobody: also by a write of its own upon that. */
    const learns = <R>(answer: Promise<R>) => {
      if (this.watched && hooks.kind === 'builds') void answer.then(stir, stir)
      return answer
    }
    const read = <R>(effect: () => R) => learns(ask(effect))
    const change = <R>(effect: () => R) => {
      host.acts('store')
      this.changes++
      return learns(ask(effect))
    }
    const put = (record: T, before: T | undefined) => {
      const revision = this.#next()
      records.set(keyOf(record), { record, revision })
      if (hooks.kind) this.watches.told(hooks.kind, record)
      hooks.written(before, record, !(host.alive && host.leads))
      return revision
    }
    return {
      get: (ref) => read(() => records.get(keyOf(ref))),
      list: () => read(() => [...records.values()]),
      create: (record) =>
        change(() => {
          if (records.has(keyOf(record))) throw new FleetError('conflict', `${keyOf(record)} exists`)
          return put(record, undefined)
        }),
      update: (record, expected) =>
        change(() => {
          const current = records.get(keyOf(record))
          if (!current) throw new FleetError('not-found', `${keyOf(record)} is gone`)
          if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(record)} has changed`)
          return put(record, current.record)
        }),
      delete: (ref, expected) =>
        change(() => {
          const current = records.get(keyOf(ref))
          if (!current) return
          if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(ref)} has changed`)
          records.delete(keyOf(ref))
          if (hooks.kind) this.watches.told(hooks.kind, ref)
          hooks.removed(current.record)
        }),
    }
  }
}
