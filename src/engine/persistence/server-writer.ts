/** Makes server records durable by compare-and-swap, one write at a time per server. Reads a record back after an unknown outcome. */
import type { Clock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { Store, Versioned } from '../../contracts/store.js'
import { isIdle, transition, unlapsed } from '../../rules/lifecycle/lifecycle.js'
import {
  hasLaterEnd,
  isSameHolds,
  isSameSessions,
  sessionWithId,
  withInitialHolds,
} from '../../rules/lifecycle/server-sessions.js'
import { isSameData, mergedData, repairedData } from '../../rules/lifecycle/server-data.js'
import { isError } from '../../rules/model/values.js'
import type { Server } from '../../rules/model/resources.js'
import { withChange } from '../../rules/planning/selection.js'
import type { Place, ServerEntry } from '../state/entries.js'
import type { Inventory } from '../state/inventory.js'
import { isInStore, isUncertain, isUnsaved } from '../state/queries.js'

/**
 * Thrown if this host must not write the record, because the record has been deleted or cannot exist, or another host has allocated or
 * terminated the server. The entry has already been updated accordingly.
 */
export class LostServer extends Error {}

const maxAttempts = 5
const nothingToDo = Promise.resolve()

export class ServerWriter {
  readonly #store: Pick<Store, 'servers'>
  readonly #inventory: Inventory
  readonly #clock: Pick<Clock, 'now'>

  constructor(store: Pick<Store, 'servers'>, inventory: Inventory, clock: Pick<Clock, 'now'>) {
    this.#store = store
    this.#inventory = inventory
    this.#clock = clock
  }

  /**
   * Resolves when the entry's current record is durable, with the sessions of its places, as far as the server still takes them: see the
   * places' states. If the server ended during the write, a place stays listed, and another save removes its session from the store. Rejects
   * with LostServer, or with the store's error if the outcome is unknown.
   */
  save(entry: ServerEntry): Promise<void> {
    return this.#inTurn(entry, isUnsaved, this.#write)
  }

  /**
   * Determines the outcome of a write that is unknown. Sessions that are in the store become those of the record. The other places that it
   * contained are given up, after another write has ensured that the lost one can no longer take effect. Rejects with LostServer, or with the
   * store's error, in which case the outcome stays unknown.
   */
  resolveUncertain(entry: ServerEntry): Promise<void> {
    return this.#inTurn(entry, isUncertain, this.#settle)
  }

  /**
   * Reads the record and compares it with what this host last stored. Accepts the changes that other hosts are allowed to
   * make. After any other change, the record counts as unsaved, so that this host writes its own version again. Rejects with
   * LostServer, or with the store's error.
   */
  refresh(entry: ServerEntry): Promise<void> {
    return this.#inTurn(entry, isInStore, this.#compare)
  }

  /**
   * Like `refresh`, but with a version reported by the store's watch. Returns false if it cannot be used, because this host is
   * writing the record or does not know its state in the store. Throws LostServer.
   */
  accept(entry: ServerEntry, found: Versioned<Server>): boolean {
    if (entry.saving || !isInStore(entry)) return false
    this.#reconcileWith(entry, found)
    return true
  }

  /** Runs `work` after the write in progress, if `isWanted` is still true then. */
  #inTurn(
    entry: ServerEntry,
    isWanted: (entry: ServerEntry) => boolean,
    work: (entry: ServerEntry) => Promise<void>,
  ): Promise<void> {
    if (entry.saving) {
      const afterwards = () => this.#inTurn(entry, isWanted, work)
      return entry.saving.then(afterwards, afterwards)
    }
    if (!isWanted(entry)) return nothingToDo
    const saving = work(entry)
    entry.saving = saving
    const clear = () => {
      entry.saving = undefined
    }
    saving.then(clear, clear)
    return saving
  }

  readonly #settle = async (entry: ServerEntry): Promise<void> => {
    const current = await this.#store.servers.get(entry.record)
    if (current?.record.uid !== entry.record.uid) throw this.#endLost(entry, recordDeleted)
    entry.revision = current.revision
    const stored = entry.places.filter((place) => place.state === 'writing' && isIn(current.record, place))
    if (stored.length > 0) this.#accept(entry, undefined, current.record, stored)
    const left = entry.places.filter(({ state }) => state === 'writing')
    if (left.length === 0) return
    this.#yieldTo(entry, current)
    // This write changes the revision, so that the lost write fails if it still reaches the store.
    const written = entry.record
    entry.revision = await this.#store.servers.update(written, current.revision)
    entry.stored = written
    for (const place of left) this.#inventory.release(place)
  }

  readonly #compare = async (entry: ServerEntry): Promise<void> => {
    this.#reconcileWith(entry, await this.#store.servers.get(entry.record))
  }

  #reconcileWith(entry: ServerEntry, current: Versioned<Server> | undefined): void {
    if (current?.record.uid !== entry.record.uid) throw this.#endLost(entry, recordDeleted)
    if (current.revision === entry.revision) return
    entry.revision = current.revision
    if (entry.stored && isSameRecord(current.record, entry.stored)) return
    this.#yieldTo(entry, current)
    // This host's record takes precedence over the external edit and is saved again.
    entry.stored = current.record
  }

  readonly #write = async (entry: ServerEntry): Promise<void> => {
    const { servers } = this.#store
    /** The error of a write that may still take effect. */
    let unknown: Error | undefined
    for (let attempt = 1; ; attempt++) {
      const { ends, record: base } = entry
      const { carried, unfit, written } = this.#composed(entry)
      // Nothing can take effect for those that no write has contained.
      for (const place of unfit) if (place.state === 'reserved') this.#inventory.release(place)
      const left = unfit.filter(({ state }) => state === 'writing')
      if (unfit.length > 0 && written === entry.stored && !ends) {
        if (left.length === 0) return
        // Otherwise a write has to ensure that the lost one, which contained them, can no longer take effect.
        if (unknown) throw unknown
      }
      for (const place of carried) place.state = 'writing'
      try {
        entry.revision =
          entry.revision === undefined ? await servers.create(written) : await servers.update(written, entry.revision)
        this.#accept(entry, base, written, carried, ends)
        for (const place of left) this.#inventory.release(place)
        return
      } catch (error) {
        if (FleetError.is(error, 'not-found')) throw this.#endLost(entry, recordDeleted, error)
        const { revision } = entry
        if (await this.#readBack(entry, base, written, carried, ends, error)) return
        if (entry.revision === undefined && unknown === undefined && FleetError.is(error, 'invalid')) {
          // Nothing would be left to terminate. What is not terminating is tried again: its build may be changed.
          throw entry.record.state === 'Terminating' ? this.#endLost(entry, recordRefused, error) : error
        }
        const mayLand = revision === entry.revision && !FleetError.is(error, 'conflict')
        unknown = mayLand && isError(error) ? error : undefined
        if (attempt >= maxAttempts) throw error
      }
    }
  }

  /** The record with what is to be written, and which places' sessions it contains. The server does not take the others. */
  #composed(entry: ServerEntry): Composed {
    const { ends, places, record } = entry
    let written = ends ? withoutEnded(record, ends, this.#clock.now()) : record
    if (places.length === 0) return { written, carried: places, unfit: places }
    const carried: Place[] = []
    const unfit: Place[] = []
    for (const place of places) {
      if (place.state === 'held') continue
      const next = this.#withPlace(written, place)
      if (next) {
        written = next
        carried.push(place)
      } else unfit.push(place)
    }
    return { written, carried, unfit }
  }

  /** Returns undefined if the server does not take the session, or does not fit its request any more. */
  #withPlace(record: Server, { entry, selection, session, state }: Place): Server | undefined {
    const { build, isLeaving } = entry
    if (record.state !== 'StandingBy' && record.state !== 'Active') return undefined
    if (record.state === 'Active' && isLeaving && state === 'reserved') return undefined
    const changed = selection ? withChange(record, selection, this.#inventory.nameable(build)) : record
    if (!changed) return undefined
    const now = this.#clock.now()
    const hasSeats = build.record.spec.seatsPerSession !== undefined && session.initialPlayers.length > 0
    const seated = hasSeats ? withInitialHolds(session, now) : session
    const next = transition(changed, { type: 'allocated', session: seated }, now)
    return next === changed ? undefined : next
  }

  /** Returns true if the write took effect after all, or false if it must be retried. */
  async #readBack(
    entry: ServerEntry,
    base: Server,
    written: Server,
    carried: readonly Place[],
    ends: ServerEntry['ends'],
    error: unknown,
  ): Promise<boolean> {
    const current = await this.#store.servers.get(entry.record)
    if (current === undefined) {
      if (entry.revision === undefined) return false
      throw this.#endLost(entry, recordDeleted, error)
    }
    if (current.record.uid !== written.uid) throw this.#endLost(entry, 'its name belongs to another server', error)
    // The record has not changed yet. If the write still takes effect later, the retry with the same revision fails with a
    // conflict.
    if (current.revision === entry.revision) return false
    entry.revision = current.revision
    if (isSameRecord(current.record, written)) {
      this.#accept(entry, base, current.record, carried, ends)
      return true
    }
    // An earlier attempt has taken effect, before others joined it.
    const landed = carried.filter((place) => isIn(current.record, place))
    if (landed.length > 0) this.#accept(entry, undefined, current.record, landed)
    this.#yieldTo(entry, current)
    entry.stored = current.record
    return false
  }

  /** Updates the entry after `written` has been stored. `base`: the record that it was made from. */
  #accept(
    entry: ServerEntry,
    base: Server | undefined,
    written: Server,
    carried: readonly Place[],
    ends?: ServerEntry['ends'],
  ): void {
    const before = base ?? entry.stored
    entry.stored = written
    if (ends) {
      // Reports that arrived meanwhile are not included in this write, and go on waiting.
      const left = entry.ends?.filter((ended) => !ends.includes(ended)) ?? []
      entry.ends = left.length > 0 ? left : undefined
    }
    const next = entry.record === base ? written : this.#replayed(entry.record, before, written, carried, ends)
    if (carried.length === 0) {
      if (next !== entry.record) this.#inventory.update(entry, next)
      return
    }
    this.#inventory.grant(entry, next)
    for (const place of carried) {
      if (place.state === 'durable') place.granted?.()
      // The server has ended. If the store contains the session, no other server may get it until it is removed.
      else if (!isIn(written, place)) this.#inventory.release(place)
    }
  }

  /** The record, which has changed since `before` was, with what the write has made durable. */
  #replayed(
    record: Server,
    before: Server | undefined,
    written: Server,
    carried: readonly Place[],
    ends: ServerEntry['ends'],
  ): Server {
    const now = this.#clock.now()
    let next = withoutEnded(record, ends, now)
    for (const { entry, selection, session } of carried) {
      const stored = sessionWithId(written, session.id)
      if (!stored) continue
      if (selection?.change) {
        const changed = withChange(next, selection, this.#inventory.nameable(entry.build))
        const data = changed?.data ?? mergedData(before?.data, next.data, written.data)
        next = transition(next, { type: 'data', data }, now)
      }
      next = transition(next, { type: 'allocated', session: stored }, now)
    }
    return next
  }

  /** Terminates a server whose record has been deleted, so that it is neither written nor allocated again. */
  #endLost(entry: ServerEntry, why: string, cause?: unknown): LostServer {
    const error = lost(entry, why, cause)
    entry.recordDeleted = true
    entry.ends = undefined
    const event = { type: 'end' as const, reason: 'Deleted' as const, message: error.message }
    const ended = transition(entry.record, event, this.#clock.now())
    this.#inventory.update(entry, ended)
    this.#inventory.releaseAll(entry)
    return error
  }

  /**
   * Accepts what another host or a person may change: maintenance and a reservation, unless this host has an unsaved change of it, the
   * server's data, except for what this host has changed and not saved yet, that another host has allocated or terminated this
   * idle server, and that another host has heard of the end of its session. In the last two cases throws LostServer.
   */
  #yieldTo(entry: ServerEntry, { record }: Versioned<Server>): void {
    const isUnsaved = entry.record.maintenance?.at !== entry.stored?.maintenance?.at
    const { maintenance } = isUnsaved ? entry.record : record
    const isReservation = entry.record.reservedUntil !== entry.stored?.reservedUntil
    const now = this.#clock.now()
    const until = isReservation ? entry.record.reservedUntil : unlapsed(record.reservedUntil, now)
    const isEnded = record.state === 'Terminating' && isIdle(entry.record)
    // What this host is about to write may be there already.
    const isSessionEnded = hasLaterEnd(record, withoutEnded(entry.record, entry.ends, now))
    const isLost = isEnded || isSessionEnded || this.#isAllocatedElsewhere(entry, record)
    // Before the record is replaced, because it says what this host has changed.
    const theirs = record.data && repairedData(record.data, entry.record.data)
    // A late write of a dead host whose session has another server by now: its data belong to that session.
    const [first] = record.sessions
    const isRefused = !isLost && first !== undefined && first.id !== entry.record.sessions[0]?.id
    const data = isRefused ? entry.record.data : mergedData(entry.stored?.data, entry.record.data, theirs)
    const announced = transition(isLost ? record : entry.record, { type: 'maintenance', maintenance }, now)
    const reserved = transition(announced, { type: 'reservation', until }, now)
    const next = transition(reserved, { type: 'data', data }, now)
    if (!isLost) return this.#inventory.update(entry, next)
    entry.stored = record
    entry.ends = undefined
    this.#inventory.grant(entry, next)
    this.#inventory.releaseAll(entry)
    throw lost(entry, isEnded || isSessionEnded ? 'another host has ended it' : 'another host has allocated it')
  }

  /**
   * True if another host has allocated the server. False if this host has another server for that session: the record then
   * comes from a late write by a dead host, and what this host has since told callers takes precedence.
   */
  #isAllocatedElsewhere(entry: ServerEntry, record: Server): boolean {
    const [session] = record.sessions
    // A session that has ended since is not a new one.
    if (!session || !isIdle(entry.record) || hasLaterEnd(entry.record, record)) return false
    const holder = this.#inventory.serverBySession(session.id)
    return holder === undefined || holder === entry
  }
}

