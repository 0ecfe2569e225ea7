/** Brings the inventory up to date with server records that were written or deleted outside this engine. */
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

  /** Reads back the record of a server after another writer has changed or deleted it. */
  async refresh(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    try {
      await this.#deps.writer.refresh(entry)
    } catch (error) {
      // The entry already has the new state.
      if (!(error instanceof LostServer)) throw error
    }
    // The server was removed meanwhile: a record of that name belongs to another server and is adopted separately.
    if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) return
    // A record that was rewritten unchanged must not cut a back-off short.
    if (entry.record !== record || entry.stored !== stored) this.#ctx.requeue(entry)
  }
}
