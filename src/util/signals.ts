/** Helpers for abort signals: stop waiting for work that continues, and combine two signals into one. */
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

export interface EitherSignal {
  readonly signal: AbortSignal
  /** Aborts `signal`, as if one of the two original signals had fired. */
  abort(reason?: unknown): void
  /** Removes the listeners from both original signals. */
  release(): void
}

/**
 * Returns a signal that fires when either of two signals fires. `AbortSignal.any` is not used because it leaks memory on
 * long-lived signals.
 */
export function eitherSignal(one: AbortSignal, other: AbortSignal | undefined): EitherSignal {
  const either = new AbortController()
  const onOne = () => either.abort(one.reason)
  const onOther = () => either.abort(other?.reason)
  if (one.aborted) onOne()
  if (other?.aborted) onOther()
  one.addEventListener('abort', onOne)
  other?.addEventListener('abort', onOther)
  return {
    signal: either.signal,
    abort: (reason) => either.abort(reason),
    release() {
      one.removeEventListener('abort', onOne)
      other?.removeEventListener('abort', onOther)
    },
  }
}
