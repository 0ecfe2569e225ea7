/** Exponential back-off: each pause is twice as long as the previous one, up to a maximum. Pure. */

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
