/**
 * What follows when something in the inventory has changed: who is told of it, which build is queued, and what pause begins.
 * Synchronous: the same tick does it all.
 */
import { FleetError, messageOf } from '../contracts/errors.js'
import { sessionKey } from '../rules/planning/allocation.js'
import { afterFailure, noBackoff } from '../rules/lifecycle/backoff.js'
import { callsForPause, wasRefused } from '../rules/lifecycle/lifecycle.js'
import type { Build, Server } from '../rules/model/resources.js'
import type { BuildOperations } from './build-operations.js'
import { backoffLimits, type EngineContext } from './context.js'
import type { Drainer } from './reconcile/drain.js'
import type { Bucket, BuildEntry, ServerEntry } from './state/entries.js'
import { isCurrent, isDrained } from './state/queries.js'
import { isSaved } from './persistence/server-writer.js'
import { needsProtection } from './reconcile/server-actions.js'
import { eventReporter } from './reporting/event-reporter.js'
import type { WaitQueue } from './allocation/wait-queue.js'

export interface ChangeHandlers {
  /** The record of a server is another than `before`. */
  serverChanged(entry: ServerEntry, before: Server, from: Bucket): void
  /** Another host has written this record, or may have. */
  serverAppeared(server: Server): void
  /** A server does not come to run by itself. */
  serverStuck(entry: ServerEntry, reason: string): void
  buildChanged(build: BuildEntry, before: Build): void
}

export interface ChangeHandlerDependencies {
  readonly room: Pick<WaitQueue, 'served' | 'total'>
  readonly drains: Pick<Drainer, 'look'>
  readonly builds: Pick<BuildOperations, 'renamed'>
  readonly blocked: (entry: ServerEntry, error: unknown) => Promise<void>
}

export function changeHandlers(ctx: EngineContext, parts: ChangeHandlerDependencies): ChangeHandlers {
  const { clock } = ctx
  const tell = eventReporter(ctx)

  /** Most have left the room with this very server; whoever is still there has got it from another host. */
  function tellWaiting({ session }: Server): void {
    if (session && parts.room.total > 0) parts.room.served(sessionKey(session.id))
  }

  function serverStuck(entry: ServerEntry, reason: string): void {
    parts.blocked(entry, new FleetError('unavailable', reason)).catch((error: unknown) => {
      // Its own status has it all the same.
      ctx.logger.warn({ server: entry.record.name, error: messageOf(error) }, 'a condition could not be written')
    })
  }

  function serverEnding(entry: ServerEntry): void {
    const { ending, session } = entry.record
    // Whatever it was to wait for before, its end does not wait for.
    entry.retry = noBackoff
    entry.terminatingSince = clock.elapsed()
    entry.learnsByHeartbeat = session !== undefined && entry.build.heartbeating.has(entry)
    if (!ending) return
    if (callsForPause(entry.record)) {
      entry.build.backoff = afterFailure(entry.build.backoff, clock.elapsed(), backoffLimits(ctx))
      if (isCurrent(entry)) entry.build.crashedTemplate = entry.build.templateHash
    }
    if (wasRefused(entry.record)) serverStuck(entry, ending.message)
    tell.ending(entry, ending)
  }

  return {
    serverAppeared: tellWaiting,
    serverStuck,

    serverChanged(entry, before, from) {
      const { record, build, bucket } = entry
      if (bucket === 'active' && from !== 'active') {
        entry.activeSince = clock.elapsed()
        tellWaiting(record)
      }
      if (record.state === 'StandingBy' || bucket === 'active') entry.standingBySince ??= clock.elapsed()
      const saved = isSaved(entry)
      const isExposed = needsProtection(ctx, entry)
      if (!saved || isExposed) build.needsAction.add(entry)
      // A reserved server counts as Active already, so that handing it out takes one pass and not two.
      if (!(saved && from === 'reserved' && bucket === 'active') || isExposed) ctx.enqueue(build)
      tell.state(entry, before)
      if (record.state === 'Terminating' && before.state !== 'Terminating') serverEnding(entry)
      tell.health(entry, before)
    },

    buildChanged(build, before) {
      ctx.enqueue(build)
      const { buildID } = before.spec
      if (buildID !== build.record.spec.buildID) parts.builds.renamed(build, buildID)
      if (isDrained(before) && !build.draining) parts.drains.look()
      tell.build(build, before)
    },
  }
}
