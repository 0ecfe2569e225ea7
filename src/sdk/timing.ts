/** How often the SDK sends and how long it waits. The defaults stay well inside the fleet's 10 s silence limit. */
import { pauseMs } from '../rules/lifecycle/backoff.js'

export interface SdkTiming {
  /** Between heartbeats, until an answer names an interval. Default 1000. */
  readonly heartbeatIntervalMs: number
  /** Bounds for the interval that the agent names. Defaults 1000 and 30 000. */
  readonly minHeartbeatIntervalMs: number
  readonly maxHeartbeatIntervalMs: number
  /** Timeout of one request, including reading the answer. Default 3000. */
  readonly requestTimeoutMs: number
  /** Longest delay after the first unanswered heartbeat; doubles with each, half of it is random. Default 500. */
  readonly retryInitialMs: number
  /** Upper bound of that doubling. Default 3000. */
  readonly retryMaxMs: number
  /** Minimum time between heartbeats that player changes bring forward. Default 100. */
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

/** The interval to use, given the one in the agent's answer. */
export function intervalOf(answeredMs: number | undefined, timing: SdkTiming): number {
  if (answeredMs === undefined) return timing.heartbeatIntervalMs
  return Math.min(Math.max(answeredMs, timing.minHeartbeatIntervalMs), timing.maxHeartbeatIntervalMs)
}

/** The delay after `failures` consecutive failures. `random`, from 0 to 1, keeps a fleet from retrying all at once. */
export function retryDelayOf(failures: number, random: number, timing: SdkTiming): number {
  const longest = pauseMs(failures, { initialMs: timing.retryInitialMs, maxMs: timing.retryMaxMs })
  return longest * (0.5 + random / 2)
}
