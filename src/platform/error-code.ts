import { isError } from '../rules/model/realms.js'

/** Returns the `code` of a system error, such as `ENOENT`, or an empty string for any other error. */
export function codeOf(error: unknown): string {
  return isError(error) && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
