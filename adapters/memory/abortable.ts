/** Lets a caller stop waiting for something that goes on without it. */
import { FleetError, throwIfAborted } from '../../src/errors.js'

/** Settles as `work` does, or rejects with `aborted` as soon as the signal fires. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  throwIfAborted(signal)
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = () =>
      reject(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal.reason }))
    signal.addEventListener('abort', onAbort, { once: true })
    stop = () => signal.removeEventListener('abort', onAbort)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    stop()
  }
}
