/** Takes over server records that were written or deleted outside this engine. */
import type { Versioned } from '../contracts/store.js'
import { keyOf, type Server } from '../rules/model/resources.js'
import type { ChangeHandlers } from './change-handlers.js'
import type { EngineContext } from './context.js'
import type { Loader } from './persistence/loader.js'
import { LostServer, type ServerWriter } from './persistence/server-writer.js'
import type { ServerEntry } from './state/entries.js'

export interface ServerAdoptionDependencies {
  readonly loader: Pick<Loader, 'loadServer'>
  readonly writer: ServerWriter
  readonly changes: Pick<ChangeHandlers, 'serverAdopted'>
}

export class ServerAdoption {
  readonly #ctx: EngineContext
  readonly #deps: ServerAdoptionDependencies

  constructor(ctx: EngineContext, deps: ServerAdoptionDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Adds a server that the store has and the inventory does not. */
  adopt(found: Versioned<Server>): void {
    this.#ctx.requeue(this.#deps.loader.loadServer(found))
    this.#deps.changes.serverAdopted(found.record)
  }

  /** Reads back the record of a server that somebody else has written or deleted. */
  async refresh(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    try {
      await this.#deps.writer.refresh(entry)
    } catch (error) {
      // The entry has the new state already.
      if (!(error instanceof LostServer)) throw error
    }
    // Removed meanwhile: a record by that name now belongs to a server to adopt.
    if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) return
    // A record that was written again unchanged must not cut a back-off short.
    if (entry.record !== record || entry.stored !== stored) this.#ctx.requeue(entry)
  }
}
