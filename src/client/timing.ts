/** Time as the client needs it: limits and pauses that end when the caller's signal fires. */
import { FleetError, throwIfAborted } from '../contracts/errors.js'

/**
 * Runs `work` with a signal that fires with the caller's, and when the time is up. The signal follows the caller's until
 * the work is done, or, where the work's result goes on by itself, for ever.
 */
export async function limited<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
  goesOn = false,
): Promise<T> {
  const stop = new AbortController()
  const onAbort = () => stop.abort(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort, { once: true })
  const late = new FleetError('unavailable', `no answer came within ${ms} ms`)
  const timer = setTimeout(() => stop.abort(late), ms)
  try {
    return await work(stop.signal)
  } catch (error) {
    throw stop.signal.reason === late ? late : error
  } finally {
    clearTimeout(timer)
    if (!goesOn) signal?.removeEventListener('abort', onAbort)
  }
}

/** Throws `aborted` when the signal fires. Takes up to half as long again, so that many callers come back one by one. */
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
