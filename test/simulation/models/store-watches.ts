/**
 * Watches on the modelled store. Events may be late or repeated, and events for different records may be out of order. Like
 * any store, it reports no version of a record that is older than one the host has already received. An interrupted watch
 * delivers nothing; afterwards it either delivers the missed events or relists.
 */
import type { CollectionListener, StoreListener, Versioned } from '../../../src/contracts/store.js'
import { type Build, keyOf, type Ref, type Server } from '../../../src/rules/model/resources.js'
import type { Host } from '../world/host.js'
import type { World } from '../world/world.js'

/** The watched collections of the store. */
interface WatchedStore {
  readonly builds: ReadonlyMap<string, Versioned<Build>>
  readonly objects: ReadonlyMap<string, Versioned<Server>>
  readonly unavailable: boolean
  /** How long a list takes, in ms. */
  listMs(): number
}

type Kind = 'builds' | 'servers'
type Delivery = () => void

interface Watch {
  readonly host: Host
  readonly listener: StoreListener
  closed: boolean
  interruptedUntil: number
  /** A relist is due, which will contain all changes made until then. */
  listing: boolean
  /** Events from the interruption, in order. */
  missed: { readonly key: string; readonly delivery: Delivery }[]
  /** Elapsed ms at which the last relist arrives. Later events arrive no earlier than that. */
  listedAt: number
  /** Elapsed ms at which the last event for each record arrives. */
  readonly arrivals: Map<string, number>
}

/** How often a watch retries while the store is unavailable. */
const retryMs = 500

export class StoreWatches {
  readonly #watch = new Set<Watch>()
  /** The latest revision of each record that each host has received, in a reply or through its watch. */
  readonly #seen = new WeakMap<Host, Map<string, number>>()

  constructor(
    readonly world: World,
    readonly store: WatchedStore,
  ) {}

  open(host: Host, listener: StoreListener): () => void {
    const watch: Watch = {
      host,
      listener,
      closed: false,
      interruptedUntil: 0,
      listing: true,
      missed: [],
      listedAt: 0,
      arrivals: new Map(),
    }
    this.#watch.add(watch)
    this.#list(watch)
    return () => {
      watch.closed = true
      this.#watch.delete(watch)
    }
  }

  isInterrupted(host: Host): boolean {
    return [...this.#watch].some((watch) => watch.host === host && (watch.listing || this.#isInterrupted(watch)))
  }

  /** Called when a host receives this version of a record. Returns false if it has received a later one before. */
  seen(host: Host, kind: Kind, ref: Ref, revision: string): boolean {
    const latest = this.#seen.get(host) ?? new Map<string, number>()
    this.#seen.set(host, latest)
    const key = keyFor(kind, ref)
    if (Number(revision) < (latest.get(key) ?? 0)) return false
    latest.set(key, Number(revision))
    return true
  }

  /** Called when a record was written or deleted. */
  changed(kind: Kind, { namespace, name }: Ref): void {
    const ref = { namespace, name }
    const key = keyFor(kind, ref)
    for (const watch of this.#watch) {
      if (!watch.host.alive) this.#watch.delete(watch)
      else if (!watch.listing) this.#send(watch, key, this.#deliveryOf(watch, kind, ref))
    }
  }

  /** Interrupts one host's watch. With `relist`, the watch then delivers a new list instead of the missed events. */
  interrupt(host: Host, ms: number, relist: boolean): boolean {
    const watches = [...this.#watch].filter((watch) => watch.host === host)
    for (const watch of watches) {
      watch.interruptedUntil = Math.max(watch.interruptedUntil, this.world.elapsedMs + ms)
      this.world.after(ms, () => this.#resume(watch, relist))
    }
    return watches.length > 0
  }

  #isInterrupted({ interruptedUntil }: Watch): boolean {
    return this.world.elapsedMs < interruptedUntil
  }

  #resume(watch: Watch, relist: boolean): void {
    if (watch.closed || this.#isInterrupted(watch)) return
    if (this.store.unavailable) return void this.world.after(retryMs, () => this.#resume(watch, relist))
    const missed = watch.missed.splice(0)
    if (relist) {
      watch.listing = true
      this.#list(watch)
    } else for (const { key, delivery } of missed) this.#arrive(watch, key, delivery)
  }

  #list(watch: Watch): void {
    if (watch.closed) return
    const { world, store } = this
    if (store.unavailable || this.#isInterrupted(watch)) return void world.after(retryMs, () => this.#list(watch))
    const builds = [...store.builds.values()]
    const servers = [...store.objects.values()]
    watch.listing = false
    watch.listedAt = world.elapsedMs + store.listMs()
    const deliverList = <T extends Ref>(to: CollectionListener<T>, all: readonly Versioned<T>[]) =>
      this.#deliver(watch, watch.listedAt, () => to.listed(all))
    deliverList(watch.listener.builds, builds)
    deliverList(watch.listener.servers, servers)
  }

  /** Captures the record at send time; a delayed delivery still carries that version. */
  #deliveryOf({ host, listener }: Watch, kind: Kind, ref: Ref): Delivery {
    const isNews = ({ revision }: Versioned<Ref>) => this.seen(host, kind, ref, revision)
    if (kind === 'builds') return deliveryOf(listener.builds, this.store.builds, ref, isNews)
    return deliveryOf(listener.servers, this.store.objects, ref, isNews)
  }

  #send(watch: Watch, key: string, delivery: Delivery): void {
    // While the store is unavailable, its watches are interrupted too.
    if (this.store.unavailable && !this.#isInterrupted(watch)) {
      watch.interruptedUntil = this.world.elapsedMs + retryMs
      this.world.after(retryMs, () => this.#resume(watch, false))
    }
    if (this.#isInterrupted(watch) || watch.missed.length > 0) watch.missed.push({ key, delivery })
    else this.#arrive(watch, key, delivery)
  }

  #arrive(watch: Watch, key: string, delivery: Delivery): void {
    const { world } = this
    const late = world.fault('store watch: late event', 0.02) ? world.between(100, 5_000) : world.between(0, 50)
    const at = Math.max(watch.listedAt, watch.arrivals.get(key) ?? 0, world.elapsedMs + late)
    watch.arrivals.set(key, at)
    this.#deliver(watch, at, delivery)
    if (world.fault('store watch: repeated event', 0.03)) this.#deliver(watch, at + world.between(0, 5_000), delivery)
  }

  #deliver(watch: Watch, at: number, delivery: Delivery): void {
    this.world.after(at - this.world.elapsedMs, () =>
      watch.host.run(() => {
        if (watch.closed) return
        watch.host.hasNews = true
        delivery()
      }),
    )
  }
}

function deliveryOf<T extends Ref>(
  listener: CollectionListener<T>,
  records: ReadonlyMap<string, Versioned<T>>,
  ref: Ref,
  isNews: (found: Versioned<T>) => boolean,
): Delivery {
  const found = records.get(keyOf(ref))
  if (!found) return () => listener.gone(ref)
  return () => {
    if (isNews(found)) listener.changed(found)
  }
}

function keyFor(kind: Kind, ref: Ref): string {
  return `${kind} ${keyOf(ref)}`
}
