/** Waits for work that others wait for too. */
import { FleetError } from '../errors.js'

/** The caller stops waiting; the work goes on for the others. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
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
