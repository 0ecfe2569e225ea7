/**
 * The entries of the journal: sessions that are durable before the statuses of their servers show them, and what a read of such a server
 * returns instead of its status. No I/O.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Versioned } from '../../../../src/contracts/store.js'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { type Fields, stringAt } from '../../../../src/rules/validation/pod-template.js'

export interface JournalEntry extends Ref {
  /** Uid of the server's object: another one may have the same name by now. */
  readonly uid: string
  /** The resourceVersion that the entry replaces. */
  readonly base: string
  /** `writtenUpon` of a status that the same leader writes upon that version. */
  readonly direct: string
  /** `writtenUpon` in the status of that version. */
  readonly upon?: string | undefined
  /** The record's revision with this entry. */
  readonly revision: string
  /** The new status, without `writtenUpon`. */
  readonly status: Fields
}

/** What the server's object says, without the journal. */
export interface StoredServer {
  readonly record: Server
  /** Uid of the object. */
  readonly uid: string
  /** Its resourceVersion. */
  readonly revision: string
  /** The revision that its status replaced. */
  readonly upon: string | undefined
}

/**
 * `pending`: the entry is newer than the status. `done`: the status is that of the entry. `superseded`: the status is newer, or the server
 * does not exist any more.
 */
type Standing = 'pending' | 'done' | 'superseded'

/**
 * Every status says which revision it replaced, and one that was written over an entry names the entry. So a status that replaced the same
 * version as the entry is a late write, which the same leader had given up before it wrote the entry, and the entry wins: its caller has
 * been answered since. A status as it was when the entry was written means that only labels or annotations have changed.
 */
export function standingOf(entry: JournalEntry, found: StoredServer | undefined): Standing {
  if (found?.uid !== entry.uid) return 'superseded'
  const { upon } = found
  if (upon === entry.revision) return 'done'
  return upon === undefined || upon === entry.upon || upon === entry.direct ? 'pending' : 'superseded'
}

/** Of several entries for one server, which an edited journal has, the last one counts. */
export function isNewer(entry: JournalEntry, than: JournalEntry | undefined): boolean {
  return than === undefined || Number(entry.base) > Number(than.base)
}

/** The revision of a record with an entry, before the owner of the journal. No resourceVersion looks like this. */
export function entryRevision(base: string, id: string): string {
  return `${base}.${id}`
}

/** `writtenUpon` of a status that includes an entry and more, before the owner. */
export function beyond(revision: string): string {
  return `${revision}+`
}

/** Says in which term of leadership it was written. */
export function markedBy(owner: string, text: string): string {
  return `${text}@${owner}`
}

export function ownerFrom(random: Uint8Array): string {
  return Buffer.from(random).toString('hex')
}

/** The owner that has written this status. Undefined for a host without a journal. */
export function ownerOf(upon: string | undefined): string | undefined {
  const at = upon?.lastIndexOf('@') ?? -1
  return at < 0 ? undefined : upon?.slice(at + 1)
}

/** One line of the journal. */
export function sealEntry(entry: JournalEntry, key: Uint8Array): string {
  const text = JSON.stringify(entry)
  return `${hashOf(text, key)} ${text}`
}

/** Undefined if the line was not written by a host of this fleet. */
export function openEntry(line: string, key: Uint8Array): JournalEntry | undefined {
  const end = line.indexOf(' ')
  const text = line.slice(end + 1)
  const [given, expected] = [Buffer.from(line.slice(0, Math.max(0, end))), Buffer.from(hashOf(text, key))]
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
  const value: unknown = JSON.parse(text)
  return isObject(value) ? entryFrom(value) : undefined
}

function entryFrom(fields: Fields): JournalEntry | undefined {
  const [namespace, name, uid, base, direct, revision] = ['namespace', 'name', 'uid', 'base', 'direct', 'revision'].map(
    (field) => stringAt(fields, field),
  )
  const { status } = fields
  if (namespace === undefined || name === undefined || uid === undefined || !isObject(status)) return undefined
  if (base === undefined || direct === undefined || revision === undefined) return undefined
  return { namespace, name, uid, base, direct, upon: stringAt(fields, 'upon'), revision, status }
}

function hashOf(text: string, key: Uint8Array): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

/** For messages. */
export function sessionsIn(entries: Iterable<JournalEntry>): readonly string[] {
  return Array.from(entries, (entry) => `${stringAt(entry.status, 'sessionID') ?? 'none'} on ${keyOf(entry)}`)
}

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

/**
 * The entries that the statuses of their servers do not show yet, as far as this host knows, and what a read of such a server returns
 * instead of its status. No I/O.
 */
export class PendingEntries {
  readonly #withStatus: (server: Server, status: JournalEntry['status']) => Server
  /** Pending entries, by server: sessions that only the journal has. Reads must show them, and their statuses must still be written. */
  readonly #entries = new Map<string, PendingEntry>()
  /**
   * Ended entries: the last one of each server whose status has caught up. A read that began before that may be answered later, with the status
   * from before, and callers know the entry's revision.
   */
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
