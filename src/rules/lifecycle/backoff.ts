/** Pauses after failures: each twice as long as the one before, up to a limit. Pure. */

export interface BackoffLimits {
  readonly initialMs: number
  readonly maxMs: number
  /** Without failure for this long after a pause, the next one starts from `initialMs` again. */
  readonly resetMs: number
}

export interface Backoff {
  /** Failures in a row; those during a pause count as the one that began it. */
  readonly failures: number
  /** Elapsed time in ms at which the pause is over. */
  readonly until: number
}

export const noBackoff: Backoff = Object.freeze({ failures: 0, until: -Infinity })

/** The pause after one more failure at elapsed time `now`. */
export function afterFailure(backoff: Backoff, now: number, limits: BackoffLimits): Backoff {
  if (now < backoff.until) return backoff
  const failures = isOver(backoff, now, limits) ? 1 : backoff.failures + 1
  return { failures, until: now + pauseMs(failures, limits) }
}

/** True when a server had the time to stay up since the last pause: all is forgiven. */
export function isOver(backoff: Backoff, now: number, limits: BackoffLimits): boolean {
  return now >= backoff.until + limits.resetMs
}

export function pauseMs(failures: number, limits: Pick<BackoffLimits, 'initialMs' | 'maxMs'>): number {
  return failures <= 0 ? 0 : Math.min(limits.maxMs, limits.initialMs * 2 ** Math.min(failures - 1, 30))
}