interface Composed {
  readonly written: Server
  readonly carried: readonly Place[]
  readonly unfit: readonly Place[]
}

function isIn(record: Server, { session }: Place): boolean {
  return sessionWithId(record, session.id) !== undefined
}

const recordDeleted = 'its record was deleted from the store'
const recordRefused = 'the store refuses its record, which never existed'

/** A server that is terminating keeps its sessions until it is gone. */
function withoutEnded(record: Server, ended: ServerEntry['ends'], now: number): Server {
  return ended ? transition(record, { type: 'sessionsEnded', ended }, now) : record
}

function lost(entry: ServerEntry, why: string, cause?: unknown): LostServer {
  return new LostServer(`${entry.record.name}: ${why}`, { cause })
}

/** Compares what a server's record says, except for times. */
function isSameRecord(a: Server, b: Server): boolean {
  return (
    a.state === b.state &&
    a.health === b.health &&
    a.address === b.address &&
    a.node === b.node &&
    a.templateHash === b.templateHash &&
    JSON.stringify(a.ports) === JSON.stringify(b.ports) &&
    isSameSessions(a, b) &&
    isSameHolds(a.sessions[0]?.holds, b.sessions[0]?.holds) &&
    a.maintenance?.at === b.maintenance?.at &&
    a.maintenance?.source === b.maintenance?.source &&
    a.reservedUntil === b.reservedUntil &&
    isSameData(a.data, b.data) &&
    a.ending?.reason === b.ending?.reason
  )
}
