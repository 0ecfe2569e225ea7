/**
 * Finds what others wrote after this host had read the store: a write that a leader before it had on its way, and an
 * edit of a build by hand. Only for stores that hosts share; otherwise nobody else writes.
 */
import { messageOf } from '../errors.js'
import { type Build, keyOf, type Server } from '../rules/resources.js'
import type { Versioned } from '../store.js'
import type { EngineContext } from './context.js'
import type { BuildEntry } from './inventory.js'

export interface StoreResync {
  start(): void
  stop(): void
}

export interface StoreResyncParts {
  readonly adoptBuild: (build: Versioned<Build>) => void
  /** The record of this build is not the one that this host knows. */
  readonly refreshBuild: (build: BuildEntry) => Promise<void>
  readonly adoptServer: (server: Versioned<Server>) => void
}

export function storeResync(ctx: EngineContext, parts: StoreResyncParts): StoreResync {
  const { clock, inventory, limits, store } = ctx
  let cancel = () => {}

  function plan(): void {
    if (!store.shared || ctx.stopped()) return
    cancel = clock.after(limits.resyncMs, () => {
      void readAgain()
        .catch((error: unknown) => {
          ctx.logger.warn({ error: messageOf(error) }, 'the store could not be read again')
        })
        .finally(plan)
    })
  }

  async function readAgain(): Promise<void> {
    for (const { record, revision } of await store.builds.list()) {
      const known = inventory.builds.get(keyOf(record))
      if (known && known.revision !== revision) await parts.refreshBuild(known)
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
