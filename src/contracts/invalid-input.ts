/** The error for an argument that validation has refused, in the words of its caller: one in process sends no body. */
import type { Checked, Problem } from '../rules/validation/problem.js'
import { FleetError } from './errors.js'

/** `what`: the argument, such as "the build", for a problem that none of its fields has. */
export function invalidInput({ field, message }: Problem, what: string): FleetError {
  // An unknown field may have this name, too.
  const isWhole = field === 'body' && !message.startsWith('is not allowed')
  return new FleetError('invalid', `${isWhole ? what : field} ${message}`)
}

/** The value, if validation has accepted it. Throws `invalid`, naming the field. */
export function accepted<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value
  throw new FleetError('invalid', `${checked.problem.field} ${checked.problem.message}`)
}
