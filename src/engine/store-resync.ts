/**
 * Finds what the store holds and this host does not know: a write that a leader before it had on its way, an edit of a
 * build by hand, and writes of its own that were never answered. In a store of its own only these are looked for.
 */
import { messageOf } from '../errors.js'
import { type Build, keyOf, type Server } from '../rules/resources.js'
import type { Versioned } from '../store.js'
import type { BuildWriter } from './build-writer.js'
import type { EngineContext } from './context.js'

export interface StoreResync {
  start(): void
  stop(): void
}

export interface StoreResyncParts {
  readonly adoptBuild: (build: Versioned<Build>) => void
  readonly builds: Pick<BuildWriter, 'refresh' | 'unsure'>
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
    for (const build of parts.builds.unsure) await parts.builds.refresh(build)
    if (!store.shared) return
    for (const { record, revision } of await store.builds.list()) {
      const known = inventory.builds.get(keyOf(record))
      if (known && known.revision !== revision) await parts.builds.refresh(known)
      if (known) continue
      const now = await store.builds.get(record)
      if (now && !ctx.stopped() && mayAdopt(now.record)) parts.adoptBuild(now)
    }
    for (const { record } of await store.servers.list()) {
      if (inventory.servers.has(keyOf(record))) continue
      // The list may be older than a removal of ours: what is there now decides.
      const now = await store.servers.get(record)
      if (now && !ctx.stopped() && !inventory.servers.has(keyOf(record))) parts.adoptServer(now)
    }
  }

  function mayAdopt(build: Build): boolean {
    return !inventory.builds.has(keyOf(build)) && !inventory.buildByID(build.spec.buildID)
  }

  return { start: plan, stop: () => cancel() }
}
