/**
 * How long a server may take from the request to start it until it is late. Pure.
 *
 * While a build's servers keep being late, the time allowed for further ones doubles. So servers that need longer than the
 * limit are given the time they need, and servers whose starts hang are replaced less and less often.
 */
import { afterFailure, type Backoff, noBackoff, pauseMs } from './backoff.js'

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
