/** Calls that wait for something, for as long as `?wait=` says. */
import { FleetError } from '../../contracts/errors.js'
import { shown } from '../../rules/validation/problem.js'
import { eitherSignal } from '../../util/signals.js'

/** The parameters of a call that only waits, and the names by which its body might have them. */
export const waitParameter = ['wait'] as const
export const waitOption = { waitMs: 'wait', wait: 'wait' } as const

/** Parses `?wait=`, a number of seconds that may have a fraction. */
export function readWaitMs(text: string | undefined, maxWaitMs: number): number | undefined {
  if (text === undefined) return undefined
  const waitMs = /^\d+(\.\d+)?$/.test(text) ? Math.round(Number(text) * 1_000) : NaN
  if (waitMs <= maxWaitMs) return waitMs
  const message = `wait must be a number of seconds from 0 to ${maxWaitMs / 1_000}, but is ${shown(text)}`
  throw new FleetError('invalid', message)
}

export interface Cancellation {
  /** Aborts when the caller disconnects. */
  readonly gone: AbortSignal
  /** Aborts when this host closes. */
  readonly closing: AbortSignal
}

export async function waiting<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { gone, closing }: Cancellation,
): Promise<T> {
  if (closing.aborted) throw closingError()
  const either = eitherSignal(gone, closing)
  try {
    return await work(either.signal)
  } catch (error) {
    if (!closing.aborted || gone.aborted || !FleetError.is(error, 'aborted')) throw error
    throw closingError()
  } finally {
    either.release()
  }
}

/** Without a cause, so that a caller reads one sentence. */
function closingError(): FleetError {
  return new FleetError('closed', 'this host is closing; retry on another host, or here after its restart')
}
