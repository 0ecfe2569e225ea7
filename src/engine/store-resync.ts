/**
 * Finds records that another host wrote after this one had read the store: a write that a leader before it had on its
 * way. Only for stores that hosts share; otherwise nobody else writes.
 */
import { messageOf } from '../errors.js'
import { type Build, keyOf, type Server } from '../rules/resources.js'
import type { Versioned } from '../store.js'
import type { EngineContext } from './context.js'

export interface StoreResync {
  start(): void
  stop(): void
}

export interface StoreResyncParts {
  readonly adoptBuild: (build: Versioned<Build>) => void
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
    for (const { record } of await store.builds.list()) {
      if (inventory.builds.has(keyOf(record))) continue
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
