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

/** For the log. */
export const noJournal =
  'cannot use a journal, so each allocation is written by itself: install the definition of GameServerJournal, and grant `get`, `create` and `update` on gameserverjournals'

/** For the log. */
export const otherOwner =
  'the journal has another owner, so each allocation is written by itself until it is taken over again'

/** For the Event. */
export function leftOut(count: number): string {
  return `${count} entries of the journal were edited, and are left out. Sessions that were allocated within the second before the last leader ended may be missing.`
}
