/**
 * Back-off: how soon a build creates servers after a failure, how long a start may take before it is late, and when lost servers are
 * replaced at once. Pure.
 */
import type { Server } from '../model/resources.js'

export interface BackoffLimits {
  readonly initialMs: number
  readonly maxMs: number
  /** If nothing fails for this long after a pause, the next pause is `initialMs` again. */
  readonly resetMs: number
}

export interface Backoff {
  /** Number of consecutive failures. Failures during a pause are not counted. */
  readonly failures: number
  /** Elapsed time in ms at which the pause ends. */
  readonly until: number
}

export const noBackoff: Backoff = Object.freeze({ failures: 0, until: -Infinity })

/** Returns the back-off after another failure, at elapsed time `now`. */
export function afterFailure(backoff: Backoff, now: number, limits: BackoffLimits): Backoff {
  if (now < backoff.until) return backoff
  const failures = isOver(backoff, now, limits) ? 1 : backoff.failures + 1
  return { failures, until: now + pauseMs(failures, limits) }
}

/** True if nothing has failed for `resetMs` since the last pause ended. */
export function isOver(backoff: Backoff, now: number, limits: BackoffLimits): boolean {
  return now >= backoff.until + limits.resetMs
}

export function pauseMs(failures: number, limits: Pick<BackoffLimits, 'initialMs' | 'maxMs'>): number {
  return failures <= 0 ? 0 : Math.min(limits.maxMs, limits.initialMs * 2 ** Math.min(failures - 1, 30))
}

// How long a server may take from the request to start it until it is late.
//
// While a build's servers keep being late, the time allowed for further ones doubles. So servers that need longer than the
// limit are given the time they need, and servers whose starts hang are replaced less and less often.

/** The limit doubles four times, so it becomes at most this many times as long. */
const maxFactor = 16

/** Returns the time in ms that a server may take after `failures` doublings. `limitMs` is the build's limit. */
export function startLimitMs(failures: number, limitMs: number): number {
  return Math.max(limitMs, pauseMs(failures, limitsOf(limitMs)))
}

/** Returns the back-off after a server was late, at elapsed time `now`. Servers that are late together count once. */
export function afterLateStart(backoff: Backoff, now: number, limitMs: number): Backoff {
  return afterFailure(backoff, now, { ...limitsOf(limitMs), resetMs: Infinity })
}

/** Returns the back-off after a server took `tookMs` to be standing by: only as many doublings as it needed. */
export function afterStart(backoff: Backoff, tookMs: number, limitMs: number): Backoff {
  if (backoff.failures === 0 || tookMs < limitMs) return noBackoff
  let failures = 1
  while (failures < backoff.failures && startLimitMs(failures, limitMs) <= tookMs) failures++
  return { ...backoff, failures }
}

function limitsOf(limitMs: number): { readonly initialMs: number; readonly maxMs: number } {
  return { initialMs: limitMs, maxMs: maxFactor * limitMs }
}

// Losses: servers that were standing by when their instances disappeared without a crash, because a node failed, or because a pod was
// evicted or deleted by another client. Lost servers are replaced at once, however many are lost together. If the replacements are
// lost too, soon after they stood by, something keeps removing them, and the build backs off.

/** The losses of a build that are close to each other. Wall times in ms. */
export interface Losses {
  /** When the first server was lost. Servers created since then are replacements. */
  readonly since: number
  /** Later losses have nothing to do with these. */
  readonly until: number
}

/** True if the server was standing by, without a session, when it was lost. */
export function isLost({ ending, sessions, reachedStandingByOn }: Server): boolean {
  return ending?.reason === 'Gone' && !ending.crash && sessions.length === 0 && reachedStandingByOn !== undefined
}

/** True if a replacement of earlier losses was lost within `resetMs` after it stood by. */
export function isLostAgain(server: Server, losses: Losses | undefined, resetMs: number): boolean {
  const { createdAt, ending, reachedStandingByOn } = server
  if (!isLost(server) || ending === undefined || reachedStandingByOn === undefined) return false
  if (losses === undefined || ending.at >= losses.until) return false
  return createdAt >= losses.since && ending.at - reachedStandingByOn < resetMs
}

/** Returns the losses after another one at wall time `at`. `pauseMs`: how long no replacement will be created. */
export function afterLoss(losses: Losses | undefined, at: number, pauseMs: number, resetMs: number): Losses {
  const since = losses && at < losses.until ? losses.since : at
  return { since, until: at + pauseMs + resetMs }
}
