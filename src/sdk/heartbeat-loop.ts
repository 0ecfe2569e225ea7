/**
 * Decides when to send a heartbeat: at the agent's interval, sooner after a change, and later while the agent does not
 * answer. Never sends two at once; a change interrupts a heartbeat whose answer the agent may hold. Runs in the game's process on real time.
 */
import { systemClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { after } from './timers.js'
import { retryDelayOf, type SdkTiming } from './timing.js'

export interface HeartbeatLoopDependencies {
  /**
   * Sends one heartbeat. Resolves with the time in ms until the next, and rejects if the agent did not answer. With
   * `interrupted`, the agent may hold its answer; rejects with the signal's reason when it fires, and the next is sent at once.
   */
  readonly send: (interrupted?: AbortSignal) => Promise<number>
  /** The agent's address, used in messages. */
  readonly agent: string
  readonly timing: SdkTiming
  readonly logger: Logger
}

export class HeartbeatLoop {
  readonly #deps: HeartbeatLoopDependencies
  #stopped = false
  /** The heartbeat in flight. */
  #flight: AbortController | undefined
  #failures = 0
  #lastSentAt = Number.NEGATIVE_INFINITY
  #dueAt = Number.POSITIVE_INFINITY
  /** The gap passed to `sendSoon` while a heartbeat was in flight. */
  #pendingGapMs: number | undefined
  #cancelTimer = () => {}

  constructor(deps: HeartbeatLoopDependencies) {
    this.#deps = deps
  }

  /** Sends the first heartbeat immediately. */
  start(): void {
    this.#schedule(systemClock.elapsed())
  }

  /**
   * Brings the next heartbeat forward, but keeps at least `gapMs` after the previous one. Several calls cause one heartbeat.
   * Has no effect while the agent does not answer: the next retry reports the change.
   */
  sendSoon(gapMs: number): void {
    if (this.#stopped || this.#failures > 0) return
    if (this.#flight) {
      this.#pendingGapMs = Math.min(gapMs, this.#pendingGapMs ?? gapMs)
      this.#interrupt(this.#flight, this.#pendingGapMs)
      return
    }
    const at = Math.max(systemClock.elapsed(), this.#lastSentAt + gapMs)
    if (at < this.#dueAt) this.#schedule(at)
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer()
  }

  #schedule(at: number): void {
    this.#cancelTimer()
    this.#dueAt = at
    this.#cancelTimer = after(Math.max(0, at - systemClock.elapsed()), () => void this.#run())
  }

  #interrupt(flight: AbortController, gapMs: number): void {
    this.#cancelTimer()
    const leftMs = Math.max(0, this.#lastSentAt + gapMs - systemClock.elapsed())
    this.#cancelTimer = after(leftMs, () => flight.abort())
  }

  async #run(): Promise<void> {
    const flight = new AbortController()
    this.#flight = flight
    this.#lastSentAt = systemClock.elapsed()
    this.#pendingGapMs = undefined
    // A change does not interrupt a retry, so the answer to a retry must not be held.
    const waitMs = await this.#deps.send(this.#failures === 0 ? flight.signal : undefined).then(
      (ms) => this.#answered(ms),
      (err: unknown) => (err === flight.signal.reason ? 0 : this.#unanswered(err)),
    )
    this.#flight = undefined
    if (this.#stopped) return
    this.#schedule(systemClock.elapsed() + waitMs)
    if (this.#pendingGapMs !== undefined) this.sendSoon(this.#pendingGapMs)
  }

  #answered(waitMs: number): number {
    const { agent, logger } = this.#deps
    if (this.#failures > 0 && !this.#stopped) {
      logger.info({ agent, failures: this.#failures }, `the agent at ${agent} answers again`)
    }
    this.#failures = 0
    return waitMs
  }

  #unanswered(err: unknown): number {
    const { agent, timing, logger } = this.#deps
    this.#failures += 1
    if (this.#failures === 1 && !this.#stopped) {
      logger.warn({ agent }, `the agent at ${agent} does not answer heartbeats; retrying: ${messageOf(err)}`)
    }
    return retryDelayOf(this.#failures, randomFraction(), timing)
  }
}

/** A random number from 0 to 1. */
function randomFraction(): number {
  const [byte = 0] = systemClock.randomBytes(1)
  return byte / 255
}
