/** The error for a request that validation has refused. */
import { FleetError } from '../contracts/errors.js'
import { invalidInput } from '../contracts/invalid-input.js'
import type { Problem } from '../rules/validation/problem.js'

/** Options of calls that look like fields of their requests. */
const optionIn = /(?:^|\.)(waitMs|confirm)$/

export function refusedRequest({ field, message }: Problem): FleetError {
  const [, option] = optionIn.exec(field) ?? []
  if (option === undefined) return invalidInput({ field, message }, 'the request')
  const meant = `did you mean the option ${option} of the call?`
  return new FleetError('invalid', `${field} is not allowed in a request; ${meant}`)
}
