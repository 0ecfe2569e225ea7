/**
 * Detects changes to records that this engine does not know about: late writes by an earlier leader, external edits and
 * deletions, and writes by this host whose outcome is unknown. A shared store is watched, or listed at every resync if it
 * cannot be watched. In a store that is not shared, only uncertain writes are checked.
 */
import type { StoreListener, Versioned } from '../../contracts/store.js'
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { BuildWriter } from './build-writer.js'

export interface StoreResyncDependencies {
  /** Adopts a build, unless another build has its name or buildID. */
  readonly adoptBuild: (build: Versioned<Build>) => void
  /** Resolves when this host is not creating a build of this name. */
  readonly created: (build: Ref) => Promise<void>
  /** Adopts builds that are in the store although their creation failed. */
  readonly recoverUncertainBuilds: () => Promise<void>
  readonly builds: Pick<BuildWriter, 'accept' | 'refresh' | 'settled' | 'uncertain'>
  /** Called when the record of this build has been deleted. */
  readonly buildGone: (build: BuildEntry) => void
  readonly adoptServer: (server: Versioned<Server>) => void
  /** Called with each version of this server's record that the watch reports. Returns false if it must be read instead. */
  readonly acceptServer: (entry: ServerEntry, found: Versioned<Server>) => boolean
  /** Called when another writer has changed or deleted the record of this server. */
  readonly refreshServer: (entry: ServerEntry) => Promise<void>
}

export class StoreResync {
  readonly #ctx: EngineContext
  readonly #deps: StoreResyncDependencies
  #cancelTimer = () => {}
  #unwatch = () => {}
  /** True if a change could not be processed, so that the next resync must list everything. */
  #needsList = false

  constructor(ctx: EngineContext, deps: StoreResyncDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  start(): void {
    this.#schedule()
    this.#unwatch = this.#ctx.store.watch?.(this.#listener()) ?? this.#unwatch
  }

  stop(): void {
    this.#cancelTimer()
    this.#unwatch()
  }

  /** Call when a write has found no record of this build. */
  recordMissing(build: BuildEntry): void {
    this.#run(this.#refreshBuild(build))
  }

  #listener(): StoreListener {
    return {
      builds: {
        listed: (all, namespace) => this.#run(this.#allBuilds(all, namespace)),
        changed: (found) => this.#run(this.#buildReported(found)),
        gone: (ref) => this.#run(this.#buildGone(ref)),
      },
      servers: {
        listed: (all, namespace) => this.#run(this.#allServers(all, namespace)),
        changed: (found) => this.#run(this.#serverReported(found)),
        gone: (ref) => this.#run(this.#serverGone(ref)),
      },
    }
  }

