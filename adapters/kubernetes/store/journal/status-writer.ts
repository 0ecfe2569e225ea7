/**
 * Brings the statuses of servers up to date behind the journal: in a pause between allocations, or once an entry has waited for
 * `maxDelayMs`, a few at a time. Then removes the entries from the journal.
 */
import type { CallOptions } from '../../../../src/contracts/call-options.js'
import type { Clock } from '../../../../src/contracts/clock.js'
import { FleetError } from '../../../../src/contracts/errors.js'
import type { Logger } from '../../../../src/contracts/logger.js'
import { keyOf, type Ref } from '../../../../src/rules/model/resources.js'
import { pauseMs } from '../../../../src/rules/lifecycle/backoff.js'
import type { StoredServer } from './entry.js'
import type { Journal } from './journal.js'
import type { PendingEntries, PendingEntry } from './pending-entries.js'
import type { WritePace } from './write-pace.js'

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

export interface StatusWriterDependencies {
  readonly clock: Clock
  readonly logger: Logger
  readonly objects: ServerObjects
  readonly journal: Journal
  readonly pending: PendingEntries
  readonly pace: WritePace
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
