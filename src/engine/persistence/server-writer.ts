/**
 * Makes a server's present record durable: one write at a time per server, by compare-and-swap, and with an answer that
 * can be relied on. A write whose outcome nobody knows is read back before anything else is decided.
 */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import { isIdle, transition } from '../../rules/lifecycle/lifecycle.js'
import type { Server, Session } from '../../rules/model/resources.js'
import type { Store, Versioned } from '../../contracts/store.js'
import type { ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'

/**
 * The record is not ours to write: it is gone from the store, and the server ends; or another host has handed the server
 * out, and it is that session's; or has ended it. Each time the entry tells so already.
 */
export class LostServer extends Error {}

const mostAttempts = 5
const nothingToDo = Promise.resolve()

export interface ServerWriter {
  /**
   * Resolves when what the entry is now, its intended session included, is durable; the intent has then become the
   * session. If the server ended meanwhile, the intent is still there, for another save to take it out of the store.
   * Throws LostServer, or the store's error when the outcome is not known.
   */
  save(entry: ServerEntry): Promise<void>
  /** Nobody knows what became of its intent. `granted` is called, once, when that is found to be in the store. */
  markUncertain(entry: ServerEntry, granted: () => void): void
  /**
   * Finds out what became of an uncertain intent: the server is Active when its session is in the store, else it is
   * freed, and a write that was thought lost can land no more. Throws LostServer, or the store's error: still uncertain.
   */
  resolveUncertain(entry: ServerEntry): Promise<void>
  /**
   * Looks at what others have made of its record: takes it over where it is theirs to say, else has it written again. Throws
   * LostServer, or the store's error.
   */
  refresh(entry: ServerEntry): Promise<void>
}

export function serverWriter(store: Store, inventory: Inventory, clock: Clock): ServerWriter {
  const inDoubt = new WeakMap<ServerEntry, () => void>()

  const save = (entry: ServerEntry) => inTurn(entry, isUnsaved, write)
  const resolve = (entry: ServerEntry) => inTurn(entry, isUncertain, settle)
  const check = (entry: ServerEntry) => inTurn(entry, isInStore, compare)

  function doubt(entry: ServerEntry, granted: () => void): void {
    entry.uncertain = true
    inDoubt.set(entry, granted)
  }

  /** After what is being written about this server already, and only if it is still wanted then. */
  function inTurn(
    entry: ServerEntry,
    isWanted: (entry: ServerEntry) => boolean,
    work: (entry: ServerEntry) => Promise<void>,
  ): Promise<void> {
    if (entry.saving) {
      const afterwards = () => inTurn(entry, isWanted, work)
      return entry.saving.then(afterwards, afterwards)
    }
    if (!isWanted(entry)) return nothingToDo
    const saving = work(entry)
    entry.saving = saving
    const over = () => {
      entry.saving = undefined
    }
    saving.then(over, over)
    return saving
  }

  async function settle(entry: ServerEntry): Promise<void> {
    const current = await store.servers.get(entry.record)
    if (current?.record.uid !== entry.record.uid) throw gone(entry, 'its record is gone from the store', undefined)
    entry.revision = current.revision
    const hasLanded = current.record.session !== undefined && current.record.session.id === entry.intent?.id
    if (hasLanded && entry.record.state === 'StandingBy') {
      landed(entry, undefined, current.record, entry.intent)
      inDoubt.get(entry)?.()
      return
    }
    yieldTo(entry, current)
    // Writing upon what was read fences off the lost write: upon the older revision it must fail.
    const written = entry.record
    entry.revision = await store.servers.update(written, current.revision)
    entry.stored = written
    inventory.release(entry)
  }

  async function compare(entry: ServerEntry): Promise<void> {
    const current = await store.servers.get(entry.record)
    if (current?.record.uid !== entry.record.uid) throw gone(entry, 'its record is gone from the store', undefined)
    if (current.revision === entry.revision) return
    entry.revision = current.revision
    if (entry.stored && isSame(current.record, entry.stored)) return
    yieldTo(entry, current)
    // What this host knows of it goes before what somebody has written there: it is saved again.
    entry.stored = current.record
  }

  async function write(entry: ServerEntry): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const { record: base, intent } = entry
      const written = intent ? transition(base, { type: 'allocated', session: intent }, clock.now()) : base
      try {
        entry.revision =
          entry.revision === undefined
            ? await store.servers.create(written)
            : await store.servers.update(written, entry.revision)
        landed(entry, base, written, intent)
        return
      } catch (error) {
        if (FleetError.is(error, 'not-found')) throw gone(entry, 'its record is gone from the store', error)
        if (await readBack(entry, base, written, intent, error)) return
        if (attempt >= mostAttempts) throw error
      }
    }
  }

  /** True when the write has landed after all; false when it must be tried again. */
  async function readBack(
    entry: ServerEntry,
    base: Server,
    written: Server,
    intent: Session | undefined,
    error: unknown,
  ): Promise<boolean> {
    const current = await store.servers.get(entry.record)
    if (current === undefined) {
      if (entry.revision === undefined) return false
      throw gone(entry, 'its record is gone from the store', error)
    }
    if (current.record.uid !== written.uid) throw gone(entry, 'its name belongs to another server', error)
    // Still what we wrote upon: the write may land late, and then the next one, upon the same revision, fails and tells.
    if (current.revision === entry.revision) return false
    entry.revision = current.revision
    if (isSame(current.record, written)) {
      landed(entry, base, current.record, intent)
      return true
    }
    yieldTo(entry, current)
    return false
  }

  function landed(entry: ServerEntry, base: Server | undefined, written: Server, session: Session | undefined): void {
    entry.stored = written
    // An intent that came while this was being written is not in it: nobody has the server yet.
    if (!session || session !== entry.intent) return
    // The server may have changed while the write was on its way: a session is only ever given to one that stands by.
    const next = entry.record === base ? written : transition(entry.record, { type: 'allocated', session }, clock.now())
    if (next.session?.id === session.id) inventory.grant(entry, next)
    // It has ended. Until the store has forgotten the session, no other server may have it.
    else if (!written.session) inventory.release(entry)
  }

  /** Without a record it is nobody's: nothing is left to write or to hand out, and it ends. */
  function gone(entry: ServerEntry, why: string, cause: unknown): LostServer {
    const error = lost(entry, why, cause)
    entry.recordDeleted = true
    const event = { type: 'end' as const, reason: 'Deleted' as const, message: error.message }
    inventory.update(entry, transition(entry.record, event, clock.now()))
    inventory.release(entry)
    return error
  }

  /**
   * True when another host has handed it out. Not when that session has a server here: then it is a write of a host that
   * died, come too late, and what this host has answered since is what counts.
   */
  function isGivenAway(entry: ServerEntry, { session }: Server): boolean {
    if (!session || !isIdle(entry.record)) return false
    const holder = inventory.serverBySession(session.id)
    return holder === undefined || holder === entry
  }

  /** What another host has done with an idle server stands: it has handed it out, or ended it. */
  function yieldTo(entry: ServerEntry, { record }: Versioned<Server>): void {
    const isEnded = record.state === 'Terminating' && isIdle(entry.record)
    if (!isEnded && !isGivenAway(entry, record)) return
    entry.stored = record
    inventory.grant(entry, record)
    throw lost(entry, isEnded ? 'another host has ended it' : 'another host has handed it out', undefined)
  }

  return { save, markUncertain: doubt, resolveUncertain: resolve, refresh: check }
}

/** True when the store holds what the entry is. */
export function isSaved(entry: ServerEntry): boolean {
  return entry.record === entry.stored && entry.intent === undefined
}

function isUnsaved(entry: ServerEntry): boolean {
  return !isSaved(entry) && !entry.recordDeleted
}

function isInStore(entry: ServerEntry): boolean {
  return entry.revision !== undefined && !entry.recordDeleted && !entry.uncertain
}

function isUncertain(entry: ServerEntry): boolean {
  return entry.uncertain
}

function isSame(a: Server, b: Server): boolean {
  return (
    a.state === b.state &&
    a.health === b.health &&
    a.address === b.address &&
    a.node === b.node &&
    a.templateHash === b.templateHash &&
    JSON.stringify(a.ports) === JSON.stringify(b.ports) &&
    a.session?.id === b.session?.id &&
    a.ending?.reason === b.ending?.reason
  )
}

function lost(entry: ServerEntry, why: string, cause: unknown): LostServer {
  return new LostServer(`${entry.record.name}: ${why}`, { cause })
}
