/**
 * Brings a build from what it is to what it should be. Level-triggered: a pass reads the present state, plans, begins
 * what is to be done and returns; whatever ends or fails asks for the next pass. A pass itself never waits.
 */
import { messageOf } from '../../contracts/errors.js'
import { afterFailure, isOver, noBackoff } from '../../rules/lifecycle/backoff.js'
import type { ConditionType } from '../../rules/model/resources.js'
import { withoutCondition } from '../../rules/model/status.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { backoffLimits, buildEvent, buildRefOf, type EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { Scaler } from './scaler.js'
import { needsSaving, type ServerActions } from './server-actions.js'

export interface ReconcilerDependencies {
  readonly buildWriter: BuildWriter
  readonly steps: ServerActions
  readonly scale: Scaler
}

/** One pass over one build; returns in how many ms to come again without being asked. */
export type Reconcile = (build: BuildEntry) => number | undefined

export function reconciler(ctx: EngineContext, parts: ReconcilerDependencies): Reconcile {
  const { clock } = ctx

  function reconcile(build: BuildEntry): number | undefined {
    if (ctx.stopped()) return undefined
    return sooner(sooner(parts.scale(build), attendAll(build)), clearConditions(build))
  }

  /** Begins whatever can be begun; returns when the first pause after a failure is over. */
  function attendAll(build: BuildEntry): number | undefined {
    let soonest: number | undefined
    for (const entry of build.needsAction) {
      if (entry.busy && !needsSaving(entry)) continue
      const pauseMs = entry.retry.until - clock.elapsed()
      if (pauseMs > 0) soonest = sooner(soonest, pauseMs)
      else if (entry.busy) void save(entry)
      else void attend(entry)
    }
    return soonest
  }

  /** Never rejects: what fails is told, and tried again after a pause. */
  async function attend(entry: ServerEntry): Promise<void> {
    entry.busy = true
    try {
      const againMs = await parts.steps.step(entry)
      // Who only has to wait has not succeeded yet: what failed before still counts.
      const { failures } = entry.retry
      entry.retry = againMs === undefined ? noBackoff : { failures, until: clock.elapsed() + againMs }
    } catch (error) {
      failed(entry, error)
    } finally {
      entry.busy = false
      ctx.enqueue(entry.build)
    }
  }

  /**
   * Its end, or its session, does not wait to be on record until a backend answers that was asked to start it. Never
   * rejects.
   */
  async function save(entry: ServerEntry): Promise<void> {
    try {
      await parts.steps.save(entry)
    } catch (error) {
      failed(entry, error)
    } finally {
      ctx.enqueue(entry.build)
    }
  }

  function failed(entry: ServerEntry, error: unknown): void {
    // An engine that is over does nothing again, and has nothing to tell.
    if (ctx.stopped()) return
    entry.retry = afterFailure(entry.retry, clock.elapsed(), backoffLimits(ctx))
    ctx.emitter.emit({
      type: 'ReconcileFailed',
      at: clock.now(),
      build: buildRefOf(entry.record),
      message: messageOf(error),
    })
    ctx.logger.warn({ server: entry.record.name, error: messageOf(error) }, 'could not be done, will be tried again')
  }

  /** What is over is not told any more; returns when to look again. */
  function clearConditions(build: BuildEntry): number | undefined {
    if (build.deleted || build.writing || build.record.conditions.length === 0) return undefined
    const { pending, outdatedPending } = build.buckets
    // During a pause there are none, and what it is for is not over.
    const isTrying = pending.size + outdatedPending.size > 0 || build.backoff.until > clock.elapsed()
    if (has(build, 'CreateBlocked') && !isTrying) return clear(build, 'CreateBlocked')
    if (!has(build, 'Crashing')) return undefined
    // A build whose servers stay up has forgotten its crashes, but for their count.
    const limitsMs = backoffLimits(ctx)
    const now = clock.elapsed()
    if (!isOver(build.backoff, now, limitsMs)) return build.backoff.until + limitsMs.resetMs - now
    return clear(build, 'Crashing')
  }

  function clear(build: BuildEntry, type: ConditionType): number {
    parts.buildWriter
      .change(build, (record) => ({ ...record, conditions: withoutCondition(record.conditions, type) }))
      .catch((error: unknown) => {
        ctx.emitter.emit({ type: 'ReconcileFailed', ...buildEvent(ctx, build.record, messageOf(error)) })
      })
    return ctx.limits.backoffInitialMs
  }

  return reconcile
}

function sooner(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return Math.min(a, b)
}

function has(build: BuildEntry, type: ConditionType): boolean {
  return build.record.conditions.some((condition) => condition.type === type)
}
