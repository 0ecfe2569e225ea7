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

/** The record at this resourceVersion is the same as at the revision `as` that callers know. */
interface Alias {
  readonly revision: string
  readonly as: string
}

export class PendingEntries {
  readonly #withStatus: (server: Server, status: JournalEntry['status']) => Server
  readonly #entries = new Map<string, PendingEntry>()
  readonly #aliases = new Map<string, Alias>()
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
    if (!this.has(pending)) return
    const key = keyOf(pending.entry)
    this.#remove(key)
    // If labels or annotations have changed meanwhile, the record has, too.
    if (pending.at === pending.entry.base) this.#aliases.set(key, { revision, as: pending.entry.revision })
  }

  drop(pending: PendingEntry): void {
    if (this.has(pending)) this.#remove(keyOf(pending.entry))
  }

  /** The server does not exist any more. */
  forget(ref: Ref): void {
    this.#remove(keyOf(ref))
    this.#aliases.delete(keyOf(ref))
  }

  /** Call when resourceVersions have gone back. */
  forgetAliases(): void {
    this.#aliases.clear()
  }

  clear(): void {
    this.#entries.clear()
    this.#length = 0
  }

  /** The resourceVersion of the revision that a caller knows. */
  resolve(ref: Ref, revision: string): string {
    const alias = this.#aliases.get(keyOf(ref))
    return alias?.as === revision ? alias.revision : revision
  }

  /** Compares the entry with what its server's object says, and forgets the entry unless it is still pending. */
  review(pending: PendingEntry, found: StoredServer | undefined, isCurrent = false): boolean {
    const standing = standingOf(pending.entry, found)
    if (standing === 'done' || standing === 'superseded') this.drop(pending)
    else if (found && (isCurrent || Number(found.revision) > Number(pending.at))) pending.at = found.revision
    return this.has(pending)
  }

  /** The record as callers see it. */
  overlay(found: StoredServer): Versioned<Server> {
    const { record, revision } = found
    const pending = this.get(record)
    // An old version may be reported late. It does not say what has become of the entry.
    if (pending && (Number(revision) < Number(pending.at) || this.review(pending, found))) {
      const { entry } = pending
      return entry.uid === found.uid
        ? { record: this.#withStatus(record, entry.status), revision: entry.revision }
        : { record, revision }
    }
    const alias = this.#aliases.get(keyOf(record))
    if (alias?.revision === revision) return { record, revision: alias.as }
    if (alias && Number(revision) > Number(alias.revision)) this.#aliases.delete(keyOf(record))
    return { record, revision }
  }

  #remove(key: string): void {
    this.#length -= this.#entries.get(key)?.line.length ?? 0
    this.#entries.delete(key)
  }
}
