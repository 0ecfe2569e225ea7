/**
 * Detects servers that exceed a time limit: those that send no heartbeat, take too long to become ready, or have a session
 * that is too long. Reads only the servers that are starting and the front of time-ordered lists, so the cost of a check
 * does not depend on the size of the fleet.
 */
import { transition } from '../../rules/lifecycle/lifecycle.js'
import { type LifeLimits, lifeLimits } from '../../rules/lifecycle/health.js'
import { counted } from '../../rules/validation/problem.js'
import type { EngineContext } from '../context.js'
import type { Conditions } from '../reporting/conditions.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import type { LinkedSet } from '../state/linked-set.js'
import { lateServers, startingServers } from '../state/queries.js'
import type { LateStarts } from './late-starts.js'

interface TimeoutsDependencies {
  readonly conditions: Conditions
  readonly lateStarts: LateStarts
}

export class Timeouts {
  readonly #ctx: EngineContext
  readonly #lateStarts: LateStarts
  readonly #longSessions: LongSessions

  constructor(ctx: EngineContext, { conditions, lateStarts }: TimeoutsDependencies) {
    this.#ctx = ctx
    this.#lateStarts = lateStarts
    this.#longSessions = new LongSessions(ctx, conditions)
  }

  /** Called once a second. */
  check(): void {
    for (const build of this.#ctx.inventory.everyBuild) this.#checkBuild(build)
  }

  /**
   * Call after the host was unresponsive. Every server gets its full timeout again and counts as unheard, because the host may
   * have missed heartbeats. A game that started meanwhile may have exited because it could not reach the agent.
   */
  restartTimers(): void {
    const { inventory, responsiveClock } = this.#ctx
    const now = responsiveClock.now()
    for (const build of inventory.everyBuild) {
      for (const entry of build.heartbeating) build.awaitingHeartbeat.add(entry)
      // In the order in which they became ready.
      for (const entry of build.buckets.ready) inventory.heardChanged(entry)
      for (const entry of build.buckets.outdatedReady) inventory.heardChanged(entry)
      if (build.candidates)
        for (const entry of [...build.buckets.active, ...build.buckets.reserved]) inventory.heardChanged(entry)
      for (const entry of build.awaitingHeartbeat) entry.silentSince = now
      for (const entry of build.awaitingFirstHeartbeat) entry.silentSince = now
      for (const entry of [...startingServers(build), ...lateServers(build), ...build.buckets.setAside]) {
        entry.agentWasAway = true
        if (entry.record.state === 'Initializing') entry.runningSince = now
      }
      // Players may have come meanwhile.
      for (const entry of build.buckets.active) entry.claim = undefined
      this.#lateStarts.restartTimers(build)
    }
  }

  #checkBuild(build: BuildEntry): void {
    const limits: LifeLimits = lifeLimits(build.record.spec.health, this.#ctx.limits)
    this.#checkSilence(build.awaitingFirstHeartbeat, limits.firstHeartbeatMs, false)
    this.#checkSilence(build.heartbeating, limits.silenceMs, true)
    this.#checkSilence(build.awaitingHeartbeat, Math.max(limits.firstHeartbeatMs, limits.silenceMs), true)
    if (limits.initializingMs !== undefined) {
      this.#checkInitializing(startingServers(build), limits.initializingMs)
      this.#checkInitializing(lateServers(build), limits.initializingMs)
      this.#checkInitializing(build.buckets.setAside, limits.initializingMs)
    }
    this.#lateStarts.check(build)
    this.#longSessions.check(build, limits.sessionMs)
  }

  #checkSilence(set: LinkedSet<ServerEntry>, limitMs: number, hasSentHeartbeats: boolean): void {
    const { clock, inventory, responsiveClock } = this.#ctx
    const now = responsiveClock.now()
    for (const entry of set) {
      if (now - entry.silentSince < limitMs) return
      set.delete(entry)
      inventory.update(entry, transition(entry.record, { type: 'silent', hasSentHeartbeats, limitMs }, clock.now()))
      // An Unhealthy server's record stays the same.
      inventory.heardChanged(entry)
    }
  }

  #checkInitializing(servers: Iterable<ServerEntry>, limitMs: number): void {
    const { clock, inventory, responsiveClock } = this.#ctx
    const now = responsiveClock.now()
    for (const entry of servers) {
      if (now - (entry.runningSince ?? now) < limitMs) continue
      inventory.update(entry, transition(entry.record, { type: 'neverReady', limitMs }, clock.now()))
    }
  }
}

/** Maximum number of servers named in the condition's message. */
const maxNames = 5

/**
 * Reports sessions that exceed the build's limit through the `LongSession` condition. If `endLongSessions` is set, terminates their servers.
 */
class LongSessions {
  readonly #ctx: EngineContext
  readonly #conditions: Conditions

  constructor(ctx: EngineContext, conditions: Conditions) {
    this.#ctx = ctx
    this.#conditions = conditions
  }

  /** Checks the sessions of a build. If `limitMs` is undefined, no session is too long. */
  check(build: BuildEntry, limitMs: number | undefined): void {
    const long: ServerEntry[] = []
    const now = this.#ctx.clock.elapsed()
    for (const entry of limitMs === undefined ? [] : build.buckets.active) {
      if (now - (entry.activeSince ?? now) < (limitMs ?? Infinity)) break
      // Of a session that its game has ended, only the record is left.
      if (!entry.ends) long.push(entry)
    }
    const seconds = (limitMs ?? 0) / 1000
    if (build.record.spec.health?.endLongSessions) this.#end(long, seconds)
    const message = long.length > 0 ? describe(long, seconds) : undefined
    this.#conditions.update(build, 'LongSession', 'SessionTooLong', message)
  }

  #end(long: readonly ServerEntry[], seconds: number): void {
    const { clock, inventory } = this.#ctx
    const message = `its session exceeded the build's limit of ${seconds} s`
    for (const entry of long) {
      const event = { type: 'end' as const, reason: 'SessionTooLong' as const, message }
      inventory.update(entry, transition(entry.record, event, clock.now()))
    }
  }
}

function describe(long: readonly ServerEntry[], seconds: number): string {
  const names = long.slice(0, maxNames).map((entry) => entry.record.name)
  const more = long.length > maxNames ? '…' : ''
  return `${counted(long.length, 'session exceeds', 'sessions exceed')} the limit of ${seconds} s: ${names.join(', ')}${more}`
}
