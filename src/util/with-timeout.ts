/** Gives up on a call that is not answered: whoever asked can go on, and ask again. */
import type { Clock } from '../contracts/clock.js'
import { FleetError } from '../contracts/errors.js'

/** Rejects with `unavailable` after `ms`; the call's signal fires then, so that what can stop does. */
export function withTimeout<T>(
  clock: Clock,
  ms: number,
  what: string,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const aborter = new AbortController()
    const cancel = clock.after(ms, () => {
      const error = new FleetError('unavailable', `${what} was not answered within ${ms / 1000} s`)
      reject(error)
      aborter.abort(error)
    })
    // One that throws at once has ended as well, and leaves no timer.
    const answer = async () => call(aborter.signal)
    answer().then(resolve, reject).finally(cancel)
  })
}
