/**
 * Moves a build towards its desired state. Reconciles are level-triggered: each one reads the current state, makes a plan,
 * starts the actions that are needed, and returns without waiting for them. Each action queues another reconcile when it
 * completes or fails.
 */
import { messageOf } from '../../contracts/errors.js'
import { afterFailure, isOver, noBackoff } from '../../rules/lifecycle/backoff.js'
import { type ConditionType, keyOf } from '../../rules/model/resources.js'
import { backoffLimits, type EngineContext } from '../context.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Scaler } from './scaler.js'
import { needsSaving, type ServerActions } from './server-actions.js'

export interface ReconcilerDependencies {
  readonly conditions: Conditions
  readonly actions: ServerActions
  readonly scaler: Scaler
  /** Called when a server has been removed. */
  readonly serverRemoved: () => void
}

export class Reconciler {
  readonly #ctx: EngineContext
  readonly #deps: ReconcilerDependencies

  constructor(ctx: EngineContext, deps: ReconcilerDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Reconciles one build. Returns the time in ms after which to reconcile it again even if there is no event. */
  reconcile(build: BuildEntry): number | undefined {
    if (this.#ctx.stopped()) return undefined
    const actMs = earlier(this.#deps.scaler.scale(build), this.#startActions(build))
    return earlier(actMs, earlier(this.#clearConditions(build), this.#reviewLosses(build)))
  }

  /** Starts every action that can start now. Returns the time in ms until the first back-off ends. */
  #startActions(build: BuildEntry): number | undefined {
    let earliestMs: number | undefined
    for (const entry of build.needsAction) {
      if (entry.busy && !needsSaving(entry)) continue
      const backoffMs = entry.retry.until - this.#ctx.clock.elapsed()
      if (backoffMs > 0) earliestMs = earlier(earliestMs, backoffMs)
      else if (entry.busy) void this.#save(entry)
      else void this.#act(entry)
    }
    return earliestMs
  }

  /** Takes the next action for a server. Never rejects: a failure is reported, and the action is retried after a back-off. */
  async #act(entry: ServerEntry): Promise<void> {
    entry.busy = true
    try {
      const againMs = await this.#nextAction(entry)
      // If the server only has to wait, its action has not succeeded yet, so its failure count is kept.
      const { failures } = entry.retry
      entry.retry = againMs === undefined ? noBackoff : { failures, until: this.#ctx.clock.elapsed() + againMs }
    } catch (error) {
      this.#failed(entry, error)
    } finally {
      entry.busy = false
      this.#ctx.enqueue(entry.build)
    }
  }

  async #nextAction(entry: ServerEntry): Promise<number | undefined> {
    const againMs = await this.#deps.actions.next(entry)
    if (this.#ctx.inventory.servers.get(keyOf(entry.record)) !== entry) this.#serverRemoved(entry)
    return againMs
  }

  #serverRemoved({ build }: ServerEntry): void {
    this.#deps.serverRemoved()
    // The ports of the removed server are free now.
    const [next] = build.withoutPort
    if (next) this.#ctx.requeue(next)
  }

  /** Writes a server's record while another action for it is waiting for the backend. Never rejects. */
  async #save(entry: ServerEntry): Promise<void> {
    try {
      await this.#deps.actions.save(entry)
    } catch (error) {
      this.#failed(entry, error)
    } finally {
      this.#ctx.enqueue(entry.build)
    }
  }

  #failed(entry: ServerEntry, error: unknown): void {
    const { clock, emitter, logger } = this.#ctx
    if (this.#ctx.stopped()) return
    entry.retry = afterFailure(entry.retry, clock.elapsed(), backoffLimits(this.#ctx))
    emitter.emit({ type: 'ReconcileFailed', at: clock.now(), build: entry.build.ref, message: messageOf(error) })
    logger.warn({ server: entry.record.name, err: error }, 'server action failed; will retry')
  }

  /** Clears conditions that no longer hold. Returns the time in ms after which to check again. */
  #clearConditions(build: BuildEntry): number | undefined {
    if (build.deleted || build.writing || build.record.conditions.length === 0) return undefined
    // A budget that the fleet had before may have left its condition.
    if (!this.#ctx.budget && hasCondition(build.record, 'BudgetReached')) return this.#clear(build, 'BudgetReached')
    const now = this.#ctx.clock.elapsed()
    const { pending, outdatedPending, late, outdatedLate } = build.buckets
    // During a back-off no server is Pending, but the cause may persist, so keep the condition.
    const isTrying =
      pending.size + outdatedPending.size + late.size + outdatedLate.size > 0 || build.backoff.until > now
    if (hasCondition(build.record, 'CreateBlocked') && !isTrying) return this.#clear(build, 'CreateBlocked')
    if (!hasCondition(build.record, 'Crashing')) return undefined
    // Clear the condition once servers have stayed up long enough. The crash count is kept.
    const limitsMs = backoffLimits(this.#ctx)
    if (!isOver(build.backoff, now, limitsMs)) return build.backoff.until + limitsMs.resetMs - now
    return this.#clear(build, 'Crashing')
  }

  /** Sets or clears the condition `Disappearing`. Returns the time in ms after which to check again. */
  #reviewLosses(build: BuildEntry): number | undefined {
    if (build.disappearing === undefined && !hasCondition(build.record, 'Disappearing')) return undefined
    const now = this.#ctx.clock.elapsed()
    const limitsMs = backoffLimits(this.#ctx)
    if (isOver(build.backoff, now, limitsMs)) build.disappearing = undefined
    const { reason = 'Gone', message } = build.disappearing ?? {}
    this.#deps.conditions.update(build, 'Disappearing', reason, message)
    return message === undefined ? undefined : build.backoff.until + limitsMs.resetMs - now
  }

  #clear(build: BuildEntry, type: ConditionType): number {
    this.#deps.conditions.startClearing(build, type)
    return this.#ctx.limits.backoffInitialMs
  }
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return Math.min(a, b)
}
