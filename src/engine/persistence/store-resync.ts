/**
 * Finds what the store holds and this host does not know: a write that a leader before it had on its way, what people have
 * edited or deleted past every host, and writes of its own that were never answered. A shared store is watched, or where
 * it cannot be, read again at every resync; in a store of its own only the lost writes are looked for.
 */
import { messageOf } from '../../contracts/errors.js'
import { type Build, keyOf, type Ref, type Server } from '../../rules/model/resources.js'
import type { StoreListener, Versioned } from '../../contracts/store.js'
import type { BuildWriter } from './build-writer.js'
import type { EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'

export interface StoreResync {
  start(): void
  stop(): void
  /** A write has found no record of this build. */
  recordMissing(build: BuildEntry): void
}

export interface StoreResyncDependencies {
  /** Takes it in, unless another build is in the way. */
  readonly adoptBuild: (build: Versioned<Build>) => void
  /** Looks for builds that may be there though their creation failed. */
  readonly findLostBuilds: () => Promise<void>
  readonly builds: Pick<BuildWriter, 'refresh' | 'settled' | 'uncertain'>
  /** The record of this build is gone from the store. */
  readonly buildGone: (build: BuildEntry) => void
  readonly adoptServer: (server: Versioned<Server>) => void
  /** Somebody else has written or removed the record of this server. */
  readonly checkServer: (entry: ServerEntry) => Promise<void>
}

export function storeResync(ctx: EngineContext, parts: StoreResyncDependencies): StoreResync {
  const { clock, inventory, limits, store } = ctx
  let cancel = () => {}
  let unwatch = () => {}
  /** What was told could not be looked at: everything is read again. */
  let missed = false

  function plan(): void {
    if (ctx.stopped()) return
    cancel = clock.after(limits.resyncIntervalMs, () => {
      void readAgain()
        .catch((error: unknown) => {
          ctx.logger.warn({ error: messageOf(error) }, 'the store could not be read again')
        })
        .finally(plan)
    })
  }

  async function readAgain(): Promise<void> {
    for (const build of parts.builds.uncertain) {
      await look(build)
      // What could not be written of it then may be still to be written.
      ctx.enqueue(build)
    }
    await parts.findLostBuilds()
    if (!store.shared || (store.watch && !missed)) return
    missed = false
    try {
      await allBuilds(await store.builds.list())
      const servers = await store.servers.list()
      // Where nothing else would tell of them. Else one that is known is looked at when it is written next.
      if (store.watch) return await allServers(servers)
      for (const found of servers) if (!inventory.servers.has(keyOf(found.record))) await serverChanged(found)
    } catch (error) {
      missed = true
      throw error
    }
  }

  async function allBuilds(listed: readonly Versioned<Build>[], namespace?: string): Promise<void> {
    const there = new Set(listed.map(({ record }) => keyOf(record)))
    for (const [key, build] of [...inventory.builds]) if (!there.has(key) && isIn(build, namespace)) await look(build)
    for (const found of listed) await buildChanged(found)
  }

  async function allServers(listed: readonly Versioned<Server>[], namespace?: string): Promise<void> {
    const there = new Set(listed.map(({ record }) => keyOf(record)))
    for (const [key, entry] of [...inventory.servers]) {
      if (!there.has(key) && isIn(entry, namespace)) await serverGone(entry.ref)
    }
    for (const found of listed) await serverChanged(found)
  }

  async function buildChanged(found: Versioned<Build>): Promise<void> {
    const known = inventory.builds.get(keyOf(found.record))
    if (known?.revision === found.revision) return
    if (known) {
      await parts.builds.settled(known)
      if (known.revision !== found.revision) await look(known)
    }
    await adopt(found.record)
  }

  async function buildGone(ref: Ref): Promise<void> {
    const known = inventory.builds.get(keyOf(ref))
    if (known) await look(known)
  }

  /** What was told may be older than a removal of ours: what is there now decides. */
  async function adopt(ref: Ref): Promise<void> {
    if (inventory.builds.has(keyOf(ref))) return
    const now = await store.builds.get(ref)
    if (now && !ctx.stopped()) parts.adoptBuild(now)
  }

  async function serverChanged(found: Versioned<Server>): Promise<void> {
    const known = inventory.servers.get(keyOf(found.record))
    if (!known) {
      const now = await store.servers.get(found.record)
      if (now && !ctx.stopped() && !inventory.servers.has(keyOf(now.record))) parts.adoptServer(now)
      return
    }
    if (known.revision === found.revision) return
    // It may be our own write, told before it was answered.
    await known.saving?.catch(() => undefined)
    if (known.revision !== undefined && known.revision !== found.revision) await parts.checkServer(known)
    // It went while it was looked at: what is there now is a write of before that took effect late.
    if (!inventory.servers.has(keyOf(found.record)) && !ctx.stopped()) await serverChanged(found)
  }

  async function serverGone(ref: Ref): Promise<void> {
    const known = inventory.servers.get(keyOf(ref))
    if (!known || known.record.state === 'Terminating') return
    await known.saving?.catch(() => undefined)
    if (known.revision !== undefined) await parts.checkServer(known)
  }

  async function look(build: BuildEntry): Promise<void> {
    // A write of ours that is under way may have been made before that which was told.
    await parts.builds.settled(build)
    const isThere = await parts.builds.refresh(build)
    if (!isThere && !ctx.stopped()) parts.buildGone(build)
  }

  function own(work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (ctx.stopped()) return
      missed = true
      ctx.logger.warn({ error: messageOf(error) }, 'a change of the store could not be looked at, and will be')
    })
  }

  const listener: StoreListener = {
    builds: {
      listed: (all, namespace) => own(allBuilds(all, namespace)),
      changed: (found) => own(buildChanged(found)),
      gone: (ref) => own(buildGone(ref)),
    },
    servers: {
      listed: (all, namespace) => own(allServers(all, namespace)),
      changed: (found) => own(serverChanged(found)),
      gone: (ref) => own(serverGone(ref)),
    },
  }

  return {
    start() {
      plan()
      unwatch = store.watch?.(listener) ?? unwatch
    },
    stop() {
      cancel()
      unwatch()
    },
    recordMissing: (build) => own(look(build)),
  }
}

function isIn({ ref }: { readonly ref: Ref }, namespace: string | undefined): boolean {
  return namespace === undefined || ref.namespace === namespace
}
