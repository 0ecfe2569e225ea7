/** The model of a store that outlives hosts: compare-and-swap over maps, behind calls that can fail in every way. */
import { FleetError } from '../../errors.js'
import { type Build, type Detail, keyOf, type Ref, type Server } from '../../rules/resources.js'
import type { Collection, Store, Versioned } from '../../store.js'
import { call, type CallOptions } from './calls.js'
import { Handing } from './handing.js'
import type { Host } from './host.js'
import type { World } from './world.js'

/** Hears of every change in the instant in which it is durable. */
export interface StoreListener {
  buildWritten(before: Build | undefined, after: Build): void
  buildRemoved(before: Build): void
  /** `late`: by a host that led no more, which had asked for it while it still did. */
  serverWritten(before: Server | undefined, after: Server, late: boolean): void
  serverRemoved(before: Server): void
}

interface Hooks<T> {
  written(before: T | undefined, after: T, late: boolean): void
  removed(before: T): void
}

export class StoreModel {
  readonly builds = new Map<string, Versioned<Build>>()
  readonly servers = new Map<string, Versioned<Server>>()
  readonly details = new Map<string, Versioned<Detail>>()
  readonly handing: Handing
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
    /** Others write to it as well. */
    readonly shared: boolean,
    readonly listener: StoreListener,
  ) {
    this.handing = new Handing(world)
  }

  get away(): boolean {
    return this.world.elapsedMs < this.#awayUntil
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
      mute: () => this.world.elapsedMs < this.#muteUntil,
      latencyMs,
      faultiness,
      far: shared,
    }
    const servers = this.#collection(this.servers, host, options, {
      written: (before, after, late) => listener.serverWritten(before, after, late),
      removed: (before) => listener.serverRemoved(before),
    })
    return {
      shared,
      builds: this.#collection(this.builds, host, options, {
        written: (before, after) => listener.buildWritten(before, after),
        removed: (before) => listener.buildRemoved(before),
      }),
      servers: this.handing.watched(host, servers, (ref) => this.servers.get(keyOf(ref))?.record),
      details: this.#collection(this.details, host, options, { written: () => {}, removed: () => {} }),
      close: () => Promise.resolve(),
    }
  }

  /** An outside hand writes a record again as it is, as a label set by hand would. */
  touch(): string | undefined {
    const { world } = this
    const records = world.oneOf<Map<string, Versioned<Ref>>>([this.builds, this.servers, this.servers, this.details])
    const key = world.oneOf([...(records?.keys() ?? [])])
    const there = key === undefined ? undefined : records?.get(key)
    if (!records || key === undefined || !there) return undefined
    records.set(key, { record: there.record, revision: this.#next() })
    return key
  }

  /** An outside hand changes what a build asks for, past every host. */
  edit(names: readonly string[]): string | undefined {
    const { world } = this
    const mayEdit = ([, { record }]: [string, Versioned<Build>]) => names.includes(record.name)
    const [key] = world.oneOf([...this.builds].filter(mayEdit)) ?? []
    const there = key === undefined ? undefined : this.builds.get(key)
    if (key === undefined || !there) return undefined
    const max = world.between(0, 8)
    const standingBy = world.between(0, Math.min(max, 4))
    const record = { ...there.record, spec: { ...there.record.spec, standingBy, max } }
    this.builds.set(key, { record, revision: this.#next() })
    return `${key} to standingBy ${standingBy}, max ${max}`
  }

  /** An outside hand deletes a build, past every host. Returns what it was. */
  remove(names: readonly string[]): Build | undefined {
    const [key, there] =
      this.world.oneOf([...this.builds].filter(([, { record }]) => names.includes(record.name))) ?? []
    if (key === undefined || !there) return undefined
    this.builds.delete(key)
    this.listener.buildRemoved(there.record)
    return there.record
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
    const change = <R>(effect: () => R) => {
      host.acts('store')
      this.changes++
      return ask(effect)
    }
    const put = (record: T, before: T | undefined) => {
      const revision = this.#next()
      records.set(keyOf(record), { record, revision })
      hooks.written(before, record, !(host.alive && host.leads))
      return revision
    }
    return {
      get: (ref) => ask(() => records.get(keyOf(ref))),
      list: () => ask(() => [...records.values()]),
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
          hooks.removed(current.record)
        }),
    }
  }
}
