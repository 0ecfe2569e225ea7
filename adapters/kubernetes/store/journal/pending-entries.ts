/**
 * The entries that the statuses of their servers do not show yet, as far as this host knows, and what a read of such a server returns
 * instead of its status. No I/O.
 */
import type { Versioned } from '../../../../src/contracts/store.js'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import { type JournalEntry, standingOf, type StoredServer } from './entry.js'

export interface PendingEntry {
  readonly entry: JournalEntry
  /** Its line in the journal. */
  readonly line: string
  /** Elapsed ms. */
  readonly since: number
  /** The newest resourceVersion of the server that this host has seen, on which the next write of its status is conditional. */
  at: string
  /** The write of the status that is in progress. Never rejects. */
  writing: Promise<void> | undefined
  failures: number
  /** Elapsed ms before which the status is not written again. */
  retryAt: number
}

/** An entry that is not pending any more, because the status of its server includes it or is newer. */
interface EndedEntry {
  readonly entry: JournalEntry
  /** The resourceVersion of that status. */
  readonly revision: string
  /** Whether the record at that resourceVersion is the same as with the entry, whose revision callers know. */
  readonly isSame: boolean
}

export class PendingEntries {
  readonly #withStatus: (server: Server, status: JournalEntry['status']) => Server
  readonly #entries = new Map<string, PendingEntry>()
  /** The last entry of each server. A read that began while it was pending may be answered later, with the status from before. */
  readonly #ended = new Map<string, EndedEntry>()
  /** Total length of the lines. */
  #length = 0

  /** `withStatus` returns the server with the fields of this status, and the identity that it has. */
  constructor(withStatus: (server: Server, status: JournalEntry['status']) => Server) {
    this.#withStatus = withStatus
  }

  get size(): number {
    return this.#entries.size
  }

  get length(): number {
    return this.#length
  }

  /** Oldest first. */
  all(): Iterable<PendingEntry> {
    return this.#entries.values()
  }

  oldest(): PendingEntry | undefined {
    const [first] = this.#entries.values()
    return first
  }

  get(ref: Ref): PendingEntry | undefined {
    return this.#entries.get(keyOf(ref))
  }

  has({ entry }: PendingEntry): boolean {
    return this.get(entry)?.entry.revision === entry.revision
  }

  add(entry: JournalEntry, line: string, now: number): void {
    const key = keyOf(entry)
    if (this.#entries.get(key)?.entry.revision === entry.revision) return
    this.#remove(key)
    this.#length += line.length
    this.#entries.set(key, { entry, line, since: now, at: entry.base, writing: undefined, failures: 0, retryAt: 0 })
  }

  /** The status of its server was written, with this resourceVersion. */
  done(pending: PendingEntry, revision: string): void {
    // If labels or annotations have changed meanwhile, the record has, too.
    this.#end(pending, revision, pending.at === pending.entry.base)
  }

  /** The status with this resourceVersion includes the entry and more, or is newer. */
  superseded(pending: PendingEntry, revision: string): void {
    this.#end(pending, revision, false)
  }

  /** The server does not exist any more. */
  forget(ref: Ref): void {
    this.#remove(keyOf(ref))
    this.#ended.delete(keyOf(ref))
  }

  /** Call when resourceVersions have gone back. */
  forgetEnded(): void {
    this.#ended.clear()
  }

  clear(): void {
    this.#entries.clear()
    this.#length = 0
  }

  /** The resourceVersion of the revision that a caller knows. */
  resolve(ref: Ref, revision: string): string {
    const ended = this.#ended.get(keyOf(ref))
    return ended?.isSame && ended.entry.revision === revision ? ended.revision : revision
  }

  /** Compares the entry with what its server's object says, and forgets the entry unless it is still pending. */
  review(pending: PendingEntry, found: StoredServer | undefined, isCurrent = false): boolean {
    if (found?.uid !== pending.entry.uid) {
      if (this.has(pending)) this.#remove(keyOf(pending.entry))
    } else if (standingOf(pending.entry, found) !== 'pending') this.superseded(pending, found.revision)
    else if (isCurrent || Number(found.revision) > Number(pending.at)) pending.at = found.revision
    return this.has(pending)
  }

  /** The record as callers see it. */
  overlay(found: StoredServer): Versioned<Server> {
    const { record, revision } = found
    const pending = this.get(record)
    // An old version may be reported late. It does not say what has become of the entry.
    if (pending && (Number(revision) < Number(pending.at) || this.review(pending, found))) {
      return pending.entry.uid === found.uid ? this.#withEntry(pending.entry, record) : { record, revision }
    }
    const ended = this.#ended.get(keyOf(record))
    if (ended?.entry.uid !== found.uid) return { record, revision }
    // It was read before the status was written, and maybe after the session was answered.
    if (Number(revision) < Number(ended.revision)) return this.#withEntry(ended.entry, record)
    return { record, revision: ended.isSame && revision === ended.revision ? ended.entry.revision : revision }
  }

  #withEntry({ status, revision }: JournalEntry, record: Server): Versioned<Server> {
    return { record: this.#withStatus(record, status), revision }
  }

  #end(pending: PendingEntry, revision: string, isSame: boolean): void {
    if (!this.has(pending)) return
    const { entry } = pending
    this.#remove(keyOf(entry))
    this.#ended.set(keyOf(entry), { entry, revision, isSame })
  }

  #remove(key: string): void {
    this.#length -= this.#entries.get(key)?.line.length ?? 0
    this.#entries.delete(key)
  }
}
