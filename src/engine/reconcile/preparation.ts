/**
 * Has the backend prepare a build, for example by pulling an image, once for all its servers: when the build is first
 * reconciled, when its template changes, and again after a failure. Until the preparation is done, the build's servers stay
 * Pending and use no resources.
 */
import type { PrepareOptions } from '../../contracts/backend.js'
import { messageOf } from '../../contracts/errors.js'
import { afterFailure, type Backoff, noBackoff } from '../../rules/lifecycle/backoff.js'
import { cutMessage } from '../../rules/model/sizes.js'
import { backoffLimits, buildEvent, type EngineContext } from '../context.js'
import { type Conditions, hasCondition } from '../reporting/conditions.js'
import { setPendingReason } from '../reporting/start-failures.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { serversOf } from '../state/queries.js'

/** `stale`: the outcome was `ready`, but a server has since failed to start, so something may be missing after all. */
type Outcome = 'ready' | 'stale' | { readonly error: unknown; readonly backoff: Backoff }

interface Attempt {
  readonly templateHash: string
  readonly aborter: AbortController
  /** Servers to requeue once there is an outcome. */
  readonly waiting: Set<ServerEntry>
  /** Servers that have already received the error of this attempt. */
  readonly failed: WeakSet<ServerEntry>
  outcome?: Outcome
  /** The latest progress message. */
  progress?: string
}

/** Maximum time until a waiting server checks again, in case it is not requeued. */
const recheckMs = 1_000

export class Preparation {
  readonly #ctx: EngineContext
  readonly #conditions: Conditions
  readonly #attempts = new WeakMap<BuildEntry, Attempt>()
  readonly #running = new Set<Attempt>()

  constructor(ctx: EngineContext, conditions: Conditions) {
    this.#ctx = ctx
    this.#conditions = conditions
  }

