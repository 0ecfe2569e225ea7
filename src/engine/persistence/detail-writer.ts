/** Writes who is connected: at most once a second per server, the latest list, never in the way of a heartbeat. */
import { FleetError, messageOf } from '../../contracts/errors.js'
import type { Detail } from '../../rules/model/resources.js'
import { type EngineContext, serverEvent } from '../context.js'
import type { ServerEntry } from '../state/entries.js'

export interface DetailWriter {
  /** Remembers that the players of this server changed. */
  changed(entry: ServerEntry): void
  /** Writes what is due. Called once a second. */
  flush(): void
  /** Removes the detail of a server that is gone. */
  remove(entry: ServerEntry): Promise<void>
  /** Resolves when nothing is left to write or what is left cannot be written. */
  close(): Promise<void>
}

const mostAttempts = 5

export function detailWriter(ctx: EngineContext): DetailWriter {
  const { store } = ctx
  const dirty = new Set<ServerEntry>()
  const writing = new Map<ServerEntry, Promise<void>>()
  /** Nobody knows what the store holds of them: a write failed, and so did reading it back. */
  const unsure = new Set<ServerEntry>()

  function start(entry: ServerEntry): Promise<void> {
    dirty.delete(entry)
    const done = write(entry)
      .catch((error: unknown) => {
        ctx.logger.warn({ server: entry.record.name, error: messageOf(error) }, 'players could not be written yet')
        dirty.add(entry)
      })
      .finally(() => {
        writing.delete(entry)
      })
    writing.set(entry, done)
    return done
  }

  async function write(entry: ServerEntry): Promise<void> {
    const { namespace, name, build } = entry.record
    const detail: Detail = { namespace, name, build, players: entry.players }
    try {
      entry.detailRevision =
        entry.detailRevision === undefined
          ? await store.details.create(detail)
          : await store.details.update(detail, entry.detailRevision)
    } catch (error) {
      // Whoever wrote it, the list that the game names now is the true one: next time upon what is there.
      await readBack(entry)
      throw error
    }
  }

  async function readBack(entry: ServerEntry): Promise<void> {
    unsure.add(entry)
    entry.detailRevision = (await store.details.get(entry.record))?.revision
    unsure.delete(entry)
  }

  return {
    changed(entry) {
      dirty.add(entry)
      ctx.emitter.emit({
        type: 'PlayersChanged',
        ...serverEvent(ctx, entry, `${entry.players.length} players on ${entry.record.name}`),
        players: entry.players,
      })
    },

    flush() {
      for (const entry of dirty) {
        if (ctx.inventory.servers.get(`${entry.record.namespace}/${entry.record.name}`) !== entry) dirty.delete(entry)
        else if (!writing.has(entry)) void start(entry)
      }
    },

    async remove(entry) {
      dirty.delete(entry)
      await writing.get(entry)
      dirty.delete(entry)
      if (unsure.has(entry)) await readBack(entry)
      for (let attempt = 1; entry.detailRevision !== undefined; attempt++) {
        try {
          await store.details.delete(entry.record, entry.detailRevision)
          entry.detailRevision = undefined
        } catch (error) {
          if (!FleetError.is(error, 'conflict') || attempt >= mostAttempts) throw error
          await readBack(entry)
        }
      }
    },

    async close() {
      await Promise.all([...writing.values()])
      await Promise.all([...dirty].map(start))
    },
  }
}
