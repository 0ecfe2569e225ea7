/** How often the SDK speaks and how long it waits. The defaults stay well inside the fleet's 10 s of allowed silence. */
import { pauseMs } from '../rules/lifecycle/backoff.js'

export interface SdkTiming {
  /** Between heartbeats, until an answer names an interval. Default 1000. */
  readonly heartbeatMs: number
  /** An interval that the agent names is kept within these two. Defaults 1000 and 30 000. */
  readonly minHeartbeatMs: number
  readonly maxHeartbeatMs: number
  /** How long one request may take, its answer read to the end. Default 3000. */
  readonly requestTimeoutMs: number
  /** The longest wait after the first unanswered heartbeat; doubles with each. Half of it is random. Default 500. */
  readonly retryFirstMs: number
  /** Where the doubling ends. Default 3000. */
  readonly retryMaxMs: number
  /** Between heartbeats that changes of the player list bring forward. Default 100. */
  readonly playersGapMs: number
}

export const defaultTiming: SdkTiming = Object.freeze({
  heartbeatMs: 1000,
  minHeartbeatMs: 1000,
  maxHeartbeatMs: 30_000,
  requestTimeoutMs: 3000,
  retryFirstMs: 500,
  retryMaxMs: 3000,
  playersGapMs: 100,
})

/** The wait that the agent's answer asks for. */
export function intervalOf(asked: number | undefined, timing: SdkTiming): number {
  if (asked === undefined) return timing.heartbeatMs
  return Math.min(Math.max(asked, timing.minHeartbeatMs), timing.maxHeartbeatMs)
}

/** The wait after `failures` unanswered heartbeats running; `chance` is from 0 to 1, so that a fleet does not knock at once. */
export function retryDelayOf(failures: number, chance: number, timing: SdkTiming): number {
  const longest = pauseMs(failures, { initialMs: timing.retryFirstMs, maxMs: timing.retryMaxMs })
  return longest * (0.5 + chance / 2)
}
