/**
 * Drains a server, a build or the whole fleet: terminates idle servers, and lets Active ones finish unless the caller
 * chooses to terminate them too. Emits an event whenever the number of remaining servers changes.
 */
import { FleetError } from '../../contracts/errors.js'
import type { DrainOptions, DrainResult } from '../../contracts/options.js'
import { isIdle, transition } from '../../rules/lifecycle/lifecycle.js'
import type { EngineContext } from '../context.js'
import type { ServerEntry } from '../state/entries.js'
import { isBeingAllocated } from '../state/queries.js'

export interface DrainScope {
  /** What is being drained, for messages: `the fleet`, `build arena`, `server arena-x7k2p`. */
  readonly what: string
  /** The servers that remain. */
  entries(): Iterable<ServerEntry>
  /** How many these are, and how many of them are Active. Called often, so it does not iterate over them. */
  count(): DrainCount
  /** True once an operator has ended the drain with `resume`, so that the remaining servers are kept. */
  isResumed(): boolean
}

export interface DrainCount {
  readonly remaining: number
  readonly active: number
}

interface DrainWait {
  check(): void
  finish(): void
}

export class Drainer {
  readonly #ctx: EngineContext
  readonly #waits = new Set<DrainWait>()
  /** Servers that a drain skipped because they had a session or were being allocated. */
  readonly #skipped = new WeakMap<ServerEntry, DrainScope>()

  constructor(ctx: EngineContext) {
    this.#ctx = ctx
  }

  /** Resolves when no servers remain, at the deadline, when the scope is resumed, or when the engine stops. */
  async drain(scope: DrainScope, options: DrainOptions): Promise<DrainResult> {
    // The scope may have been resumed, or the engine stopped, while the Draining condition was being written.
    if (this.#isOver(scope)) return { remaining: scope.count().remaining }
    this.#terminateAll(scope, options.active ?? 'wait')
    const remaining = await this.#untilOver(scope, options)
    return { remaining }
  }

  /** True if a drain terminates the server as soon as it is idle. */
  awaits(entry: ServerEntry): boolean {
    return this.#skipped.get(entry)?.isResumed() === false
  }

  /** Call when the allocation of a server has failed, or its game has ended its session. If a drain skipped the server, terminates it now. */
  released(entry: ServerEntry): void {
    const scope = this.#skipped.get(entry)
    if (scope && !scope.isResumed() && isIdle(entry.record)) this.#terminate(entry, scope)
  }

  /** Call when a server has been removed or a scope has been resumed. */
  checkProgress(): void {
    for (const { check } of [...this.#waits]) check()
  }

  /** Resolves every drain with the number of servers that remain. */
  stop(): void {
    for (const { finish } of [...this.#waits]) finish()
  }

  #terminateAll(scope: DrainScope, active: NonNullable<DrainOptions['active']>): void {
    for (const entry of [...scope.entries()]) {
      if (active !== 'terminate') {
        if (isBeingAllocated(entry) || !isIdle(entry.record)) {
          this.#skipped.set(entry, scope)
          continue
        }
      }
      this.#terminate(entry, scope)
    }
  }

  #terminate(entry: ServerEntry, { what }: DrainScope): void {
    const { clock, inventory } = this.#ctx
    const event = { type: 'end' as const, reason: 'Drained' as const, message: `${what} is draining` }
    inventory.update(entry, transition(entry.record, event, clock.now()))
  }

  #isOver(scope: DrainScope): boolean {
    return scope.isResumed() || this.#ctx.stopped()
  }

  /** Resolves with the number of servers that remain: 0, or more if the drain ends early. */
  #untilOver(scope: DrainScope, { deadlineMs, signal }: DrainOptions): Promise<number> {
    const { clock } = this.#ctx
    const reportProgress = this.#progressReporter(scope)
    return new Promise((resolve, reject) => {
      const stop = () => {
        cancel()
        this.#waits.delete(wait)
        signal?.removeEventListener('abort', abort)
      }
      const finish = () => {
        stop()
        resolve(reportProgress())
      }
      const check = () => {
        if (this.#isOver(scope) || reportProgress() === 0) finish()
      }
      const abort = () => {
        stop()
        reject(new FleetError('aborted', 'the caller stopped waiting for the drain; the drain continues'))
      }
      const cancel = deadlineMs === undefined ? () => {} : clock.after(deadlineMs, finish)
      const wait = { check, finish }
      this.#waits.add(wait)
      signal?.addEventListener('abort', abort, { once: true })
      if (signal?.aborted) abort()
      else check()
    })
  }

  /** Returns a function that returns the number of remaining servers, and emits an event if it has changed. */
  #progressReporter(scope: DrainScope): () => number {
    const { clock, emitter } = this.#ctx
    let reported: number | undefined
    return () => {
      const { remaining, active } = scope.count()
      if (remaining === reported) return remaining
      reported = remaining
      const message = `draining ${scope.what}; servers left: ${remaining}, of them Active: ${active}`
      emitter.emit({ type: 'DrainProgress', at: clock.now(), message, remaining, active })
      return remaining
    }
  }
}
