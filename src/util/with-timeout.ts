/** Limits how long a call may take, so that its caller can give up and retry. */
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
