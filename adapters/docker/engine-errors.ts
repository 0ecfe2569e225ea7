/** Says in words, and with a code, why a call of the engine has failed. */
import { FleetError, messageOf } from '../../src/contracts/errors.js'
import { isObject } from '../../src/rules/validation/problem.js'

/** The HTTP status with which the engine refused; undefined when it did not answer. */
export function statusOf(error: unknown): number | undefined {
  const answer = FleetError.is(error) ? error.cause : error
  const status = isObject(answer) || answer instanceof Error ? Reflect.get(answer, 'statusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/**
 * The engine's own words for its refusal, or the system's for a connection that failed. An answer without any, such as that of
 * a proxy before the engine, is told by what has been made of it.
 */
export function wordsOf(error: unknown): string {
  const isTold = FleetError.is(error) && error.cause !== undefined
  return ownWordsOf(isTold ? error.cause : error) || messageOf(error)
}

function ownWordsOf(answer: unknown): string {
  const json: unknown = answer instanceof Error ? Reflect.get(answer, 'json') : undefined
  if (isObject(json) && typeof json['message'] === 'string') return json['message'].trim()
  return messageOf(answer)
    .replace(/^\(HTTP code \d+\) [^-]*- /, '')
    .trim()
}

/** What a call that was not answered with success rejects with. `what` is what was being done: `start container x`. */
export function engineFailure(error: unknown, what: string, place: string): FleetError {
  if (FleetError.is(error)) return error
  const status = statusOf(error)
  const cause = { cause: error }
  if (status === undefined) {
    const hint = codeOf(error) === 'EACCES' ? 'may this user use it?' : 'is it running?'
    const message = `the Docker engine at ${place} cannot be reached (${wordsOf(error)}): ${hint}`
    return new FleetError('unavailable', message, cause)
  }
  const message = `the Docker engine could not ${what}: ${ownWordsOf(error) || `HTTP ${status} from ${place}`}`
  return new FleetError(status === 400 ? 'invalid' : 'unavailable', message, cause)
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/**
 * The public ports of which the engine says that somebody has them: another container or another program. Undefined when
 * it failed for another reason.
 */
export function takenPorts(error: unknown, asked: readonly number[]): readonly number[] | undefined {
  const words = wordsOf(error)
  if (!/address already in use|port is already allocated|ports are not available/i.test(words)) return undefined
  const named = asked.filter((port) => new RegExp(`:${port}\\b`).test(words))
  return named.length > 0 ? named : asked
}
