/** Where a rule finds a problem with a request's body, the answer is 400 with the field and the problem. */
import type { Checked } from '../../rules/validation/problem.js'
import { HttpError } from './exchange.js'

export function checked<T>(result: Checked<T>): T {
  if (result.ok) return result.value
  throw new HttpError(400, `${result.problem.field} ${result.problem.message}`)
}
