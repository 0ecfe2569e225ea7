/** Decides which allocations are written together. One that arrives alone is written by itself; so is one that is too long for a journal. */
import type { CallOptions } from '../../../../src/contracts/call-options.js'
import type { Clock } from '../../../../src/contracts/clock.js'
import { throwIfAborted } from '../../../../src/contracts/errors.js'
import { entryRevision, type JournalEntry } from './entry.js'
import type { Journal } from './journal.js'
import type { PendingEntries } from './pending-entries.js'
import { maxDelayMs } from './status-writer.js'

export interface GroupCommitDependencies {
  readonly clock: Clock
  readonly journal: Journal
  readonly pending: PendingEntries
  readonly minGroup: number
  /** Called after entries were added. */
  readonly added: () => void
}

interface Waiting {
  readonly entry: JournalEntry
  /** Writes the status instead. */
  readonly direct: () => Promise<string>
  readonly signal: AbortSignal | undefined
  readonly resolve: (revision: string | Promise<string>) => void
  readonly reject: (error: unknown) => void
}

/** As many as the API server writes one by one in much less than a second. */
export const maxEntries = 256
/** In characters. Every write of the journal contains all entries that the statuses do not show yet. */
const maxJournalLength = 256 * 1024
const maxEntryLength = 8 * 1024
/** While an entry has waited for longer, allocations are written by themselves, so that statuses lag by less than a second. */
export const maxLagMs = maxDelayMs + 200
/** More callers than that wait for each other. */
const maxDirect = 2

/** Nobody waits longer for a write of others that hangs. */
const maxWaitMs = 1_000

export class GroupCommit {
  readonly #deps: GroupCommitDependencies
  #queue: Waiting[] = []
  #direct = 0
  #isAppending = false

  constructor(deps: GroupCommitDependencies) {
    this.#deps = deps
  }

  /** Resolves with the record's new revision. */
  commit(
    draft: Omit<JournalEntry, 'revision'>,
    direct: () => Promise<string>,
    options: CallOptions | undefined,
  ): Promise<string> {
    if (!this.#isOpen || JSON.stringify(draft.status).length > maxEntryLength) return direct()
    const id = Buffer.from(this.#deps.clock.randomBytes(6)).toString('base64url')
    const entry = { ...draft, revision: entryRevision(draft.base, id) }
    return new Promise((resolve, reject) => {
      const waiting = { entry, direct, signal: options?.signal, resolve, reject }
      this.#queue.push(waiting)
      this.#next()
      if (!this.#queue.includes(waiting)) return
      this.#deps.clock.after(maxWaitMs, () => {
        const at = this.#queue.indexOf(waiting)
        if (at >= 0) this.#queue.splice(at, 1).forEach((each) => this.#writeDirectly(each))
      })
    })
  }

  get #isOpen(): boolean {
    const { clock, journal, pending } = this.#deps
    const oldest = pending.oldest()
    return (
      journal.isOwned &&
      pending.size < maxEntries &&
      pending.length < maxJournalLength &&
      (oldest === undefined || clock.elapsed() - oldest.since < maxLagMs)
    )
  }

  #next(): void {
    while (this.#queue.length > 0) {
      if (!this.#isOpen && !this.#isAppending) this.#queue.splice(0).forEach((each) => this.#writeDirectly(each))
      else if (this.#isAppending) return
      else if (this.#queue.length >= this.#deps.minGroup) void this.#append(this.#queue.splice(0, this.#room))
      else if (this.#direct < maxDirect) this.#queue.splice(0, 1).forEach((each) => this.#writeDirectly(each))
      else return
    }
  }

  get #room(): number {
    const { pending } = this.#deps
    return Math.min(maxEntries - pending.size, Math.ceil((maxJournalLength - pending.length) / maxEntryLength))
  }

  /** Never rejects. */
  async #append(group: readonly Waiting[]): Promise<void> {
    this.#isAppending = true
    const wanted = group.filter(({ signal, reject }) => isWanted(signal, reject))
    try {
      const entries = wanted.map(({ entry }) => entry)
      const left = entries.length === 0 ? new Set() : await this.#deps.journal.append(entries)
      for (const each of wanted) {
        if (left.has(each.entry)) this.#writeDirectly(each)
        else each.resolve(each.entry.revision)
      }
    } catch (error) {
      for (const { reject } of wanted) reject(error)
    }
    this.#isAppending = false
    this.#deps.added()
    this.#next()
  }

  #writeDirectly({ direct, signal, resolve, reject }: Waiting): void {
    if (!isWanted(signal, reject)) return
    this.#direct++
    const written = direct()
    const ended = () => {
      this.#direct--
      this.#next()
    }
    written.then(ended, ended)
    resolve(written)
  }
}

function isWanted(signal: AbortSignal | undefined, reject: (error: unknown) => void): boolean {
  try {
    throwIfAborted(signal)
    return true
  } catch (error) {
    reject(error)
    return false
  }
}
