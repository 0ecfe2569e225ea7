/**
 * Detects servers that exceed a time limit: those that send no heartbeat, take too long to become ready, or have a session
 * that is too long. Reads only the front of time-ordered lists, so the cost of a check depends on how many servers it finds
 * and not on the size of the fleet.
 */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { type LifeLimits, lifeLimits } from '../../rules/lifecycle/limits.js'
import type { EngineContext } from '../context.js'
import type { Conditions } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { LinkedSet } from '../state/linked-set.js'
import { LongSessions } from './long-sessions.js'

export class Timeouts {
  readonly #ctx: EngineContext
  readonly #longSessions: LongSessions

  constructor(ctx: EngineContext, conditions: Conditions) {
    this.#ctx = ctx
    this.#longSessions = new LongSessions(ctx, conditions)
  }

  /** Called once a second. */
  check(): void {
    for (const build of this.#ctx.inventory.everyBuild) this.#checkBuild(build)
  }

  /**
   * Call after the host was unresponsive. Every server gets its full timeout again, because the host may have missed
   * heartbeats.
   */
  restartTimers(): void {
    const now = this.#ctx.responsiveClock.now()
    for (const build of this.#ctx.inventory.everyBuild) {
      for (const entry of build.heartbeating) build.awaitingHeartbeat.add(entry)
      for (const entry of build.awaitingHeartbeat) entry.silentSince = now
      for (const entry of build.awaitingFirstHeartbeat) entry.silentSince = now
      for (const entry of build.buckets.initializing) entry.runningSince = now
      for (const entry of build.buckets.outdatedInitializing) entry.runningSince = now
    }
  }

  #checkBuild(build: BuildEntry): void {
    const limits: LifeLimits = lifeLimits(build.record.spec.health, this.#ctx.limits)
    this.#checkSilence(build.awaitingFirstHeartbeat, limits.firstHeartbeatMs, false)
    this.#checkSilence(build.heartbeating, limits.silenceMs, true)
    this.#checkSilence(build.awaitingHeartbeat, Math.max(limits.firstHeartbeatMs, limits.silenceMs), true)
    if (limits.initializingMs !== undefined) {
      this.#checkInitializing(build.buckets.initializing, limits.initializingMs)
      this.#checkInitializing(build.buckets.outdatedInitializing, limits.initializingMs)
    }
    this.#longSessions.check(build, limits.sessionMs)
  }

  #checkSilence(set: LinkedSet<ServerEntry>, limitMs: number, hasSentHeartbeats: boolean): void {
    const { clock, inventory, responsiveClock } = this.#ctx
    const now = responsiveClock.now()
    for (const entry of set) {
      if (now - entry.silentSince < limitMs) return
      set.delete(entry)
      inventory.update(entry, transition(entry.record, { type: 'silent', hasSentHeartbeats, limitMs }, clock.now()))
    }
  }

  #checkInitializing(bucket: LinkedSet<ServerEntry>, limitMs: number): void {
    const { clock, inventory, responsiveClock } = this.#ctx
    const now = responsiveClock.now()
    for (const entry of bucket) {
      if (now - (entry.runningSince ?? now) < limitMs) return
      inventory.update(entry, transition(entry.record, { type: 'neverReady', limitMs }, clock.now()))
    }
  }
}
