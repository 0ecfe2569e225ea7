/**
 * When to send a heartbeat: at the agent's pace, earlier after a change, slower while nobody answers; never two at once.
 * It runs in the game's process, so its time is real.
 */
import { systemClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { after } from './timers.js'
import { retryDelayOf, type SdkTiming } from './timing.js'

export interface HeartbeatLoop {
  /**
   * Something has changed: beat now, but not sooner than `gapMs` after the beat before. Many calls make one beat. While
   * nobody answers it changes nothing: the next try tells the change.
   */
  hurry(gapMs: number): void
  stop(): void
}

export interface HeartbeatLoopOptions {
  /** Sends one heartbeat; resolves with the wait until the next, rejects when it was not answered. */
  readonly beat: () => Promise<number>
  /** Who is to answer, for messages. */
  readonly agent: string
  readonly timing: SdkTiming
  readonly logger: Logger
}

/** Beats at once, then until stopped. */
export function startHeartbeatLoop({ beat, agent, timing, logger }: HeartbeatLoopOptions): HeartbeatLoop {
  let stopped = false
  let beating = false
  let failures = 0
  let lastBeatAt = Number.NEGATIVE_INFINITY
  let dueAt = Number.POSITIVE_INFINITY
  /** The gap of a change that came while a beat was in flight. */
  let hurriedGapMs: number | undefined
  let cancel = () => {}

  function schedule(at: number): void {
    cancel()
    dueAt = at
    cancel = after(Math.max(0, at - systemClock.elapsed()), () => void run())
  }

  async function run(): Promise<void> {
    beating = true
    lastBeatAt = systemClock.elapsed()
    hurriedGapMs = undefined
    const waitMs = await beat().then(answered, unanswered)
    beating = false
    if (stopped) return
    schedule(systemClock.elapsed() + waitMs)
    if (hurriedGapMs !== undefined) hurry(hurriedGapMs)
  }

  function answered(waitMs: number): number {
    if (failures > 0 && !stopped) logger.info({ agent, failures }, `the agent at ${agent} answers again`)
    failures = 0
    return waitMs
  }

  function unanswered(err: unknown): number {
    failures += 1
    if (failures === 1 && !stopped) {
      logger.warn({ agent, err }, `the agent at ${agent} does not answer heartbeats, trying on: ${messageOf(err)}`)
    }
    return retryDelayOf(failures, chance(), timing)
  }

  function hurry(gapMs: number): void {
    if (stopped || failures > 0) return
    if (beating) {
      hurriedGapMs = Math.min(gapMs, hurriedGapMs ?? gapMs)
      return
    }
    const at = Math.max(systemClock.elapsed(), lastBeatAt + gapMs)
    if (at < dueAt) schedule(at)
  }

  schedule(systemClock.elapsed())
  return {
    hurry,
    stop() {
      stopped = true
      cancel()
    },
  }
}

/** From 0 to 1. */
function chance(): number {
  const [byte = 0] = systemClock.randomBytes(1)
  return byte / 255
}
