/** Which limits hold for a build: its own where it has some, else the fleet's. Pure. */
import type { HealthLimits } from '../model/resources.js'

/** In ms. What is absent has no limit. */
export interface LifeLimits {
  readonly firstHeartbeatMs: number
  readonly silenceMs: number
  readonly initializingMs?: number
  readonly sessionMs?: number
}

/** Whoever speaks as often as it is told to is never silent: no limit of silence is shorter than two heartbeats. */
export function lifeLimits(
  own: HealthLimits | undefined,
  fleet: { readonly firstHeartbeatMs: number; readonly silenceMs: number; readonly heartbeatIntervalMs: number },
): LifeLimits {
  const { firstHeartbeatSeconds, silenceSeconds, initializingSeconds, sessionSeconds } = own ?? {}
  return {
    firstHeartbeatMs: ms(firstHeartbeatSeconds) ?? fleet.firstHeartbeatMs,
    silenceMs: Math.max(ms(silenceSeconds) ?? fleet.silenceMs, 2 * fleet.heartbeatIntervalMs),
    ...(initializingSeconds !== undefined && { initializingMs: initializingSeconds * 1000 }),
    ...(sessionSeconds !== undefined && { sessionMs: sessionSeconds * 1000 }),
  }
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000
}
