/**
 * Gives further sessions to servers that have some. Room is promised in the tick in which a caller finds it, so no server gets more
 * sessions than its build allows. The sessions that are added while a server's record is being written share the next write.
 */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { sessionByKey, withoutAdded } from '../../rules/lifecycle/sessions.js'
import type { ServerSelector } from '../../rules/model/allocation.js'
import type { NewSession } from '../../rules/model/resources.js'
import type { ServerData } from '../../rules/model/server-data.js'
import { sessionKey } from '../../rules/model/session-ids.js'
import { fits, type Selection, withChange } from '../../rules/planning/selection.js'
import type { EngineContext } from '../context.js'
import { LostServer, type ServerWriter } from '../persistence/server-writer.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Fullest } from '../state/slot-index.js'
import type { HeldServer } from '../allocation/batch-gate.js'
import { outcomeUnknownError } from '../allocation/allocation-errors.js'

export class FurtherSessions {
  readonly #ctx: EngineContext
  readonly #writer: Pick<ServerWriter, 'save'>

  constructor(ctx: EngineContext, writer: Pick<ServerWriter, 'save'>) {
    this.#ctx = ctx
    this.#writer = writer
  }

  /** The fullest server with room, of those that fit the selector if there is one. */
  pick(
    builds: readonly BuildEntry[],
    selector?: ServerSelector,
    change?: Selection['change'],
    meets = fits,
  ): ServerEntry | undefined {
    let best: Fullest | undefined
    const { annotations, ...others } = change ?? {}
    const shared = change && others
    const accepts = (data: ServerData) => !selector || meets(data, selector, shared)
    const takes = selector && annotations && ((data?: ServerData) => meets(data, selector, change))
    for (const { draining, slots } of builds) {
      const found = draining ? undefined : slots?.fullest(accepts, takes)
      if (!found || (best && !isBetter(found, best))) continue
      best = found
    }
    return best?.entry
  }

  /** Keeps room for one session. `add` or `giveUp` follows. */
  promise(entry: ServerEntry): void {
    entry.promised++
    this.#ctx.inventory.slotsChanged(entry)
  }

  giveUp(entry: ServerEntry): void {
    entry.promised--
    this.#ctx.inventory.slotsChanged(entry)
  }

  /** Room that is promised to a session of an atomic batch. */
  held(entry: ServerEntry, fits: () => boolean): HeldServer {
    return {
      isFree: () => (isRunning(entry) || entry.held || entry.intent !== undefined) && fits(),
      reserve: () => {},
      release: () => this.giveUp(entry),
    }
  }

  /**
   * Adds a session for which there is room. Resolves when that is durable, or with false if the session needs another server. Throws if the
   * outcome is unknown: the session stays with this server.
   */
  async add(entry: ServerEntry, session: NewSession, selection: Selection | undefined): Promise<boolean> {
    await this.#untilRunning(entry)
    entry.promised--
    if (!isRunning(entry) || !this.#put(entry, session, selection)) {
      this.#ctx.inventory.slotsChanged(entry)
      return false
    }
    try {
      await this.#writer.save(entry)
    } catch (error) {
      this.#ctx.requeue(entry)
      if (!(error instanceof LostServer)) throw outcomeUnknownError(error)
      // There is no record in which it could be.
      if (entry.recordDeleted) {
        this.#ctx.inventory.update(entry, withoutAdded(entry.record, sessionKey(session.id)))
        return false
      }
    }
    const deposedError = this.#ctx.deposedError()
    if (deposedError) throw deposedError
    if (entry.record.state === 'Terminating' && sessionByKey(entry.record, sessionKey(session.id))) {
      // Its game has not been told of it, so it may have another server as soon as this is durable.
      this.#ctx.inventory.update(entry, withoutAdded(entry.record, sessionKey(session.id)))
      await this.#writer.save(entry).catch((error: unknown) => {
        if (!(error instanceof LostServer)) throw outcomeUnknownError(error)
      })
      return false
    }
    return this.#isStored(entry, session)
  }

  /** The server's first session may still be being written. If that fails, it concerns the caller of that session. */
  async #untilRunning(entry: ServerEntry): Promise<void> {
    while (entry.intent && !entry.uncertain) {
      const { intent } = entry
      const isOver = await this.#writer.save(entry).then(
        () => false,
        () => entry.intent === intent,
      )
      if (isOver) return
    }
  }

  #put(entry: ServerEntry, session: NewSession, selection: Selection | undefined): boolean {
    const { clock, inventory } = this.#ctx
    const { build, record } = entry
    const changed = selection ? withChange(record, selection, inventory.nameable(build)) : record
    if (!changed) return false
    const next = transition(changed, { type: 'allocated', session }, clock.now())
    if (next === changed) return false
    inventory.update(entry, next)
    return true
  }

  #isStored(entry: ServerEntry, { id }: NewSession): boolean {
    return entry.stored !== undefined && sessionByKey(entry.stored, sessionKey(id)) !== undefined
  }
}

function isRunning({ isLeaving, record }: ServerEntry): boolean {
  return record.state === 'Active' && !isLeaving
}

function isBetter(a: Fullest, b: Fullest): boolean {
  return a.isCurrent === b.isCurrent ? a.room < b.room : a.isCurrent
}
