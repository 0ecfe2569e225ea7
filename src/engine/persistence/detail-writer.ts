/**
 * Writes player lists to detail records: on average at most once a second per server, only the latest list, and never while
 * handling a heartbeat. The rules are in `rules/planning/player-writes.ts`.
 */
import { type Detail, keyOf } from '../../rules/model/resources.js'
import { isWrittenAtInterval, isWrittenAtOnce, type LastWrite } from '../../rules/planning/player-writes.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { counted } from '../../rules/validation/problem.js'

export class DetailWriter {
  readonly #ctx: EngineContext
  /** The servers whose list is not written yet, with the elapsed time of the list's last change. */
  readonly #dirty = new Map<ServerEntry, number>()
  readonly #lastWrites = new WeakMap<ServerEntry, LastWrite>()
  readonly #writing = new Map<ServerEntry, Promise<void>>()
  /**
   * Servers whose detail in the store is in an unknown state, because a write failed and reading the detail back failed too.
   */
  readonly #uncertain = new Set<ServerEntry>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Marks the server's player list as changed, writes it if it must not wait, and emits the event. */
  changed(entry: ServerEntry): void {
    this.#dirty.set(entry, this.#ctx.clock.elapsed())
    this.#writeAtOnce(entry)
    this.#ctx.emitter.emit({
      type: 'PlayersChanged',
      ...serverEvent(this.#ctx, entry, `${counted(entry.players.length, 'player')} on ${entry.record.name}`),
      players: entry.players,
    })
  }

  /** Starts writing the changed lists. Called once a second. */
  flush(): void {
    const now = this.#ctx.clock.elapsed()
    for (const [entry, changedAt] of this.#dirty) {
      if (this.#writing.has(entry)) continue
      if (this.#isRemoved(entry) || isWrittenAtInterval(entry.players.length, changedAt, now)) void this.#start(entry)
    }
  }

  /**
   * Starts to delete the detail of a server that has been removed. That is retried until it succeeds, or until a host that begins to lead
   * finds a detail without a server.
   */
  remove(entry: ServerEntry): void {
    this.#dirty.set(entry, this.#ctx.clock.elapsed())
    this.#writeAtOnce(entry)
  }

  /** Writes the changed lists. Resolves when each write has succeeded or failed. */
  async close(): Promise<void> {
    await Promise.all([...this.#writing.values()])
    await Promise.all(Array.from(this.#dirty.keys(), (entry) => this.#start(entry)))
  }

  #writeAtOnce(entry: ServerEntry): void {
    if (this.#writing.has(entry) || this.#ctx.stopped()) return
    const now = this.#ctx.clock.elapsed()
    const isDue = this.#isRemoved(entry) || isWrittenAtOnce(entry.players.length, this.#lastWrites.get(entry), now)
    if (isDue) void this.#start(entry)
  }

  #start(entry: ServerEntry): Promise<void> {
    const changedAt = this.#dirty.get(entry) ?? 0
    this.#dirty.delete(entry)
    // Deferred, so that the heartbeat is answered first.
    const written = Promise.resolve().then(() => this.#write(entry))
    const done = written.then(
      () => {
        this.#writing.delete(entry)
        // Players may have connected while an empty list was being written.
        if (this.#dirty.has(entry)) this.#writeAtOnce(entry)
      },
      (error: unknown) => {
        this.#writing.delete(entry)
        this.#ctx.logger.warn({ server: entry.record.name, err: error }, 'cannot save players; will retry')
        if (!this.#dirty.has(entry)) this.#dirty.set(entry, changedAt)
      },
    )
    this.#writing.set(entry, done)
    return done
  }

  async #write(entry: ServerEntry): Promise<void> {
    const { details } = this.#ctx.store
    const { namespace, name, build } = entry.record
    const isRemoved = this.#isRemoved(entry)
    if (isRemoved && this.#uncertain.has(entry)) await this.#readBack(entry)
    if (isRemoved && entry.detailRevision === undefined) return
    this.#lastWrites.set(entry, { at: this.#ctx.clock.elapsed(), count: entry.players.length })
    const detail: Detail = { namespace, name, build, players: entry.players }
    try {
      if (entry.detailRevision === undefined) entry.detailRevision = await details.create(detail)
      else if (isRemoved) await details.delete(detail, entry.detailRevision)
      else entry.detailRevision = await details.update(detail, entry.detailRevision)
    } catch (error) {
      // The game's current list is authoritative, so the next write, at the end of an interval, replaces the stored list.
      await this.#readBack(entry)
      throw error
    }
  }

  #isRemoved(entry: ServerEntry): boolean {
    return this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry
  }

  async #readBack(entry: ServerEntry): Promise<void> {
    this.#uncertain.add(entry)
    entry.detailRevision = (await this.#ctx.store.details.get(entry.record))?.revision
    this.#uncertain.delete(entry)
  }
}
