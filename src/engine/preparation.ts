/**
 * Has the backend fetch what the servers of a build need, once for all of them: when a build is first seen, when its
 * template changes, and again after a failure, once a server is due. Servers wait for it as Pending, and hold nothing.
 */
import { messageOf } from '../errors.js'
import { afterFailure, type Backoff, noBackoff } from '../rules/backoff.js'
import { withoutCondition } from '../rules/status.js'
import type { BuildWriter } from './build-writer.js'
import { backoffLimits, buildEvent, type EngineContext, refOf } from './context.js'
import { type BuildEntry, type ServerEntry, serversOf } from './inventory.js'

export interface Preparation {
  /** Begins to fetch for this build, if nobody has for the template that it has now. */
  look(build: BuildEntry): void
  /**
   * Undefined when a server may be started; else in how many ms to come back at the latest: it is asked to come as soon
   * as there is an outcome. Throws why it failed, once to each server; who comes again begins anew.
   */
  wait(entry: ServerEntry): number | undefined
  /** Something may be missing after all: the next server begins anew. */
  doubt(build: BuildEntry): void
  stop(): void
}

interface Attempt {
  readonly templateHash: string
  /** Servers that know why it failed. */
  readonly told: WeakSet<ServerEntry>
  /** A failed one is followed by another not before its pause is over. */
  outcome?: 'ready' | { readonly error: unknown; readonly backoff: Backoff }
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
  const stopped = new AbortController()

  function begin(build: BuildEntry, before: Backoff): Attempt {
    const attempt: Attempt = { templateHash: build.templateHash, told: new WeakSet() }
    attempts.set(build, attempt)
    void carryOut(build, attempt, before)
    return attempt
  }

  /** Never rejects: the outcome is told to whoever waits for it. */
  async function carryOut(build: BuildEntry, attempt: Attempt, before: Backoff): Promise<void> {
    const { namespace, name, uid, spec } = build.record
    const tell = (status: 'working' | 'done' | 'failed', message: string) => {
      if (!stopped.signal.aborted) {
        ctx.emitter.emit({ type: 'BuildPreparing', status, ...buildEvent(ctx, build.record, message) })
      }
    }
    try {
      await backend.prepare?.(
        { build: { namespace, name, uid, buildID: spec.buildID }, template: spec.template },
        {
          signal: stopped.signal,
          onProgress: (message) => {
            attempt.progress = message
            tell('working', `build ${name}: ${message}`)
            for (const entry of waitingServers(build)) entry.pendingReason = message
          },
        },
      )
      attempt.outcome = 'ready'
      if (attempt.progress !== undefined) tell('done', `build ${name} has all that its servers need`)
    } catch (error) {
      attempt.outcome = { error, backoff: afterFailure(before, clock.elapsed(), backoffLimits(ctx)) }
      tell('failed', `build ${name} cannot start servers yet: ${messageOf(error)}`)
      if (!stopped.signal.aborted) {
        ctx.logger.warn({ build: refOf(build.record).name, error: messageOf(error) }, 'a build cannot be prepared yet')
      }
    }
    if (ctx.stopped() || attempts.get(build) !== attempt) return
    for (const entry of waitingServers(build)) ctx.touch(entry)
    if (attempt.outcome === 'ready') await unblock(build)
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

  return {
    look(build) {
      if (build.deleted || build.draining || ctx.stopped() || current(build)) return
      begin(build, noBackoff)
    },

    wait(entry) {
      const { build } = entry
      let attempt = current(build) ?? begin(build, noBackoff)
      const failed = typeof attempt.outcome === 'object' && attempt.told.has(entry) ? attempt.outcome : undefined
      if (failed) {
        const pauseMs = failed.backoff.until - clock.elapsed()
        if (pauseMs > 0) return pauseMs
        attempt = begin(build, failed.backoff)
      }
      const { outcome, progress } = attempt
      if (outcome === 'ready') return undefined
      if (outcome) {
        attempt.told.add(entry)
        throw outcome.error
      }
      if (progress !== undefined) entry.pendingReason = progress
      return comeBackMs
    },

    doubt(build) {
      if (attempts.get(build)?.outcome === 'ready') attempts.delete(build)
    },

    stop() {
      stopped.abort()
    },
  }
}

function* waitingServers(build: BuildEntry): Generator<ServerEntry> {
  for (const entry of serversOf(build)) {
    if (entry.record.state === 'Pending' && !entry.instance) yield entry
  }
}
