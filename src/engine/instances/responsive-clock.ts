/**
 * How long this host has listened: elapsed time without that in which it was too busy to hear anybody. Silence is measured by
 * it, since whoever spoke meanwhile is heard only afterwards.
 */
import type { Clock } from '../../contracts/clock.js'

export interface ResponsiveClock {
  /** In ms, from no moment in particular. */
  now(): number
  /** It heard nobody for so long. */
  exclude(ms: number): void
}

export function responsiveClock(clock: Clock): ResponsiveClock {
  let missedMs = 0
  return {
    now: () => clock.elapsed() - missedMs,
    exclude(ms) {
      missedMs += ms
    },
  }
}
