/** The model of a store that outlives hosts: compare-and-swap over maps, behind calls that can fail in every way. */
import { FleetError } from '../../errors.js'
import { type Build, type Detail, keyOf, type Ref, type Server } from '../../rules/resources.js'
import type { Collection, Store, Versioned } from '../../store.js'
import { call, type CallOptions } from './calls.js'
import type { Host } from './host.js'
import type { World } from './world.js'

export class StoreModel {
  readonly builds = new Map<string, Versioned<Build>>()
  readonly servers = new Map<string, Versioned<Server>>()
  readonly details = new Map<string, Versioned<Detail>>()
  #awayUntil = 0
  #revision = 0
  /** Calls so far that changed something or meant to. */
  writes = 0

  constructor(
    readonly world: World,
    readonly faultiness: number,
  ) {}

  goAway(ms: number): void {
    this.#awayUntil = this.world.elapsedMs + ms
  }

  /** The store as one host reaches it. */
  for(host: Host): Store {
    const options: CallOptions = {
      of: 'store',
      away: () => this.world.elapsedMs < this.#awayUntil,
      latencyMs: [0, 5],
      faultiness: this.faultiness,
    }
    return {
      shared: true,
      builds: this.#collection(this.builds, host, options),
      servers: this.#collection(this.servers, host, options),
      details: this.#collection(this.details, host, options),
      close: () => Promise.resolve(),
    }
  }

  #collection<T extends Ref>(records: Map<string, Versioned<T>>, host: Host, options: CallOptions): Collection<T> {
    const { world } = this
    const next = () => String(++this.#revision)
    return {
      get: (ref) => call(world, host, options, () => records.get(keyOf(ref))),
      list: () => call(world, host, options, () => [...records.values()]),
      create: (record) => {
        this.writes++
        return call(world, host, options, () => {
          if (records.has(keyOf(record))) throw new FleetError('conflict', `${keyOf(record)} exists`)
          const revision = next()
          records.set(keyOf(record), { record, revision })
          return revision
        })
      },
      update: (record, expected) => {
        this.writes++
        return call(world, host, options, () => {
          const current = records.get(keyOf(record))
          if (!current) throw new FleetError('not-found', `${keyOf(record)} is gone`)
          if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(record)} has changed`)
          const revision = next()
          records.set(keyOf(record), { record, revision })
          return revision
        })
      },
      delete: (ref, expected) => {
        this.writes++
        return call(world, host, options, () => {
          const current = records.get(keyOf(ref))
          if (!current) return
          if (current.revision !== expected) throw new FleetError('conflict', `${keyOf(ref)} has changed`)
          records.delete(keyOf(ref))
        })
      },
    }
  }
}
