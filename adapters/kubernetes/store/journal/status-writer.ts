/**
 * Brings the statuses of servers up to date behind the journal: in a pause between allocations, or once an entry has waited for
 * `maxDelayMs`, a few at a time. Then removes the entries from the journal.
 */
import type { CallOptions } from '../../../../src/contracts/call-options.js'
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { pauseMs } from '../../../../src/rules/lifecycle/backoff.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import type { PendingEntries, PendingEntry, StoredServer } from './journal-entries.js'
import type { Journal } from './journal.js'

/** A write of a server's status. */
export interface StatusWrite {
  readonly status: object
  /** The resourceVersion that it replaces. */
  readonly at: string
  /** The status says that it was written upon this revision. */
  readonly upon: string
  /**
   * `behind`: a session's status that follows the journal. No caller waits for it, but once started it has the priority of an allocation;
   * without that, it would stay queued for as long as callers keep the API server busy.
   */
  readonly urgency: 'players wait' | 'normal' | 'behind'
}

/** The objects of servers, without the journal. */
export interface ServerObjects {
  read(ref: Ref): Promise<StoredServer | undefined>
  /** Resolves with the new resourceVersion. Rejects with `conflict` or `not-found` without an effect. */
  write(ref: Ref, write: StatusWrite, options?: CallOptions): Promise<string>
  remove(ref: Ref, at: string, options?: CallOptions): Promise<void>
}

/** The parts of a journal that its writers share. */
export interface JournalParts {
  readonly clock: Clock
  readonly journal: Journal
  readonly pending: PendingEntries
  readonly pace: WritePace
}

interface StatusWriterDependencies extends JournalParts {
  readonly logger: Logger
  readonly objects: ServerObjects
  /** How long no allocation has been written, in ms. */
  readonly quietMs: () => number
  /** Whether a caller is writing this server, which brings the status up to date, too. */
  readonly isBusy: (ref: Ref) => boolean
}

/** How long an entry may wait for a pause between allocations. */
export const maxDelayMs = 400
/** A pause between allocations. */
const pauseAfterMs = 50
const maxAttempts = 5
const retryLimits = { initialMs: 100, maxMs: 10_000 }
/** About 3 s after the first attempt. */
const warnAtFailures = 6

export class StatusWriter {
  readonly #deps: StatusWriterDependencies
  readonly #idle = new Set<() => void>()
  #running = 0
  #cancelTimer: (() => void) | undefined
  #isTending = false
  #tendingFailures = 0
  #isFlushing = false
  #isStopped = false

  constructor(deps: StatusWriterDependencies) {
    this.#deps = deps
  }

