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

  /** Adds a server that is in the store but not in the inventory. */
  adopt(found: Versioned<Server>): void {
    this.#ctx.requeue(this.#deps.loader.loadServer(found))
    this.#deps.changes.serverAdopted(found.record)
  }

  /** Reads a server's record again after another writer has changed or deleted it. */
  async refresh(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    try {
      await this.#deps.writer.refresh(entry)
    } catch (error) {
      // The entry already has the new state.
      if (!(error instanceof LostServer)) throw error
    }
    // If the server was removed in the meantime, a record with its name belongs to another server and is adopted
    // separately.
    if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) return
    // If a record was rewritten without a change, an ongoing back-off must not be cut short.
    if (entry.record !== record || entry.stored !== stored) this.#ctx.requeue(entry)
  }
}