  /** Handles failures of background work that no caller waits for. */
  #run(work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (this.#ctx.stopped()) return
      this.#needsList = true
      this.#ctx.logger.warn({ err: error }, 'cannot process a store change; will retry at the next resync')
    })
  }

  #schedule(): void {
    const { clock, limits, logger } = this.#ctx
    if (this.#ctx.stopped()) return
    this.#cancelTimer = clock.after(limits.resyncIntervalMs, () => {
      void this.#resync()
        .catch((error: unknown) => {
          logger.warn({ err: error }, 'store resync failed; will retry')
        })
        .finally(() => this.#schedule())
    })
  }

  async #resync(): Promise<void> {
    const { inventory, store } = this.#ctx
    for (const build of this.#deps.builds.uncertain) {
      await this.#refreshBuild(build)
      // A change whose write failed may still be needed, so reconcile again.
      this.#ctx.enqueue(build)
    }
    await this.#deps.recoverUncertainBuilds()
    if (!store.shared || (store.watch && !this.#needsList)) return
    this.#needsList = false
    try {
      await this.#allBuilds(await store.builds.list())
      const servers = await store.servers.list()
      // A watch does not repeat missed changes, so check all servers. Without a watch, the next write of a server detects a
      // change.
      if (store.watch) return await this.#allServers(servers)
      for (const found of servers) if (!inventory.servers.has(keyOf(found.record))) await this.#serverChanged(found)
    } catch (error) {
      this.#needsList = true
      throw error
    }
  }

  async #allBuilds(listed: readonly Versioned<Build>[], namespace?: string): Promise<void> {
    const present = new Set(listed.map(({ record }) => keyOf(record)))
    for (const [key, build] of [...this.#ctx.inventory.builds]) {
      if (!present.has(key) && isIn(build, namespace)) await this.#refreshBuild(build)
    }
    for (const found of listed) await this.#buildChanged(found)
  }

  async #allServers(listed: readonly Versioned<Server>[], namespace?: string): Promise<void> {
    const present = new Set(listed.map(({ record }) => keyOf(record)))
    for (const [key, entry] of [...this.#ctx.inventory.servers]) {
      if (!present.has(key) && isIn(entry, namespace)) await this.#serverGone(entry.ref)
    }
    for (const found of listed) await this.#serverChanged(found)
  }

  async #buildReported(found: Versioned<Build>): Promise<void> {
    const build = this.#ctx.inventory.builds.get(keyOf(found.record))
    if (build && this.#deps.builds.accept(build, found)) return
    await this.#buildChanged(found)
  }

  async #buildChanged(found: Versioned<Build>): Promise<void> {
    const build = await this.#find(found.record)
    if (build?.revision === found.revision) return
    if (build) {
      await this.#deps.builds.settled(build)
      if (build.revision !== found.revision) await this.#refreshBuild(build)
    }
    await this.#adoptBuild(found.record)
  }

  async #buildGone(ref: Ref): Promise<void> {
    const build = await this.#find(ref)
    if (build) await this.#refreshBuild(build)
  }

  /** A build may change in the store before this host has heard that it was created. */
  async #find(ref: Ref): Promise<BuildEntry | undefined> {
    const { builds } = this.#ctx.inventory
    const known = builds.get(keyOf(ref))
    if (known) return known
    await this.#deps.created(ref)
    return builds.get(keyOf(ref))
  }

  /** Reads the build before adopting it, because the reported version may be older than a deletion by this host. */
  async #adoptBuild(ref: Ref): Promise<void> {
    const { inventory, store } = this.#ctx
    if (inventory.builds.has(keyOf(ref))) return
    const current = await store.builds.get(ref)
    if (current && !this.#ctx.stopped()) this.#deps.adoptBuild(current)
  }

  async #refreshBuild(build: BuildEntry): Promise<void> {
    // A write in progress may be older than the reported change.
    await this.#deps.builds.settled(build)
    const exists = await this.#deps.builds.refresh(build)
    if (exists || this.#ctx.stopped()) return
    this.#deps.buildGone(build)
    // Another build may have been created under its name, and its event may have been processed before.
    if (this.#ctx.store.shared) await this.#adoptBuild(build.ref)
  }

  async #serverReported(found: Versioned<Server>): Promise<void> {
    const entry = this.#ctx.inventory.servers.get(keyOf(found.record))
    if (entry && this.#deps.acceptServer(entry, found)) return
    await this.#serverChanged(found)
  }

  async #serverChanged(found: Versioned<Server>): Promise<void> {
    const { inventory, store } = this.#ctx
    const entry = inventory.servers.get(keyOf(found.record))
    if (!entry) {
      const current = await store.servers.get(found.record)
      const isUnknown = current && !this.#ctx.stopped() && !inventory.servers.has(keyOf(current.record))
      if (isUnknown) this.#deps.adoptServer(current)
      return
    }
    if (entry.revision === found.revision) return
    // The change may be this host's own write, reported before that write has resolved.
    await entry.saving?.catch(() => undefined)
    if (entry.revision !== undefined && entry.revision !== found.revision) await this.#deps.refreshServer(entry)
    // If the server was removed in the meantime, a record that exists now comes from a late write.
    if (!inventory.servers.has(keyOf(found.record)) && !this.#ctx.stopped()) await this.#serverChanged(found)
  }

  async #serverGone(ref: Ref): Promise<void> {
    const entry = this.#ctx.inventory.servers.get(keyOf(ref))
    if (!entry || entry.record.state === 'Terminating') return
    await entry.saving?.catch(() => undefined)
    if (entry.revision !== undefined) await this.#deps.refreshServer(entry)
  }
}

function isIn({ ref }: { readonly ref: Ref }, namespace: string | undefined): boolean {
  return namespace === undefined || ref.namespace === namespace
}