  /**
   * Starts an attempt if the current template has none. If the attempt has an outcome, requeues the servers that wait for
   * it. Aborts the attempt of a deleted build.
   */
  reconcile(build: BuildEntry): void {
    if (!this.#ctx.backend.prepare || this.#ctx.stopped()) return
    if (build.deleted) return this.#attempts.get(build)?.aborter.abort()
    const attempt = this.#currentAttempt(build)
    if (attempt?.outcome) this.#requeueWaiting(attempt)
    else if (!attempt && !build.draining) this.#start(build)
  }

  /**
   * Starts an attempt if the server needs one. Returns undefined if the server may start, or else the maximum time in ms
   * after which to call again. Throws the error of a failed attempt once per server.
   */
  prepareFor(entry: ServerEntry): number | undefined {
    if (!this.#ctx.backend.prepare) return undefined
    const { build } = entry
    const last = this.#currentAttempt(build)
    const attempt = last && !this.#isOutdated(last) ? last : this.#start(build)
    const { outcome, progress } = attempt
    if (outcome === undefined || outcome === 'stale') {
      attempt.waiting.add(entry)
      if (progress !== undefined) setPendingReason(this.#ctx, entry, progress)
      return recheckMs
    }
    attempt.waiting.delete(entry)
    if (outcome === 'ready') return undefined
    if (attempt.failed.has(entry)) return outcome.backoff.until - this.#ctx.clock.elapsed()
    attempt.failed.add(entry)
    throw outcome.error
  }

  /** Call when a server could not be started. The build is then prepared again before the next start. */
  markStale(build: BuildEntry): void {
    const attempt = this.#attempts.get(build)
    if (attempt?.outcome === 'ready') attempt.outcome = 'stale'
  }

  stop(): void {
    for (const { aborter } of this.#running) aborter.abort()
    for (const build of this.#ctx.inventory.everyBuild) this.#attempts.get(build)?.aborter.abort()
  }

  #currentAttempt(build: BuildEntry): Attempt | undefined {
    const attempt = this.#attempts.get(build)
    return attempt?.templateHash === build.templateHash ? attempt : undefined
  }

  #isOutdated({ outcome }: Attempt): boolean {
    return outcome === 'stale' || (typeof outcome === 'object' && outcome.backoff.until <= this.#ctx.clock.elapsed())
  }

  #start(build: BuildEntry): Attempt {
    const before = this.#attempts.get(build)
    const { templateHash } = build
    const attempt: Attempt = { templateHash, aborter: new AbortController(), waiting: new Set(), failed: new WeakSet() }
    this.#attempts.set(build, attempt)
    if (before && before.templateHash !== templateHash) this.#supersede(build, before)
    void this.#run(build, attempt, before?.templateHash === templateHash ? before.outcome : undefined)
    return attempt
  }

  /** Aborts the attempt for an earlier template. Its outcome no longer matters, so no server waits for it or reports it. */
  #supersede(build: BuildEntry, before: Attempt): void {
    before.aborter.abort()
    for (const entry of waitingServers(build)) {
      entry.retry = noBackoff
      setPendingReason(this.#ctx, entry, undefined)
    }
  }

  /** Runs an attempt. Never rejects. If the attempt has been superseded, reports nothing. */
  async #run(build: BuildEntry, attempt: Attempt, before: Outcome | undefined): Promise<void> {
    const { backend, clock, logger } = this.#ctx
    const { namespace, name, uid, spec } = build.record
    const isCurrent = () => this.#attempts.get(build) === attempt && !this.#ctx.stopped()
    this.#running.add(attempt)
    try {
      await backend.prepare?.(
        { build: { namespace, name, uid, buildID: spec.buildID }, template: spec.template },
        this.#prepareOptions(build, attempt, isCurrent),
      )
      if (!isCurrent()) return
      attempt.outcome = 'ready'
      if (attempt.progress !== undefined) this.#report(build, 'done', `build ${name} is prepared`)
    } catch (error) {
      if (!isCurrent()) return
      const backoff = typeof before === 'object' ? before.backoff : noBackoff
      attempt.outcome = { error, backoff: afterFailure(backoff, clock.elapsed(), backoffLimits(this.#ctx)) }
      this.#report(build, 'failed', `build ${name} could not be prepared: ${messageOf(error)}`)
      logger.warn({ build: name, err: error }, 'build preparation failed; will retry')
    } finally {
      this.#running.delete(attempt)
    }
    // The reconcile requeues the waiting servers.
    this.#ctx.enqueue(build)
    // If the previous outcome was stale, a start has failed, so only a successful start shows that the problem is solved.
    if (attempt.outcome === 'ready' && before !== 'stale') await this.#clearCreateBlocked(build)
  }

  #prepareOptions(build: BuildEntry, attempt: Attempt, isCurrent: () => boolean): PrepareOptions {
    return {
      signal: attempt.aborter.signal,
      onProgress: (text) => {
        if (!isCurrent() || attempt.outcome) return
        const message = cutMessage(text)
        attempt.progress = message
        this.#report(build, 'working', `build ${build.record.name}: ${message}`)
        for (const entry of waitingServers(build)) setPendingReason(this.#ctx, entry, message)
      },
    }
  }

  #report(build: BuildEntry, status: 'working' | 'done' | 'failed', message: string): void {
    this.#ctx.emitter.emit({ type: 'BuildPreparing', status, ...buildEvent(this.#ctx, build.record, message) })
  }

  /**
   * Ends the wait of the servers but keeps their failure counts, so that a server that fails to start again backs off for
   * longer.
   */
  #requeueWaiting({ waiting }: Attempt): void {
    for (const entry of waiting) {
      // The server's action has not finished yet; the reconcile that follows it requeues the server.
      if (entry.busy) continue
      waiting.delete(entry)
      if (!isWaiting(entry)) continue
      entry.retry = { failures: entry.retry.failures, until: this.#ctx.clock.elapsed() }
      entry.build.needsAction.add(entry)
    }
  }

  async #clearCreateBlocked(build: BuildEntry): Promise<void> {
    if (build.deleted || !hasCondition(build.record, 'CreateBlocked')) return
    try {
      await this.#conditions.clear(build, 'CreateBlocked')
    } catch (error) {
      // Only logged, because the first server that starts also clears the condition.
      this.#ctx.logger.debug({ build: build.record.name, err: error }, 'CreateBlocked condition not cleared yet')
    }
  }
}

function* waitingServers(build: BuildEntry): Generator<ServerEntry> {
  for (const entry of serversOf(build)) if (isWaiting(entry)) yield entry
}

function isWaiting(entry: ServerEntry): boolean {
  return entry.record.state === 'Pending' && !entry.instance
}
