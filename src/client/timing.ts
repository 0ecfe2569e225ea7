/** Timeouts and pauses that end early when the caller's signal fires. */
import { FleetError, throwIfAborted } from '../contracts/errors.js'

/**
 * Runs `work` with a signal that fires after `ms` or together with the caller's signal. Listens to the caller's signal until
 * `work` settles. With `followsForever` it keeps listening, for a result that continues afterwards, such as a stream.
 */
export async function withTimeout<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
  followsForever = false,
): Promise<T> {
  const stop = new AbortController()
  const onAbort = () => stop.abort(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort, { once: true })
  const timedOut = new FleetError('unavailable', `no answer within ${ms} ms`)
  const timer = setTimeout(() => stop.abort(timedOut), ms)
  try {
    return await work(stop.signal)
  } catch (error) {
    throw stop.signal.reason === timedOut ? timedOut : error
  } finally {
    clearTimeout(timer)
    if (!followsForever) signal?.removeEventListener('abort', onAbort)
  }
}

/**
 * Resolves after `ms` plus a random delay of up to half of `ms`, so that clients do not retry at the same time. Throws
 * `aborted`.
 */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms * (1 + Math.random() / 2))
    function done() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    if (signal?.aborted) done()
    signal?.addEventListener('abort', done, { once: true })
  })
  throwIfAborted(signal)
}
