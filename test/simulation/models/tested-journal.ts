/** What the simulation needs of a journal, and gives to it. The journal's code is brought by whoever runs the simulation. */
import type { Clock } from '../../../src/contracts/clock.js'
import type { Versioned } from '../../../src/contracts/store.js'
import type { Ref, Server } from '../../../src/rules/model/resources.js'

export type Fields = Readonly<Record<string, unknown>>

/** A record as it is stored, without the journal. */
export interface StoredServer extends Versioned<Server> {
  readonly uid: string
  /** The revision that was replaced last. */
  readonly upon: string | undefined
}

export interface JournalContent {
  readonly owner: string
  readonly entries: readonly string[]
}

export interface EntryLike extends Ref {
  readonly revision: string
  readonly status: Fields
}

/** What one host's journal uses. */
export interface JournalParts {
  readonly clock: Clock
  /** Changes when the host is elected. Undefined while it does not lead. */
  readonly term: () => number | undefined
  readonly objects: {
    read(ref: Ref): Promise<StoredServer | undefined>
    write(
      ref: Ref,
      write: { readonly status: object; readonly at: string; readonly upon: string; readonly urgency: string },
    ): Promise<string>
    remove(ref: Ref, at: string): Promise<void>
  }
  readonly storage: {
    read(): Promise<(JournalContent & { readonly revision: string }) | undefined>
    write(content: JournalContent, revision: string | undefined): Promise<string>
  }
  readonly seen: (ref: Ref) => StoredServer | undefined
  readonly quietMs: () => number
  readonly minGroup: number
}

export interface HostJournal {
  takeOver(): Promise<void>
  settled(ref: Ref): Promise<void>
  overlay(found: StoredServer): Versioned<Server>
  update(update: {
    readonly record: Server
    readonly status: Fields
    readonly revision: string
    readonly isAllocation: boolean
  }): Promise<string>
  remove(ref: Ref, revision: string): Promise<void>
  forget(ref: Ref): void
  /** What the first status of a new record says it was written upon. */
  mark(upon: string): string
  created(ref: Ref, revision: string): void
}

/** The code under test. */
export interface TestedJournal<Entry extends EntryLike = EntryLike> {
  open(parts: JournalParts): HostJournal
  statusOf(record: Server): Fields
  withStatus(server: Server, status: Fields): Server
  /** The genuine entries. */
  entriesIn(lines: readonly string[]): readonly Entry[]
  isPending(entry: Entry, found: StoredServer): boolean
}
