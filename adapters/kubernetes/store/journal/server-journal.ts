/**
 * Group commit for servers. While one allocation is being written by itself, those that arrive together with it wait, and are then made
 * durable in one write of the journal. Callers see ordinary compare-and-swap: a write that resolves is durable, whether in the status or in
 * the journal, and every read shows it. What the journal knows has five parts, each with its own reason:
 *
 * - pending entries (`PendingEntries`): sessions that only the journal has, so that reads show them and their statuses get written;
 * - ended entries (`PendingEntries`): the last of each server, so that a read which was on its way shows no status from before;
 * - ownership (`Journal`): whose the journal is, so that a deposed host overwrites nothing that its successor has answered;
 * - unknown outcomes (`Journal`): writes without an answer, so that nothing is read or written before it is known what became of them;
 * - own versions (`OwnVersions`): those that this host has written since it took over, since no earlier leader can write upon them.
 *
 * `WritePace` measures how many entries the statuses can follow. Where the journal cannot pay, `GroupCommit` writes each allocation by itself.
 */
import type { CallOptions } from '../../../../src/contracts/call-options.js'
import { FleetError, throwIfAborted } from '../../../../src/contracts/errors.js'
import type { Versioned } from '../../../../src/contracts/store.js'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import { beyond, PendingEntries, type PendingEntry, type StoredServer } from './journal-entries.js'
import { GroupCommit } from './group-commit.js'
import { Journal, type JournalDependencies, type JournalStorage } from './journal.js'
import { type ServerObjects, StatusWriter, WritePace } from './status-writer.js'

export interface ServerJournalDependencies extends JournalDependencies {
  readonly objects: ServerObjects
  readonly withStatus: (server: Server, status: Readonly<Record<string, unknown>>) => Server
  /** How long no allocation has been written, in ms. */
  readonly quietMs: () => number
  /** How many calls can run at a time. */
  readonly connections: number
  /** The newest version of the server's object that this host has seen. */
  readonly seen: (ref: Ref) => Omit<StoredServer, 'record'> | undefined
  /** The smallest number of allocations that are written together. Default 2. */
  readonly minGroup?: number
}

interface ServerUpdate {
  readonly record: Server
  /** All of the new status, but `writtenUpon`. */
  readonly status: Readonly<Record<string, unknown>>
  readonly revision: string
  /** Whether players wait for it. */
  readonly isAllocation: boolean
}

const maxAttempts = 5

export class ServerJournal {
  readonly #deps: ServerJournalDependencies
  readonly #pending: PendingEntries
  readonly #journal: Journal
  readonly #statuses: StatusWriter
  readonly #group: GroupCommit
  readonly #own: OwnVersions
  readonly #pace: WritePace
  readonly #objects: ServerObjects
  /** The last write of each server by a caller; they run one after the other. Never rejects. */
  readonly #busy = new Map<string, Promise<void>>()

