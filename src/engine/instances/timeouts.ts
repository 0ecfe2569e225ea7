/**
 * Finds what has taken too long: silence, a start that does not end, a session without end. Looks at the front of lists
 * that are in the order of time, so its cost is that of what it finds.
 */
import { messageOf } from '../../contracts/errors.js'
import { type LifeLimits, lifeLimits } from '../../rules/lifecycle/limits.js'
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { withCondition, withoutCondition } from '../../rules/model/status.js'
import type { BuildWriter } from '../persistence/build-writer.js'
import { buildEvent, type EngineContext } from '../context.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { LinkedSet } from '../state/linked-set.js'

export interface Timeouts {
  /** Called once a second. */
  check(): void
  /** The host was away and heard nobody: everybody gets the full allowance again. */
  restartTimers(): void
}

export function timeouts(ctx: EngineContext, buildWriter: BuildWriter): Timeouts {
  const { clock, inventory, responsiveClock: listening } = ctx

  function silent(set: LinkedSet<ServerEntry>, limitMs: number, spoke: boolean): void {
    const now = listening.now()
    for (const entry of set) {
      if (now - entry.silentSince < limitMs) return
      set.delete(entry)
      inventory.update(entry, transition(entry.record, { type: 'silent', spoke, limitMs }, clock.now()))
    }
  }

  function neverReady(bucket: LinkedSet<ServerEntry>, limitMs: number): void {
    const now = listening.now()
    for (const entry of bucket) {
      if (now - (entry.runningSince ?? now) < limitMs) return
      inventory.update(entry, transition(entry.record, { type: 'neverReady', limitMs }, clock.now()))
    }
  }

  /** Told by a condition; ended only if the build says so. */
  function sessions(build: BuildEntry, limitMs: number | undefined): void {
    const long: ServerEntry[] = []
    const now = clock.elapsed()
    for (const entry of limitMs === undefined ? [] : build.buckets.active) {
      if (now - (entry.activeSince ?? now) < (limitMs ?? Infinity)) break
      long.push(entry)
    }
    const seconds = (limitMs ?? 0) / 1000
    if (build.record.spec.health?.endLongSessions) {
      const message = `its session lasted longer than ${seconds} s, and its build ends such sessions`
      for (const entry of long) {
        const event = { type: 'end' as const, reason: 'SessionTooLong' as const, message }
        inventory.update(entry, transition(entry.record, event, clock.now()))
      }
    }
    tell(build, seconds, long)
  }

  function tell(build: BuildEntry, seconds: number, long: readonly ServerEntry[]): void {
    const told = build.record.conditions.find(({ type }) => type === 'LongSession')
    const names = long.slice(0, 5).map((entry) => entry.record.name)
    const message = `${long.length} sessions last longer than ${seconds} s: ${names.join(', ')}${long.length > 5 ? '…' : ''}`
    if (build.writing || build.deleted || (long.length === 0 ? !told : told?.message === message)) return
    buildWriter
      .change(build, (record) => ({
        ...record,
        conditions:
          long.length === 0
            ? withoutCondition(record.conditions, 'LongSession')
            : withCondition(record.conditions, {
                type: 'LongSession',
                reason: 'SessionTooLong',
                message,
                since: clock.now(),
              }),
      }))
      .catch((error: unknown) => {
        ctx.emitter.emit({ type: 'ReconcileFailed', ...buildEvent(ctx, build.record, messageOf(error)) })
      })
  }

  return {
    check() {
      for (const build of inventory.everyBuild) {
        const limits: LifeLimits = lifeLimits(build.record.spec.health, ctx.limits)
        silent(build.awaitingFirstHeartbeat, limits.firstHeartbeatMs, false)
        silent(build.heartbeating, limits.silenceMs, true)
        silent(build.awaitingHeartbeat, Math.max(limits.firstHeartbeatMs, limits.silenceMs), true)
        if (limits.initializingMs !== undefined) {
          neverReady(build.buckets.initializing, limits.initializingMs)
          neverReady(build.buckets.outdatedInitializing, limits.initializingMs)
        }
        sessions(build, limits.sessionMs)
      }
    },

    restartTimers() {
      const now = listening.now()
      for (const build of inventory.everyBuild) {
        for (const entry of build.heartbeating) build.awaitingHeartbeat.add(entry)
        for (const entry of build.awaitingHeartbeat) entry.silentSince = now
        for (const entry of build.awaitingFirstHeartbeat) entry.silentSince = now
        for (const entry of build.buckets.initializing) entry.runningSince = now
        for (const entry of build.buckets.outdatedInitializing) entry.runningSince = now
      }
    },
  }
}
