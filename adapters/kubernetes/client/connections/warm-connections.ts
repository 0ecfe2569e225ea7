/**
 * Keeps connections to the API server open, so that a burst of calls after a quiet time does not begin with TLS handshakes: as
 * many as urgent calls have used at once in the last ten to twenty minutes. Idle connections are used for a request of a few
 * bytes before either side closes them. Without urgent calls, there are no such requests.
 */
import type { Clock } from '../../../../src/contracts/clock.js'

export interface WarmConnectionsDependencies {
  readonly clock: Clock
  /** Maximum number of connections to keep open. */
  readonly limit: number
  /** Sends a small request on each of `count` connections at once. Never rejects. */
  readonly use: (count: number) => Promise<void>
}

/** Less than the idle timeout of common servers, of load balancers, and of the transport. */
const intervalMs = 20_000
const periodMs = 600_000

export class WarmConnections {
  readonly #deps: WarmConnectionsDependencies
  #running = 0
  /** The most calls that ran at once in the current period, and in the one before. */
  #peak = 0
  #lastPeak = 0
  #periodEndsAt: number
  #cancelTimer: (() => void) | undefined
  #isClosed = false

  constructor(deps: WarmConnectionsDependencies) {
    this.#deps = deps
    this.#periodEndsAt = deps.clock.elapsed() + periodMs
  }

  /** Call when an urgent call starts, and `ended` when it has ended. */
  started(): void {
    this.#startPeriod()
    this.#running++
    this.#peak = Math.max(this.#peak, this.#running)
    this.#schedule()
  }

  ended(): void {
    this.#running--
  }

  close(): void {
    this.#isClosed = true
    this.#cancelTimer?.()
  }

  #startPeriod(): void {
    const now = this.#deps.clock.elapsed()
    if (now < this.#periodEndsAt) return
    this.#lastPeak = now < this.#periodEndsAt + periodMs ? this.#peak : 0
    this.#peak = this.#running
    this.#periodEndsAt = now + periodMs
  }

  #schedule(): void {
    if (this.#isClosed) return
    this.#cancelTimer ??= this.#deps.clock.after(intervalMs, () => void this.#warm())
  }

  async #warm(): Promise<void> {
    const { limit, use } = this.#deps
    this.#startPeriod()
    const kept = Math.min(limit, Math.max(this.#peak, this.#lastPeak))
    if (kept > this.#running) await use(kept - this.#running)
    this.#cancelTimer = undefined
    if (kept > 0) this.#schedule()
  }
}
