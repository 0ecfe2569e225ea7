/**
 * Marks servers that take too long to start as late, so that the scaler starts others beside them, and reports them through
 * the condition `LateServers`. Reads only servers that are starting.
 */
import { afterLateStart, afterStart, startLimitMs } from '../../rules/lifecycle/backoff.js'
import { type LifeLimits, lifeLimits } from '../../rules/lifecycle/health.js'
import type { EngineContext } from '../context.js'
import type { WaitQueue } from '../allocation/wait-queue.js'
import type { Conditions } from '../reporting/conditions.js'
import type { EventReporter } from '../reporting/event-reporter.js'
import type { BuildEntry, ServerEntry } from '../state/entries.js'
import { startingServers } from '../state/queries.js'

export interface LateStartsDependencies {
  readonly conditions: Pick<Conditions, 'update'>
  readonly events: Pick<EventReporter, 'serverLate'>
  readonly waitQueue: Pick<WaitQueue, 'reconsider'>
}

export class LateStarts {
  readonly #ctx: EngineContext
  readonly #deps: LateStartsDependencies

  constructor(ctx: EngineContext, deps: LateStartsDependencies) {
    this.#ctx = ctx
    this.#deps = deps
  }

  /** Call when the backend is asked to start the server. */
  requested(entry: ServerEntry): void {
    entry.start ??= { since: this.#ctx.responsiveClock.now(), doublings: entry.build.lateStarts.failures }
  }

  /**
   * Call when the backend has refused to start the server, so that the refusal is reported and no time is counted until the
   * next request. If the request has timed out, its time still counts, because the start may hang.
   */
  refused(entry: ServerEntry): void {
    const { limits, responsiveClock } = this.#ctx
    const { since = 0 } = entry.start ?? {}
    if (responsiveClock.now() - since < limits.callTimeoutMs) entry.start = undefined
  }

  /**
   * Call when the backend reports an instance. An instance that an earlier leader requested and that is still pending has
   * been starting since its record was created. One that is running may have become ready while no host was listening, so
   * its time starts now.
   */
  observed(entry: ServerEntry, phase: 'pending' | 'running'): void {
    const { clock, responsiveClock } = this.#ctx
    const earlierMs = phase === 'pending' ? Math.max(0, clock.now() - entry.record.createdAt) : 0
    entry.start ??= { since: responsiveClock.now() - earlierMs, doublings: 0 }
  }

  /** Call when the server is standing by. */
  succeeded(entry: ServerEntry): void {
    const { build, start } = entry
    const { lateStartMs } = this.#limitsOf(build)
    if (start) build.lateStarts = afterStart(build.lateStarts, this.#elapsedMs(start.since), lateStartMs)
    if (!hasLateServers(build)) build.lateMessage = undefined
  }

  /** Called once a second. */
  check(build: BuildEntry): void {
    const limits = this.#limitsOf(build)
    let isStarting = false
    for (const entry of startingServers(build)) {
      isStarting = true
      const { start } = entry
      const allowedMs = startLimitMs(start?.doublings ?? 0, limits.lateStartMs)
      if (!start || this.#elapsedMs(start.since) < allowedMs || hasShorterLimit(entry, limits, allowedMs)) continue
      this.#markLate(entry, limits.lateStartMs, allowedMs)
    }
    if (!isStarting && !hasLateServers(build)) build.lateMessage = undefined
    this.#deps.conditions.update(build, 'LateServers', 'Late', build.lateMessage)
  }

  /** Call after the host was unresponsive: it may have missed that servers became ready. */
  restartTimers(build: BuildEntry): void {
    const since = this.#ctx.responsiveClock.now()
    for (const entry of [...startingServers(build), ...build.buckets.setAside]) {
      if (entry.start) entry.start = { ...entry.start, since }
    }
  }

  #markLate(entry: ServerEntry, limitMs: number, allowedMs: number): void {
    const { clock, inventory } = this.#ctx
    const { build, record } = entry
    const reason = lateReason(entry, allowedMs)
    build.lateStarts = afterLateStart(build.lateStarts, clock.elapsed(), limitMs)
    // Omits the server's name, so that another server that is late for the same reason causes no write.
    build.lateMessage = `servers are ${reason}`.replaceAll(record.name, `${record.build}-…`)
    const isFirst = !hasLateServers(build)
    inventory.markLate(entry)
    if (isFirst) this.#deps.waitQueue.reconsider(build.record.spec)
    this.#deps.events.serverLate(entry, reason)
    this.#ctx.enqueue(build)
  }

  #elapsedMs(since: number): number {
    return this.#ctx.responsiveClock.now() - since
  }

  #limitsOf(build: BuildEntry): LifeLimits {
    return lifeLimits(build.record.spec.health, this.#ctx.limits)
  }
}

/** Says how long the server has been starting, and what it is waiting for. */
export function lateReason({ build, instance, pendingReason, record }: ServerEntry, elapsedMs: number): string {
  const isProbed = build.record.spec.sdk === 'none'
  const cause =
    record.state === 'Initializing'
      ? isProbed
        ? `the game is running but ${withoutAddress(pendingReason ?? 'its readiness probe has not passed')}`
        : 'the game is running but has not called readyForPlayers'
      : (pendingReason ?? instance?.reason ?? 'the backend has not started it and gives no reason')
  return `not standing by after ${Math.round(elapsedMs / 1000)} s: ${cause}`
}

/** What is wrong with several servers is one reason. */
function withoutAddress(reason: string): string {
  return reason.replace(/ (?:of|to) \S+:\d+(?= )/, '').replace(/http:\/\/[^/ ]+/, '')
}

/** True if another limit, which counts from the start of the process, ends the server as a crash about as soon. */
function hasShorterLimit(entry: ServerEntry, limits: LifeLimits, allowedMs: number): boolean {
  const { initializingMs = Infinity, firstHeartbeatMs } = limits
  if (entry.build.awaitingFirstHeartbeat.has(entry) && firstHeartbeatMs <= allowedMs) return true
  return entry.record.state === 'Initializing' && initializingMs <= allowedMs
}

function hasLateServers({ buckets }: BuildEntry): boolean {
  return buckets.late.size + buckets.outdatedLate.size > 0
}
