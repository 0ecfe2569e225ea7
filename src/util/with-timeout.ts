/** Limits how long calls may take, so that their callers can give up and retry, and how long to wait for a value. */
import type { Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'

/**
 * Rejects with `unavailable` after `ms`, and aborts the call through its signal. `what` names the call in the error message.
 */
export function withTimeout<T>(
  clock: Clock,
  ms: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const aborter = new AbortController()
    const cancel = clock.after(ms, () => {
      const error = new FleetError('unavailable', `${what} timed out after ${ms / 1000} s`)
      reject(error)
      aborter.abort(error)
    })
    // Wrapped in an async function so that the timer is also cancelled if `call` throws synchronously.
    const run = async () => call(aborter.signal)
    run().then(resolve, reject).finally(cancel)
  })
}

type Rejects = Set<(error: FleetError) => void>

/**
 * Limits many calls at the cost of one timer, and without reading the clock: a call is rejected with `unavailable` after one to one and a
 * half times `ms`. It is not aborted, and may still take effect.
 */
export class CallLimit {
  readonly #clock: Clock
  readonly #ms: number
  readonly #what: string
  /** The functions that reject the calls that began in the present half of the limit, in the one before it, and earlier. */
  #rejects: [Rejects, Rejects, Rejects] = [new Set(), new Set(), new Set()]
  #cancelTick: (() => void) | undefined

  /** `what` names such a call in the error message. */
  constructor(clock: Clock, ms: number, what: string) {
    this.#clock = clock
    this.#ms = ms
    this.#what = what
  }

  limit<T>(call: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#rejects[0].add(reject)
      if (!this.#cancelTick) this.#tick()
      const end = () => this.#rejects.some((rejects) => rejects.delete(reject))
      call.then(
        (result) => {
          end()
          resolve(result)
        },
        (error: unknown) => {
          end()
          reject(error)
        },
      )
    })
  }

  /** Call when no further calls will begin. Those in progress keep their limit; without any, no timer is left behind. */
  finish(): void {
    if (this.#rejects.some(({ size }) => size > 0)) return
    this.#cancelTick?.()
    this.#cancelTick = undefined
  }

  #tick(): void {
    this.#cancelTick = this.#clock.after(this.#ms / 2, () => {
      const [present, before, earlier] = this.#rejects
      const message = `${this.#what} timed out after ${this.#ms / 1000} s`
      for (const reject of earlier) reject(new FleetError('unavailable', message))
      this.#rejects = [new Set(), present, before]
      this.#cancelTick = undefined
      if (present.size + before.size > 0) this.#tick()
    })
  }
}

/** Resolves with the value, or with undefined if it takes longer than `ms`. */
export async function within<T>(ms: number, value: Promise<T>, clock: Clock): Promise<T | undefined> {
  let cancel = () => {}
  const late = new Promise<undefined>((resolve) => {
    cancel = clock.after(ms, () => resolve(undefined))
  })
  return Promise.race([value, late]).finally(cancel)
}
