/**
 * Decides which allocations are written together. One that arrives alone is written by itself; so is one that is too long for a journal.
 */
import type { CallOptions } from '../../../../src/contracts/call-options.js'
import { throwIfAborted } from '../../../../src/contracts/errors.js'
import { entryRevision, type JournalEntry } from './journal-entries.js'
import { type JournalParts, maxDelayMs } from './status-writer.js'

interface GroupCommitDependencies extends JournalParts {
  readonly minGroup: number
  /** Called after entries were added. */
  readonly added: () => void
}

interface Waiting {
  readonly entry: JournalEntry
  /** About that of its line in the journal. */
  readonly length: number
  /** Writes the status instead. */
  readonly direct: () => Promise<string>
  /** Elapsed ms. */
  readonly since: number
  readonly signal: AbortSignal | undefined
  readonly resolve: (revision: string | Promise<string>) => void
  readonly reject: (error: unknown) => void
}

/** As many as a quick API server writes one by one in half a second. */
const maxEntries = 384
/** In characters. Every write of the journal contains all entries that the statuses do not show yet. */
const maxJournalLength = 384 * 1024
const maxEntryLength = 8 * 1024
/** Of the line, besides the status. */
const otherLength = 512
/** A full journal takes entries again once this share of it is left, so that under lasting load, groups stay large. */
const reopenedAt = 1 / 2
/** While an entry has waited for longer, allocations are written by themselves, so that statuses lag by less than a second. */
export const maxLagMs = maxDelayMs + 200
/** More callers than that wait for each other. */
const maxDirect = 2

/** Nobody waits longer for writes of others that all hang. */
const maxWaitMs = 1_000

export class GroupCommit {
  readonly #deps: GroupCommitDependencies
  #queue: Waiting[] = []
  #direct = 0
  #isAppending = false
  /** Whether statuses lag behind too far for more entries. */
  #isFull = false
  /** Elapsed ms at which the last write ended. */
  #progressAt = 0
  readonly #whenIdle: (() => void)[] = []

  constructor(deps: GroupCommitDependencies) {
    this.#deps = deps
  }

  /** Resolves with the record's new revision. */
  commit(
    draft: Omit<JournalEntry, 'revision'>,
    direct: () => Promise<string>,
    options: CallOptions | undefined,
  ): Promise<string> {
    const statusLength = JSON.stringify(draft.status).length
    if (!this.#deps.journal.isOwned || statusLength > maxEntryLength) return direct()
    const id = Buffer.from(this.#deps.clock.randomBytes(6)).toString('base64url')
    const entry = { ...draft, revision: this.#deps.journal.mark(entryRevision(draft.base, id)) }
    return new Promise((resolve, reject) => {
      const waiting = {
        entry,
        length: statusLength + otherLength,
        since: this.#deps.clock.elapsed(),
        direct,
        signal: options?.signal,
        resolve,
        reject,
      }
      this.#queue.push(waiting)
      this.#next()
      this.#watch(waiting)
    })
  }

  /** Writes it directly once nothing that it may wait for has ended for a while. */
  #watch(waiting: Waiting): void {
    if (!this.#queue.includes(waiting)) return
    const { clock } = this.#deps
    const since = Math.max(this.#progressAt, waiting.since)
    const ms = since + maxWaitMs - clock.elapsed()
    if (ms > 0) return void clock.after(ms, () => this.#watch(waiting))
    this.#queue.splice(this.#queue.indexOf(waiting), 1)
    this.#writeDirectly(waiting)
    this.#next()
  }

  /** Resolves once nobody waits, and nothing is being added to the journal. */
  idle(): Promise<void> {
    return this.#isIdle ? Promise.resolve() : new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  get #isIdle(): boolean {
    return this.#queue.length === 0 && !this.#isAppending
  }

  /** Whether entries may be added. */
  #hasRoom(): boolean {
    const { clock, pending } = this.#deps
    const oldest = pending.oldest()
    const isLate = oldest !== undefined && clock.elapsed() - oldest.since >= maxLagMs
    const share = this.#isFull ? reopenedAt : 1
    this.#isFull = isLate || pending.size >= this.#maxEntries * share || pending.length >= maxJournalLength * share
    return !this.#isFull
  }

  get #room(): number {
    return Math.max(0, this.#maxEntries - this.#deps.pending.size)
  }

  get #maxEntries(): number {
    return Math.min(maxEntries, this.#deps.pace.maxEntries)
  }

  #next(): void {
    this.#start()
    if (this.#isIdle) for (const resolve of this.#whenIdle.splice(0)) resolve()
  }

  #start(): void {
    while (this.#queue.length > 0) {
      if (this.#isAppending) return
      const { journal, minGroup, pace } = this.#deps
      const hasRoom = this.#hasRoom()
      if (!journal.isOwned) this.#queue.splice(0).forEach((each) => this.#writeDirectly(each))
      else if (hasRoom && this.#queue.length >= minGroup) void this.#append(this.#take())
      else if (this.#direct < (hasRoom ? maxDirect : pace.maxDirect))
        this.#queue.splice(0, 1).forEach((each) => this.#writeDirectly(each))
      else return
    }
  }

  /** As many of those who wait as fit into the journal; at least one. */
  #take(): readonly Waiting[] {
    let { length } = this.#deps.pending
    const room = this.#room
    const end = this.#queue.slice(0, room).findIndex((each) => (length += each.length) > maxJournalLength)
    const taken = this.#queue.splice(0, end < 0 ? room : Math.max(1, end))
    this.#isFull = this.#queue.length > 0
    return taken
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
    this.#progressAt = this.#deps.clock.elapsed()
    this.#deps.added()
    this.#next()
  }

  #writeDirectly({ direct, signal, resolve, reject }: Waiting): void {
    if (!isWanted(signal, reject)) return
    this.#direct++
    const written = direct()
    const ended = () => {
      this.#direct--
      this.#progressAt = this.#deps.clock.elapsed()
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
