/** Waiting with an abort signal. */
import { FleetError } from '../contracts/errors.js'

/** Settles like `work`, or rejects with `aborted` when the signal fires. The work itself continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  let stop = () => {}
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = () =>
      reject(new FleetError('aborted', 'the call was aborted by its signal', { cause: signal.reason }))
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    stop = () => signal.removeEventListener('abort', onAbort)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    stop()
  }
}
