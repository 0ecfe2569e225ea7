/**
 * Finds what the store holds and this host does not know: a write that a leader before it had on its way, an edit or a
 * deletion of a build by hand, and writes of its own that were never answered. In a store of its own only these are looked for.
 */
import { messageOf } from '../errors.js'
import { type Build, keyOf, type Server } from '../rules/resources.js'
import type { Versioned } from '../store.js'
import type { BuildWriter } from './build-writer.js'
import type { EngineContext } from './context.js'
import type { BuildEntry } from './inventory.js'

export interface StoreResync {
  start(): void
  stop(): void
}

export interface StoreResyncParts {
  /** Takes it in, unless another build is in the way. */
  readonly adoptBuild: (build: Versioned<Build>) => void
  /** Looks for builds that may be there though their creation failed. */
  readonly findLostBuilds: () => Promise<void>
  readonly builds: Pick<BuildWriter, 'refresh' | 'unsure'>
  /** The record of this build is gone from the store. */
  readonly buildGone: (build: BuildEntry) => void
  readonly adoptServer: (server: Versioned<Server>) => void
}

export function storeResync(ctx: EngineContext, parts: StoreResyncParts): StoreResync {
  const { clock, inventory, limits, store } = ctx
  let cancel = () => {}

  function plan(): void {
    if (ctx.stopped()) return
    cancel = clock.after(limits.resyncMs, () => {
      void readAgain()
        .catch((error: unknown) => {
          ctx.logger.warn({ error: messageOf(error) }, 'the store could not be read again')
        })
        .finally(plan)
    })
  }

  async function readAgain(): Promise<void> {
    for (const build of parts.builds.unsure) await look(build)
    await parts.findLostBuilds()
    if (!store.shared) return
    const listed = await store.builds.list()
    const there = new Set(listed.map(({ record }) => keyOf(record)))
    for (const [key, build] of [...inventory.builds]) if (!there.has(key)) await look(build)
    for (const { record, revision } of listed) {
      const known = inventory.builds.get(keyOf(record))
      if (known && known.revision !== revision) await look(known)
      if (inventory.builds.has(keyOf(record))) continue
      const now = await store.builds.get(record)
      if (now && !ctx.stopped()) parts.adoptBuild(now)
    }
    for (const { record } of await store.servers.list()) {
      if (inventory.servers.has(keyOf(record))) continue
      // The list may be older than a removal of ours: what is there now decides.
      const now = await store.servers.get(record)
      if (now && !ctx.stopped() && !inventory.servers.has(keyOf(record))) parts.adoptServer(now)
    }
  }

  async function look(build: BuildEntry): Promise<void> {
    const isThere = await parts.builds.refresh(build)
    if (!isThere && !ctx.stopped()) parts.buildGone(build)
  }

  return { start: plan, stop: () => cancel() }
}
