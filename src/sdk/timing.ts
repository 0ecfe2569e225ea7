/**
 * How often the SDK sends heartbeats and how long it waits. The defaults stay well within the 10 s after which a fleet
 * considers a server silent.
 */
import { pauseMs } from '../rules/lifecycle/backoff.js'

export interface SdkTiming {
  /** Interval between heartbeats until an answer names one. Default 1000. */
  readonly heartbeatIntervalMs: number
  /** Bounds for the interval that the agent names. Defaults 1000 and 30 000. */
  readonly minHeartbeatIntervalMs: number
  readonly maxHeartbeatIntervalMs: number
  /** Timeout for one request, including reading the response. Default 3000. */
  readonly requestTimeoutMs: number
  /**
   * Maximum delay after the first unanswered heartbeat. It doubles with each further one; half of the delay is random.
   * Default 500.
   */
  readonly retryInitialMs: number
  /** Upper limit for that doubling. Default 3000. */
  readonly retryMaxMs: number
  /** Minimum time between heartbeats that are sent early because the players changed. Default 100. */
  readonly playersGapMs: number
}

export const defaultTiming: SdkTiming = Object.freeze({
  heartbeatIntervalMs: 1000,
  minHeartbeatIntervalMs: 1000,
  maxHeartbeatIntervalMs: 30_000,
  requestTimeoutMs: 3000,
  retryInitialMs: 500,
  retryMaxMs: 3000,
  playersGapMs: 100,
})

/** Returns the interval to use, given the interval in the agent's answer. */
export function intervalOf(answeredMs: number | undefined, timing: SdkTiming): number {
  if (answeredMs === undefined) return timing.heartbeatIntervalMs
  return Math.min(Math.max(answeredMs, timing.minHeartbeatIntervalMs), timing.maxHeartbeatIntervalMs)
}

/**
 * Returns the delay after `failures` consecutive failures. `random`, from 0 to 1, keeps game servers from retrying at the
 * same time.
 */
export function retryDelayOf(failures: number, random: number, timing: SdkTiming): number {
  const longest = pauseMs(failures, { initialMs: timing.retryInitialMs, maxMs: timing.retryMaxMs })
  return longest * (0.5 + random / 2)
}
