/**
 * Has the backend fetch what the servers of a build need, once for all of them: when a build is first seen, when its
 * template changes, and again after a failure, once a server is due. Servers wait for it as Pending, and hold nothing.
 */
import { messageOf } from '../../contracts/errors.js'
import { afterFailure, type Backoff, noBackoff } from '../../rules/lifecycle/backoff.js'
import { withoutCondition } from '../../rules/model/status.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { backoffLimits, buildEvent, type EngineContext, refOf } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { serversOf } from '../state/queries.js'

export interface Preparation {
  /**
   * Begins to fetch for this build, if nobody has for the template that it has now, and calls those that were told to
   * wait once there is an outcome. To be asked by each pass.
   */
  look(build: BuildEntry): void
  /**
   * Undefined when a server may be started; else in how many ms to come back at the latest: it is called as soon as
   * there is an outcome. Throws why it failed, once to each server; who comes when the pause is over begins anew.
   */
  wait(entry: ServerEntry): number | undefined
  /** Something may be missing after all: the next server that wants to start begins anew. */
  doubt(build: BuildEntry): void
  stop(): void
}

interface Attempt {
  readonly templateHash: string
  readonly aborter: AbortController
  /** Servers that were told to come back, and have not been called yet. */
  readonly waiting: Set<ServerEntry>
  /** Servers that know why it failed. */
  readonly told: WeakSet<ServerEntry>
  /** A failed one is followed by another not before its pause is over. */
  outcome?: 'ready' | 'doubted' | { readonly error: unknown; readonly backoff: Backoff }
  /** How far it is. */
  progress?: string
}

/** How long a server waits that nobody asks to come back. */
const comeBackMs = 1_000

const nothingNeeded: Preparation = { look() {}, wait: () => undefined, doubt() {}, stop() {} }

export function preparation(ctx: EngineContext, writer: BuildWriter): Preparation {
  const { backend, clock } = ctx
  if (!backend.prepare) return nothingNeeded
  const attempts = new WeakMap<BuildEntry, Attempt>()
  const running = new Set<Attempt>()

  function begin(build: BuildEntry): Attempt {
    const before = attempts.get(build)
    const { templateHash } = build
    const attempt: Attempt = { templateHash, aborter: new AbortController(), waiting: new Set(), told: new WeakSet() }
    attempts.set(build, attempt)
    if (before && before.templateHash !== templateHash) supersede(build, before)
    void carryOut(build, attempt, before?.templateHash === templateHash ? before.outcome : undefined)
    return attempt
  }

  /** What came of an earlier template says nothing about this one: nobody waits for it, or tells it. */
  function supersede(build: BuildEntry, before: Attempt): void {
    before.aborter.abort()
    for (const entry of waitingServers(build)) {
      entry.retry = noBackoff
      entry.pendingReason = undefined
    }
  }

  /** Never rejects: the outcome is told to whoever waits for it, unless nobody wants it any more. */
  async function carryOut(build: BuildEntry, attempt: Attempt, before: Attempt['outcome']): Promise<void> {
    const { namespace, name, uid, spec } = build.record
    const isWanted = () => attempts.get(build) === attempt && !ctx.stopped()
    const tell = (status: 'working' | 'done' | 'failed', message: string) => {
      ctx.emitter.emit({ type: 'BuildPreparing', status, ...buildEvent(ctx, build.record, message) })
    }
    running.add(attempt)
    try {
      await backend.prepare?.(
        { build: { namespace, name, uid, buildID: spec.buildID }, template: spec.template },
        {
          signal: attempt.aborter.signal,
          onProgress: (message) => {
            if (!isWanted() || attempt.outcome) return
            attempt.progress = message
            tell('working', `build ${name}: ${message}`)
            for (const entry of waitingServers(build)) entry.pendingReason = message
          },
        },
      )
      if (!isWanted()) return
      attempt.outcome = 'ready'
      if (attempt.progress !== undefined) tell('done', `build ${name} has all that its servers need`)
    } catch (error) {
      if (!isWanted()) return
      const backoff = typeof before === 'object' ? before.backoff : noBackoff
      attempt.outcome = { error, backoff: afterFailure(backoff, clock.elapsed(), backoffLimits(ctx)) }
      tell('failed', `build ${name} cannot start servers yet: ${messageOf(error)}`)
      ctx.logger.warn({ build: refOf(build.record).name, error: messageOf(error) }, 'a build cannot be prepared yet')
    } finally {
      running.delete(attempt)
    }
    // The pass calls those that wait.
    ctx.enqueue(build)
    // After a doubt it was a start that failed, and only a start can tell that it does so no more.
    if (attempt.outcome === 'ready' && before !== 'doubted') await unblock(build)
  }

  /** Their pause is over, but not their failures: a server that cannot be started comes ever more rarely. */
  function call({ waiting }: Attempt): void {
    for (const entry of waiting) {
      // It has only just been told to wait: the pass that follows calls it.
      if (entry.busy) continue
      waiting.delete(entry)
      if (!isWaiting(entry)) continue
      entry.retry = { failures: entry.retry.failures, until: clock.elapsed() }
      entry.build.needsAction.add(entry)
    }
  }

  /** What failed before does so no more. */
  async function unblock(build: BuildEntry): Promise<void> {
    if (build.deleted || !build.record.conditions.some(({ type }) => type === 'CreateBlocked')) return
    try {
      await writer.change(build, (record) => ({
        ...record,
        conditions: withoutCondition(record.conditions, 'CreateBlocked'),
      }))
    } catch (error) {
      // The first server that starts takes it off as well.
      ctx.logger.debug({ build: build.record.name, error: messageOf(error) }, 'a condition could not be taken off yet')
    }
  }

  function current(build: BuildEntry): Attempt | undefined {
    const attempt = attempts.get(build)
    return attempt?.templateHash === build.templateHash ? attempt : undefined
  }

  /** It says nothing about how things are now. */
  function isOutdated({ outcome }: Attempt): boolean {
    return outcome === 'doubted' || (typeof outcome === 'object' && outcome.backoff.until <= clock.elapsed())
  }

  return {
    look(build) {
      if (ctx.stopped()) return
      const attempt = current(build)
      if (attempt?.outcome) call(attempt)
      else if (!attempt && !build.deleted && !build.draining) begin(build)
    },

    wait(entry) {
      const { build } = entry
      const last = current(build)
      const attempt = last && !isOutdated(last) ? last : begin(build)
      const { outcome, progress } = attempt
      if (outcome === undefined || outcome === 'doubted') {
        attempt.waiting.add(entry)
        if (progress !== undefined) entry.pendingReason = progress
        return comeBackMs
      }
      attempt.waiting.delete(entry)
      if (outcome === 'ready') return undefined
      if (attempt.told.has(entry)) return outcome.backoff.until - clock.elapsed()
      attempt.told.add(entry)
      throw outcome.error
    },

    doubt(build) {
      const attempt = attempts.get(build)
      if (attempt?.outcome === 'ready') attempt.outcome = 'doubted'
    },

    stop() {
      for (const { aborter } of running) aborter.abort()
    },
  }
}

function* waitingServers(build: BuildEntry): Generator<ServerEntry> {
  for (const entry of serversOf(build)) if (isWaiting(entry)) yield entry
}

function isWaiting(entry: ServerEntry): boolean {
  return entry.record.state === 'Pending' && !entry.instance
}
