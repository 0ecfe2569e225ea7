/**
 * Watches of the modelled store. Each host is told of every change, of each record in the order in which it changed, and
 * otherwise as it comes: late, twice, and not at all while its watch is broken, after which it is told what it missed, or
 * all there is.
 */
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { CollectionListener, StoreListener, Versioned } from '../../contracts/store.js'
import type { Host } from './host.js'
import type { World } from './world.js'

/** What is watched. */
interface Watched {
  readonly builds: ReadonlyMap<string, Versioned<Build>>
  readonly servers: ReadonlyMap<string, Versioned<Server>>
  readonly away: boolean
}

type Kind = 'builds' | 'servers'
type Notice = () => void

interface Ears {
  readonly host: Host
  readonly listener: StoreListener
  over: boolean
  deafUntil: number
  /** What changes before the next list is in it. */
  listing: boolean
  /** What was not told while it was deaf, in order. */
  missed: { readonly key: string; readonly notice: Notice }[]
  /** Nothing is told before this: elapsed ms at which the last list arrives. */
  listedAt: number
  /** When the last notice of a record arrives. */
  readonly arrivals: Map<string, number>
}

/** How often a watch tries to reach a store that is away. */
const retryMs = 500

export class StoreWatches {
  readonly #ears = new Set<Ears>()

  constructor(
    readonly world: World,
    readonly store: Watched,
  ) {}

  open(host: Host, listener: StoreListener): () => void {
    const ears: Ears = {
      host,
      listener,
      over: false,
      deafUntil: 0,
      listing: true,
      missed: [],
      listedAt: 0,
      arrivals: new Map(),
    }
    this.#ears.add(ears)
    this.#list(ears)
    return () => {
      ears.over = true
      this.#ears.delete(ears)
    }
  }

  isDeaf(host: Host): boolean {
    return [...this.#ears].some((ears) => ears.host === host && (ears.listing || this.#isDeaf(ears)))
  }

  /** A record was written, or removed. */
  told(kind: Kind, { namespace, name }: Ref): void {
    const ref = { namespace, name }
    const key = `${kind} ${keyOf(ref)}`
    for (const ears of this.#ears) {
      if (!ears.host.alive) this.#ears.delete(ears)
      else if (!ears.listing) this.#tell(ears, key, this.#noticeOf(ears, kind, ref))
    }
  }

  /** One host hears nothing for so long; `anew`: it is told afterwards all there is, and not what it missed. */
  interrupt(host: Host, ms: number, anew: boolean): boolean {
    const hit = [...this.#ears].filter((ears) => ears.host === host)
    for (const ears of hit) {
      ears.deafUntil = Math.max(ears.deafUntil, this.world.elapsedMs + ms)
      this.world.after(ms, () => this.#resume(ears, anew))
    }
    return hit.length > 0
  }

  #isDeaf({ deafUntil }: Ears): boolean {
    return this.world.elapsedMs < deafUntil
  }

  #resume(ears: Ears, anew: boolean): void {
    if (ears.over || this.#isDeaf(ears)) return
    if (this.store.away) return void this.world.after(retryMs, () => this.#resume(ears, anew))
    const missed = ears.missed.splice(0)
    if (anew) {
      ears.listing = true
      this.#list(ears)
    } else for (const { key, notice } of missed) this.#arrive(ears, key, notice)
  }

  #list(ears: Ears): void {
    if (ears.over) return
    const { world, store } = this
    if (store.away || this.#isDeaf(ears)) return void world.after(retryMs, () => this.#list(ears))
    const builds = [...store.builds.values()]
    const servers = [...store.servers.values()]
    ears.listing = false
    ears.listedAt = world.elapsedMs + world.between(0, 200)
    const give = <T extends Ref>(to: CollectionListener<T>, all: readonly Versioned<T>[]) =>
      this.#deliver(ears, ears.listedAt, () => to.listed(all))
    give(ears.listener.builds, builds)
    give(ears.listener.servers, servers)
  }

  /** As it is now, however late it is heard. */
  #noticeOf({ listener }: Ears, kind: Kind, ref: Ref): Notice {
    if (kind === 'builds') return noticeOf(listener.builds, this.store.builds, ref)
    return noticeOf(listener.servers, this.store.servers, ref)
  }

  #tell(ears: Ears, key: string, notice: Notice): void {
    // While the store is away, nothing comes from it either.
    if (this.store.away && !this.#isDeaf(ears)) {
      ears.deafUntil = this.world.elapsedMs + retryMs
      this.world.after(retryMs, () => this.#resume(ears, false))
    }
    if (this.#isDeaf(ears) || ears.missed.length > 0) ears.missed.push({ key, notice })
    else this.#arrive(ears, key, notice)
  }

  #arrive(ears: Ears, key: string, notice: Notice): void {
    const { world } = this
    const late = world.fault('store notice: late', 0.02) ? world.between(100, 5_000) : world.between(0, 50)
    const at = Math.max(ears.listedAt, ears.arrivals.get(key) ?? 0, world.elapsedMs + late)
    ears.arrivals.set(key, at)
    this.#deliver(ears, at, notice)
    // Again, when it may long be otherwise.
    if (world.fault('store notice: repeated', 0.03)) this.#deliver(ears, at + world.between(0, 5_000), notice)
  }

  #deliver(ears: Ears, at: number, notice: Notice): void {
    this.world.after(at - this.world.elapsedMs, () =>
      ears.host.run(() => {
        if (!ears.over) notice()
      }),
    )
  }
}

function noticeOf<T extends Ref>(
  listener: CollectionListener<T>,
  records: ReadonlyMap<string, Versioned<T>>,
  ref: Ref,
): Notice {
  const found = records.get(keyOf(ref))
  return found ? () => listener.changed(found) : () => listener.gone(ref)
}