  /** Call when there may be something to write. */
  wake(): void {
    this.#cancelTimer ??= this.#deps.clock.after(pauseAfterMs, () => {
      this.#cancelTimer = undefined
      this.#work()
    })
  }

  /** Writes everything now. Resolves when that is done, or has failed once. */
  flush(): Promise<void> {
    this.#isFlushing = true
    const done = new Promise<void>((resolve) => this.#idle.add(resolve))
    this.#work()
    return done
  }

  async writeNow(each: PendingEntry): Promise<void> {
    if (!each.writing) this.#start(each)
    await each.writing
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelTimer?.()
    this.#notifyIdle()
  }

  #work(): void {
    const { journal, pace, pending, clock } = this.#deps
    if (this.#isStopped || !journal.isCurrent) return this.#notifyIdle()
    const now = clock.elapsed()
    for (const each of pending.all()) {
      if (this.#running >= pace.maxStatuses) return
      if (this.#isDue(each, now)) this.#start(each)
    }
    this.#tend()
    const isWorking = this.#running > 0 || this.#isTending
    const hasFailed = this.#tendingFailures > 0 || [...pending.all()].some(({ failures }) => failures > 0)
    if (!isWorking && (pending.size === 0 || hasFailed)) this.#notifyIdle()
    if (pending.size > 0 || (!this.#isTending && (journal.hasRemains || journal.isUnsettled))) this.wake()
  }

  #isDue(each: PendingEntry, now: number): boolean {
    if (each.writing || now < each.retryAt || this.#deps.isBusy(each.entry)) return false
    return this.#isFlushing || now - each.since >= maxDelayMs || this.#deps.quietMs() >= pauseAfterMs
  }

  #start(each: PendingEntry): void {
    this.#running++
    each.writing = this.#write(each).finally(() => {
      each.writing = undefined
      this.#running--
      this.#work()
    })
  }

  async #write(each: PendingEntry): Promise<void> {
    const { clock, logger, objects, journal, pending } = this.#deps
    const { entry } = each
    try {
      for (let attempt = 1; journal.isCurrent; attempt++) {
        try {
          const { status, revision: upon } = entry
          pending.done(each, await objects.write(entry, { status, at: each.at, upon, urgency: 'behind' }))
          return
        } catch (error) {
          if (!FleetError.is(error, 'conflict') && !FleetError.is(error, 'not-found')) throw error
          if (!pending.review(each, await objects.read(entry), true)) return
          if (attempt >= maxAttempts) throw error
        }
      }
    } catch (error) {
      each.failures++
      each.retryAt = clock.elapsed() + pauseMs(each.failures, retryLimits)
      const level = each.failures === warnAtFailures ? 'warn' : 'debug'
      logger[level](
        { err: error, server: keyOf(entry) },
        'cannot show a session in the status of its server; will retry',
      )
    }
  }

  /** Removes what is done from the journal, and finds out what is unknown. */
  #tend(): void {
    const { clock, journal, logger, pending } = this.#deps
    const isNeeded = journal.isUnsettled || (journal.hasRemains && pending.size === 0)
    if (this.#isTending || !isNeeded) return
    this.#isTending = true
    const work = journal.isUnsettled ? journal.settle() : journal.trim()
    void work
      .then(() => (this.#tendingFailures = 0))
      .catch((error: unknown) => {
        this.#tendingFailures++
        logger.debug({ err: error }, 'cannot bring the journal up to date; will retry')
      })
      .finally(() => {
        const ms = pauseMs(this.#tendingFailures, retryLimits)
        clock.after(ms, () => {
          this.#isTending = false
          this.#work()
        })
        if (this.#tendingFailures > 0) this.#notifyIdle()
      })
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle) resolve()
    this.#idle.clear()
  }
}

/** Part of the connections that statuses get behind the journal, even if allocations wait for all of them. */
const statusShare = 3 / 8
/** Part of the 600 ms that are left of a second once an entry has waited for a pause, as callers write at the same time. */
const availableMs = 400
/** Those that a burst begins with, which run side by side: two allocations by themselves, and the journal. */
const firstOfBurst = 3
/** The middle one of so many writes counts, so that a moment in which all of `firstOfBurst` are held up changes nothing. */
const maxMeasured = 2 * firstOfBurst + 1
/** How long a measurement of statuses side by side counts. */
const statusesKeptMs = 30_000
/** While nothing has been measured. */
const assumedMs = 10

/** How many writes with priority may run at a time, how long they take now, and so how many statuses can be written in time. */
export class WritePace {
  /** How many statuses are written at a time behind the journal. */
  readonly maxStatuses: number
  /** How many allocations are written by themselves at the same time, while statuses lag behind. */
  readonly maxDirect: number
  readonly #clock: Clock
  readonly #maxBeside: number
  #running = 0
  #statusesRunning = 0
  /** Of all other writes that show how long one takes by itself. */
  readonly #last: Durations
  /** Of statuses while `maxStatuses` ran. A busy API server takes longer for each the more there are. */
  readonly #lastStatuses: Durations

  constructor(clock: Clock, connections: number) {
    this.#clock = clock
    this.#last = new Durations(clock, Infinity)
    this.#lastStatuses = new Durations(clock, statusesKeptMs)
    this.maxStatuses = Math.max(1, Math.floor(connections * statusShare))
    this.maxDirect = connections
    this.#maxBeside = Math.max(firstOfBurst, this.maxStatuses)
  }

  /** How many entries there may be. */
  get maxEntries(): number {
    const ms = Math.max(1, this.#usualMs, this.#lastStatuses.median ?? 0)
    return Math.floor((this.maxStatuses * availableMs) / ms)
  }

  get #usualMs(): number {
    return this.#last.median ?? assumedMs
  }

  /** `isStatus`: the write is a status that follows the journal, and no caller waits for it. */
  async measure<T>(write: () => Promise<T>, isStatus = false): Promise<T> {
    const since = this.#clock.elapsed()
    const begunBeside = ++this.#running
    const statusesThen = isStatus ? ++this.#statusesRunning : 0
    let hasFailed = true
    try {
      const result = await write()
      hasFailed = false
      return result
    } finally {
      const ms = this.#clock.elapsed() - since
      // Among more concurrent writes, a caller's is slow because of their number. A refusal may be quick even if the API server is slow.
      const isTypical = isStatus || Math.max(begunBeside, this.#running) <= this.#maxBeside
      const isFull = Math.min(statusesThen, this.#statusesRunning) >= this.maxStatuses
      if (isFull && !hasFailed) this.#lastStatuses.add(ms)
      else if (hasFailed ? ms > this.#usualMs : isTypical || ms < this.#usualMs) this.#last.add(ms)
      this.#running--
      if (isStatus) this.#statusesRunning--
    }
  }
}

/** How long the last few writes took, in ms. */
class Durations {
  readonly #clock: Clock
  readonly #keptMs: number
  #measured: readonly { readonly ms: number; readonly at: number }[] = []

  constructor(clock: Clock, keptMs: number) {
    this.#clock = clock
    this.#keptMs = keptMs
  }

  add(ms: number): void {
    this.#measured = [...this.#measured, { ms, at: this.#clock.elapsed() }].slice(-maxMeasured)
  }

  /** Undefined if there are none. Of two in the middle, the lower one. */
  get median(): number | undefined {
    const since = this.#clock.elapsed() - this.#keptMs
    const sorted = this.#measured.filter(({ at }) => at > since).toSorted((a, b) => a.ms - b.ms)
    return sorted[Math.floor((sorted.length - 1) / 2)]?.ms
  }
}
