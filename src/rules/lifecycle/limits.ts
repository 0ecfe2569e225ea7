/** The time limits that apply to a build's servers: the build's own limits if set, otherwise the fleet's. Pure. */
import type { HealthLimits } from '../model/resources.js'

/** Times in ms. An absent limit means unlimited. */
export interface LifeLimits {
  readonly firstHeartbeatMs: number
  readonly silenceMs: number
  readonly lateStartMs: number
  readonly initializingMs?: number
  readonly sessionMs?: number
}

/**
 * Makes the silence limit at least two heartbeat intervals, so that a server that sends heartbeats on schedule never exceeds
 * it.
 */
export function lifeLimits(
  build: HealthLimits | undefined,
  fleet: {
    readonly firstHeartbeatMs: number
    readonly silenceMs: number
    readonly heartbeatIntervalMs: number
    readonly lateStartMs: number
  },
): LifeLimits {
  const { firstHeartbeatSeconds, silenceSeconds, lateStartSeconds, initializingSeconds, sessionSeconds } = build ?? {}
  return {
    firstHeartbeatMs: ms(firstHeartbeatSeconds) ?? fleet.firstHeartbeatMs,
    silenceMs: Math.max(ms(silenceSeconds) ?? fleet.silenceMs, 2 * fleet.heartbeatIntervalMs),
    lateStartMs: ms(lateStartSeconds) ?? fleet.lateStartMs,
    ...(initializingSeconds !== undefined && { initializingMs: initializingSeconds * 1000 }),
    ...(sessionSeconds !== undefined && { sessionMs: sessionSeconds * 1000 }),
  }
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000
}
