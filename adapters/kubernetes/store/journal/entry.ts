/**
 * The entries of the journal: sessions that are durable before the statuses of their servers show them. An entry carries a keyed
 * hash, so that one that somebody has edited or made up is not carried out. Pure.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { keyOf, type Ref, type Server } from '../../../../src/rules/model/resources.js'
import { isObject } from '../../../../src/rules/validation/problem.js'
import { type Fields, textAt } from '../../client/fields.js'

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
export type Standing = 'pending' | 'done' | 'superseded'

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
    (field) => textAt(fields, field),
  )
  const { status } = fields
  if (namespace === undefined || name === undefined || uid === undefined || !isObject(status)) return undefined
  if (base === undefined || direct === undefined || revision === undefined) return undefined
  return { namespace, name, uid, base, direct, upon: textAt(fields, 'upon'), revision, status }
}

function hashOf(text: string, key: Uint8Array): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

/** For messages. */
export function sessionsIn(entries: Iterable<JournalEntry>): readonly string[] {
  return Array.from(entries, (entry) => `${textAt(entry.status, 'sessionID') ?? 'none'} on ${keyOf(entry)}`)
}
