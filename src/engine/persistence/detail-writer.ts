/**
 * Writes player lists to detail records: at most once a second per server, only the latest list, and never while handling a
 * heartbeat.
 */
import { FleetError } from '../../contracts/errors.js'
import { type Detail, keyOf } from '../../rules/model/resources.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

const maxAttempts = 5

export class DetailWriter {
  readonly #ctx: EngineContext
  readonly #dirty = new Set<ServerEntry>()
  readonly #writing = new Map<ServerEntry, Promise<void>>()
  /**
   * Servers whose detail in the store is in an unknown state, because a write failed and reading the detail back failed too.
   */
  readonly #uncertain = new Set<ServerEntry>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Marks the server's player list as changed, and emits the event. */
  changed(entry: ServerEntry): void {
    this.#dirty.add(entry)
    this.#ctx.emitter.emit({
      type: 'PlayersChanged',
      ...serverEvent(this.#ctx, entry, `${entry.players.length} players on ${entry.record.name}`),
      players: entry.players,
    })
  }

  /** Starts writing the changed lists. Called once a second. */
  flush(): void {
    for (const entry of this.#dirty) {
      if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) this.#dirty.delete(entry)
      else if (!this.#writing.has(entry)) void this.#start(entry)
    }
  }

  /** Deletes the detail of a server that has been removed. */
  async remove(entry: ServerEntry): Promise<void> {
    this.#dirty.delete(entry)
    await this.#writing.get(entry)
    this.#dirty.delete(entry)
    if (this.#uncertain.has(entry)) await this.#readBack(entry)
    for (let attempt = 1; entry.detailRevision !== undefined; attempt++) {
      try {
        await this.#ctx.store.details.delete(entry.record, entry.detailRevision)
        entry.detailRevision = undefined
      } catch (error) {
        if (!FleetError.is(error, 'conflict') || attempt >= maxAttempts) throw error
        await this.#readBack(entry)
      }
    }
  }

  /** Writes the changed lists. Resolves when each write has succeeded or failed. */
  async close(): Promise<void> {
    await Promise.all([...this.#writing.values()])
    await Promise.all([...this.#dirty].map((entry) => this.#start(entry)))
  }

  #start(entry: ServerEntry): Promise<void> {
    this.#dirty.delete(entry)
    const done = this.#write(entry)
      .catch((error: unknown) => {
        this.#ctx.logger.warn({ server: entry.record.name, err: error }, 'players could not be saved; will retry')
        this.#dirty.add(entry)
      })
      .finally(() => {
        this.#writing.delete(entry)
      })
    this.#writing.set(entry, done)
    return done
  }

  async #write(entry: ServerEntry): Promise<void> {
    const { details } = this.#ctx.store
    const { namespace, name, build } = entry.record
    const detail: Detail = { namespace, name, build, players: entry.players }
    try {
      entry.detailRevision =
        entry.detailRevision === undefined
          ? await details.create(detail)
          : await details.update(detail, entry.detailRevision)
    } catch (error) {
      // The game's current list is authoritative, so the next write replaces the stored list.
      await this.#readBack(entry)
      throw error
    }
  }

  async #readBack(entry: ServerEntry): Promise<void> {
    this.#uncertain.add(entry)
    entry.detailRevision = (await this.#ctx.store.details.get(entry.record))?.revision
    this.#uncertain.delete(entry)
  }
}
