/** Changes the labels, annotations, counters and lists of servers. They are in the records, so a restart does not change them. */
import { FleetError, invalidInput } from '../../contracts/errors.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { readDataUpdate, updatedData } from '../../rules/lifecycle/server-data.js'
import { keyOf } from '../../rules/model/resources.js'
import type { Problem } from '../../rules/validation/problem.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { ServerEntry } from '../state/entries.js'
import { isUncertain } from '../state/queries.js'

export class ServerDataUpdates {
  readonly #ctx: EngineContext
  readonly #writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>

  constructor(ctx: EngineContext, writer: Pick<ServerWriter, 'resolveUncertain' | 'save'>) {
    this.#ctx = ctx
    this.#writer = writer
  }

  /**
   * Atomic, and made in the tick of the call, unless the server is just being allocated by a request that depends on its data. Resolves when it is durable. Rejects with `invalid`, `out-of-range`,
   * `not-found` if the server is terminating, `not-leader` if another host leads now and may not know the change, or the store's error:
   * the change is then written as soon as the store works.
   */
  async update(entry: ServerEntry, change: unknown): Promise<void> {
    const update = readDataUpdate(change)
    if (!update.ok) throw invalidInput(update.problem, 'the change')
    // The server is being allocated because its data fit, and they must still fit when that is stored.
    while (isSelected(entry)) await this.#save(entry)
    if (entry.record.state === 'Terminating') {
      throw new FleetError('not-found', `server ${keyOf(entry.ref)} is terminating`)
    }
    const updated = updatedData(entry.record.data, update.value)
    if (!updated.ok) throw refused(updated.code, updated.problem)
    const { clock, inventory } = this.#ctx
    inventory.update(entry, transition(entry.record, { type: 'data', data: updated.data }, clock.now()))
    await this.#save(entry)
    // If another host is the leader now, it may have read the record before this change was stored.
    const deposedError = this.#ctx.deposedError()
    if (deposedError) throw deposedError
    if (entry.recordDeleted) throw new FleetError('not-found', `the record of server ${keyOf(entry.ref)} was deleted`)
  }

  async #save(entry: ServerEntry): Promise<void> {
    try {
      // The outcome of its allocation decides which record this change belongs to.
      if (isUncertain(entry)) await this.#writer.resolveUncertain(entry)
      await this.#writer.save(entry)
    } catch (error) {
      if (!(error instanceof LostServer)) throw error
      if (entry.record.state === 'Terminating') {
        throw new FleetError('not-found', `server ${keyOf(entry.ref)} has been terminated`, { cause: error })
      }
      // Another host has allocated the server, and the update still has to be saved.
      await this.#save(entry)
    }
  }
}

/** True if the server, which has no session yet, is being allocated by a request that depends on its data. */
function isSelected({ places, record }: ServerEntry): boolean {
  return record.state === 'StandingBy' && places.some(({ selection, state }) => selection && state !== 'held')
}

function refused(code: 'invalid' | 'out-of-range', { field, message }: Problem): FleetError {
  return new FleetError(code, `${field} ${message}`)
}
