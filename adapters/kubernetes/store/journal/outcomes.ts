/** What is known after a write of the journal has failed. Pure. */
import { FleetError } from '../../../../src/contracts/errors.js'
import { statusOf } from '../../client/api-errors.js'

/** The write has had no effect and never will. */
export function isRefusal(error: unknown): boolean {
  return (['conflict', 'not-found', 'not-leader', 'closed'] as const).some((code) => FleetError.is(error, code))
}

/** The API server has refused it, so it is not on its way any more. */
export function hasNoEffect(error: unknown): boolean {
  const status = statusOf(error)
  return isRefusal(error) || (status !== undefined && status >= 400 && status < 500 && status !== 408)
}

export function outcomeUnknown(cause: unknown): FleetError {
  return new FleetError('unavailable', 'it is not known yet whether the journal contains the session', { cause })
}

/** Whether the host cannot use a journal: its definition is not installed, the host may not access it, or a policy refuses it. */
export function isUnsupported(error: unknown): boolean {
  const status = statusOf(error)
  return status !== undefined && [400, 403, 404, 405, 422].includes(status)
}
