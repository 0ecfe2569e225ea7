/**
 * Decides when to send a heartbeat: at the agent's interval, sooner after a change, and later while the agent does not
 * answer. Never sends two at once; a change interrupts a heartbeat whose answer the agent may hold. Runs in the game's process on real time.
 */
import { systemClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { pauseMs } from '../rules/lifecycle/backoff.js'

interface HeartbeatLoopDependencies {
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

/**
 * How often the SDK sends heartbeats and how long it waits. The defaults stay well within the 10 s after which a fleet
 * considers a server silent.
 */
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

// Real timers for the SDK, which runs in the game's process. `after` never keeps that process alive; `KeepAlive` does only
// that.

/** Calls `fn` once, `ms` from now. The returned function cancels it. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, ms)
  timer.unref()
  return () => clearTimeout(timer)
}

/** Keeps the process alive between `start` and `stop`, as a pending Node operation would. */
export class KeepAlive {
  #timer: NodeJS.Timeout | undefined

  start(): void {
    this.#timer ??= setInterval(() => {}, 60_000)
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** A promise, and the function that resolves it. */
export function deferred<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