  constructor(deps: ServerJournalDependencies) {
    this.#deps = deps
    this.#own = new OwnVersions(() => this.#journal.owner)
    this.#pace = new WritePace(deps.clock, deps.connections)
    this.#objects = {
      ...deps.objects,
      write: async (ref, write, options) => {
        const term = deps.term()
        const send = () => deps.objects.write(ref, write, options)
        // The time of a write with normal priority includes its time in the queue.
        const isMeasured = write.urgency !== 'normal'
        const revision = await (isMeasured ? this.#pace.measure(send, write.urgency === 'behind') : send())
        // Another host may have led since it was sent, and know this version. One that carries out its entry looks like one of that host.
        if (deps.term() === term && this.#journal.isMarked(write.upon)) this.#own.wrote(ref, revision)
        return revision
      },
    }
    this.#pending = new PendingEntries(deps.withStatus)
    const { storage } = deps
    const measured: JournalStorage = {
      read: (isPatient) => storage.read(isPatient),
      write: (content, at) => this.#pace.measure(() => storage.write(content, at)),
    }
    this.#journal = new Journal({ ...deps, storage: measured }, this.#pending)
    const parts = { clock: deps.clock, journal: this.#journal, pending: this.#pending, pace: this.#pace }
    this.#statuses = new StatusWriter({
      ...parts,
      logger: deps.logger,
      objects: this.#objects,
      quietMs: deps.quietMs,
      isBusy: (ref) => this.#busy.has(keyOf(ref)),
    })
    this.#group = new GroupCommit({
      ...parts,
      minGroup: deps.minGroup ?? 2,
      added: () => this.#statuses.wake(),
    })
  }

  /** Call before all servers are read. */
  async takeOver(): Promise<void> {
    await this.#journal.takeOver()
    this.#statuses.wake()
  }

  /** Call before a server is read, so that the read shows what has become of a write whose outcome is unknown. */
  async settled(ref: Ref): Promise<void> {
    if (this.#journal.isUnknown(ref)) await this.#journal.settle()
  }

  /** The record as callers see it. */
  overlay(found: StoredServer): Versioned<Server> {
    return this.#pending.overlay(found)
  }

  /** The status that the server's entry has. Undefined if there is none. */
  statusOf(ref: Ref): Readonly<Record<string, unknown>> | undefined {
    return this.#pending.get(ref)?.entry.status
  }

  /** Resolves with the new revision once the update is durable. */
  update(update: ServerUpdate, options?: CallOptions): Promise<string> {
    const check = this.#sameTerm()
    return this.#inTurn(update.record, async () => {
      throwIfAborted(options?.signal)
      await this.settled(update.record)
      const { record, status, revision, isAllocation } = update
      const write = async (at: string, upon: string) => {
        check()
        // Nothing is added to the journal while an entry waits for too long, so a write upon one must not wait for allocations.
        const urgency = isAllocation || this.#pending.get(record) ? 'players wait' : 'normal'
        return this.#objects.write(record, { status, at, upon, urgency }, options)
      }
      if (!this.#pending.get(record)) await this.#journal.confirm(this.#deps.seen(record)?.upon)
      // The journal may have been taken over meanwhile.
      if (this.#pending.get(record)) return this.#updateEntry(record, revision, write)
      const at = this.#pending.resolve(record, revision)
      const seen = this.#deps.seen(record)
      const mark = this.#journal.mark(at)
      const direct = () => write(at, mark)
      if (!isAllocation || seen?.revision !== at || !this.#own.has(record, at)) return direct()
      const { namespace, name } = record
      const { uid, upon } = seen
      return this.#group.commit({ namespace, name, uid, base: at, direct: mark, upon, status }, direct, options)
    })
  }

  remove(ref: Ref, revision: string, options?: CallOptions): Promise<void> {
    const check = this.#sameTerm()
    return this.#inTurn(ref, async () => {
      throwIfAborted(options?.signal)
      await this.settled(ref)
      await this.#journal.confirm(this.#deps.seen(ref)?.upon)
      await this.#overEntry(ref, revision, async (at) => {
        check()
        await this.#objects.remove(ref, at, options)
      })
      this.forget(ref)
    })
  }

  /** The server does not exist any more. */
  forget(ref: Ref): void {
    this.#pending.forget(ref)
    this.#own.forget(ref)
  }

  /** Changes whenever this host takes the journal over. */
  get owner(): string | undefined {
    return this.#journal.owner
  }

  /** `writtenUpon` of the first status of a server that this host creates. */
  mark(upon: string): string {
    return this.#journal.mark(upon)
  }

  /** This host has created the server, with this mark. */
  created(ref: Ref, revision: string): void {
    this.#own.wrote(ref, revision)
  }

  /** Call when resourceVersions have gone back. */
  forgetAll(): void {
    this.#pending.forgetEnded()
  }

  /** Brings all statuses up to date. Resolves when that is done, or has failed once. */
  async flush(): Promise<void> {
    await this.#group.idle()
    await this.#statuses.flush()
  }

  close(): void {
    this.#statuses.stop()
  }

  /** A write upon an entry includes it, and so replaces it. */
  async #updateEntry(
    ref: Ref,
    revision: string,
    write: (at: string, upon: string) => Promise<string>,
  ): Promise<string> {
    return this.#overEntry(ref, revision, async (at, pending) => {
      if (!pending) return write(at, this.#journal.mark(at))
      // The caller does not know the labels or annotations that have changed.
      if (this.#journal.isCurrent && pending.at !== pending.entry.base) throw await this.#writeFirst(pending)
      const next = await write(at, this.#journal.mark(beyond(revision)))
      this.#pending.superseded(pending, next)
      this.#statuses.wake()
      return next
    })
  }

  /** Writes at the resourceVersion that stands for the revision. With an entry, this is the newest one on which it is pending. */
  async #overEntry<T>(
    ref: Ref,
    revision: string,
    write: (at: string, pending: PendingEntry | undefined) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      await this.#pending.get(ref)?.writing
      const pending = this.#pending.get(ref)
      if (!pending) return write(this.#pending.resolve(ref, revision), undefined)
      if (pending.entry.revision !== revision) throw changed(ref)
      try {
        return await write(pending.at, pending)
      } catch (error) {
        if (!FleetError.is(error, 'conflict') || attempt >= maxAttempts || !this.#pending.has(pending)) throw error
        // Another writer, such as `kubectl label`, may have changed the object without replacing the entry.
        const isPending = this.#pending.review(pending, await this.#objects.read(ref), true)
        if (!isPending && this.#pending.resolve(ref, revision) === revision) throw error
      }
    }
  }

  /** Returns the error for a caller whose record is older than the object. */
  async #writeFirst(pending: PendingEntry): Promise<FleetError> {
    const { entry } = pending
    await this.#statuses.writeNow(pending)
    if (!this.#pending.has(pending)) return changed(entry)
    return new FleetError('unavailable', `cannot write the status of ${keyOf(entry)} now`)
  }

  /**
   * Returns a function that throws `not-leader` once the term has changed: a write that was requested in an earlier term must not overwrite
   * entries that were added after it.
   */
  #sameTerm(): () => void {
    const term = this.#deps.term()
    return () => {
      if (this.#deps.term() !== term) throw new FleetError('not-leader', 'this host has not led the fleet all the time')
    }
  }

  #inTurn<T>(ref: Ref, work: () => Promise<T>): Promise<T> {
    const key = keyOf(ref)
    const before = this.#busy.get(key)
    const result = before ? before.then(work) : work()
    const ended: Promise<void> = result.then(
      () => this.#end(key, ended),
      () => this.#end(key, ended),
    )
    this.#busy.set(key, ended)
    return result
  }

  #end(key: string, ended: Promise<void>): void {
    if (this.#busy.get(key) === ended) this.#busy.delete(key)
  }
}

function changed({ namespace, name }: Ref): FleetError {
  return new FleetError('conflict', `GameServer ${namespace}/${name} has been changed; read it again`)
}

/**
 * Which versions of servers this host has written itself since it took the journal over. Only those are allocated through the journal: an
 * earlier leader does not know them, so a late write of its own is a conflict, and cannot give the server to another session. All others are
 * allocated by a write of their status. No I/O.
 */
class OwnVersions {
  readonly #owner: () => string | undefined
  readonly #revisions = new Map<string, string>()
  #since: string | undefined

  constructor(owner: () => string | undefined) {
    this.#owner = owner
  }

  has(ref: Ref, revision: string): boolean {
    return this.#since !== undefined && this.#since === this.#owner() && this.#revisions.get(keyOf(ref)) === revision
  }

  wrote(ref: Ref, revision: string): void {
    const owner = this.#owner()
    if (owner !== this.#since) {
      this.#since = owner
      this.#revisions.clear()
    }
    if (owner !== undefined) this.#revisions.set(keyOf(ref), revision)
  }

  forget(ref: Ref): void {
    this.#revisions.delete(keyOf(ref))
  }
}
