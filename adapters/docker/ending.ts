/** Ends a container: asks its game to go, waits for its grace period, then kills and removes it. */
import type { Clock } from '../../src/contracts/clock.js'
import { FleetError } from '../../src/contracts/errors.js'
import type { EngineApi } from './engine-api.js'
import { statusOf } from './engine-errors.js'
import type { Container } from './instance.js'

const lookAgainMs = 100

/** One for all callers that want the same container ended. */
export class Ending {
  readonly #api: EngineApi
  readonly #clock: Clock
  readonly #limitMs: number
  #deadline: number
  #wake = () => {}

  constructor(input: {
    readonly api: EngineApi
    readonly clock: Clock
    readonly limitMs: number
    readonly graceMs: number
  }) {
    this.#api = input.api
    this.#clock = input.clock
    this.#limitMs = input.limitMs
    this.#deadline = input.clock.elapsed() + input.graceMs
  }

  /** A further caller with less patience. Never lengthens. */
  shorten(graceMs: number): void {
    this.#deadline = Math.min(this.#deadline, this.#clock.elapsed() + graceMs)
    this.#wake()
  }

  /** Resolves when there is no such container any more. */
  async run({ id, status, stopSignal }: Container): Promise<void> {
    const runs = status === 'running' || status === 'paused' || status === 'restarting'
    if (runs && this.#remainingMs() > 0) {
      await this.#api.signal(id, stopSignal)
      await this.#untilStopped(id)
    }
    await this.#remove(id)
  }

  async #untilStopped(id: string): Promise<void> {
    for (let ms = this.#remainingMs(); ms > 0; ms = this.#remainingMs()) {
      const turn = new AbortController()
      this.#wake = () => turn.abort()
      try {
        // No connection need be trusted for longer than one call may take.
        if (await this.#api.untilStopped(id, Math.min(ms, this.#limitMs), { signal: turn.signal })) return
      } catch (error) {
        if (!FleetError.is(error, 'aborted')) throw error
      } finally {
        this.#wake = () => {}
      }
    }
  }

  /** The engine may be removing it for somebody else, or need another try to unmount what it has. */
  async #remove(id: string): Promise<void> {
    const giveUpAt = this.#clock.elapsed() + this.#limitMs
    for (;;) {
      try {
        await this.#api.remove(id, true)
        return
      } catch (error) {
        const status = statusOf(error)
        const mayHeal = status === 409 || status === 500
        if (!mayHeal || this.#clock.elapsed() >= giveUpAt) throw error
        if ((await this.#api.inspect(id)) === undefined) return
        await new Promise<void>((resolve) => void this.#clock.after(lookAgainMs, resolve))
      }
    }
  }

  #remainingMs(): number {
    return this.#deadline - this.#clock.elapsed()
  }
}
