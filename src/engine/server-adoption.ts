/** Brings the inventory up to date with server records that were written, deleted or lost outside this engine. */
import type { Instance, InstanceOrigin } from '../contracts/backend.js'
import type { Versioned } from '../contracts/store.js'
import { transition } from '../rules/lifecycle/lifecycle.js'
import { readSessionHostId } from '../rules/model/names.js'
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
  /** Applies the current state of an instance. */
  readonly observe: (instance: Instance) => void
}

export class ServerAdoption {
  readonly #ctx: EngineContext
  readonly #deps: ServerAdoptionDependencies

  constructor(ctx: EngineContext, deps: ServerAdoptionDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Adds a server that is in the store but not in the inventory. One that this host has removed before ends again. */
  adopt(found: Versioned<Server>): void {
    const { clock, inventory, requeue } = this.#ctx
    const entry = this.#deps.loader.loadServer(found)
    if (inventory.hasRemoved(found.record.uid)) {
      const message = 'an earlier write has created its record again after the server was removed'
      inventory.update(entry, transition(entry.record, { type: 'end', reason: 'Deleted', message }, clock.now()))
    }
    requeue(entry)
    this.#deps.changes.serverAdopted(found.record)
  }

  /**
   * Adds a server whose record is lost and whose game reports a match: the store is older than the server, or damaged. Returns
   * false if its build does not exist or its name is taken.
   */
  recover(instance: Instance, { build: { uid: buildUid, ...buildRef }, sessionHostId }: InstanceOrigin): boolean {
    const { clock, inventory, logger } = this.#ctx
    const build = inventory.builds.get(keyOf(buildRef))
    const { token } = readSessionHostId(sessionHostId) ?? {}
    if (build?.record.uid !== buildUid || token === undefined || inventory.servers.has(keyOf(instance.ref)))
      return false
    const now = clock.now()
    const entry = inventory.addServer(
      build,
      {
        ...instance.ref,
        uid: instance.uid,
        token,
        build: build.record.name,
        buildUid,
        // Unknown, so that the end of this server does not count for or against the current template.
        templateHash: '',
        createdAt: now,
        state: 'Initializing',
        health: 'Unknown',
        sessions: [],
        reachedInitializingOn: now,
        data: build.initialData,
      },
      undefined,
    )
    logger.warn({ server: keyOf(instance.ref) }, 'a match runs on a server that has no record; it goes on as Active')
    this.#deps.observe(instance)
    inventory.update(entry, transition(entry.record, { type: 'foundActive', health: 'Healthy' }, now))
    this.#ctx.requeue(entry)
    return true
  }

  /** Applies a version reported by the store's watch. Returns false if the record must be read instead. */
  accept(entry: ServerEntry, found: Versioned<Server>): boolean {
    const { record, stored } = entry
    let isAccepted = true
    try {
      isAccepted = this.#deps.writer.accept(entry, found)
    } catch (error) {
      throwUnlessLost(error)
    }
    this.#requeueIfChanged(entry, record, stored)
    return isAccepted
  }

  /** Reads a server's record again after another writer has changed or deleted it. */
  async refresh(entry: ServerEntry): Promise<void> {
    const { record, stored } = entry
    await this.#deps.writer.refresh(entry).catch(throwUnlessLost)
    this.#requeueIfChanged(entry, record, stored)
  }

  #requeueIfChanged(entry: ServerEntry, record: Server, stored: Server | undefined): void {
    // If the server was removed in the meantime, a record with its name belongs to another server and is adopted
    // separately.
    if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) return
    // If a record was rewritten without a change, an ongoing back-off must not be cut short.
    if (entry.record !== record || entry.stored !== stored) this.#ctx.requeue(entry)
  }
}

/** If the server is lost, its entry already has the new state. */
function throwUnlessLost(error: unknown): void {
  if (!(error instanceof LostServer)) throw error
}
