/** Converts failed Docker engine calls to FleetErrors. Pure. */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { codeOf } from '../../../src/platform/error-code.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { isError } from '../../../src/rules/model/realms.js'

/** HTTP status of the engine's error response, or undefined if the engine did not respond. */
export function statusOf(error: unknown): number | undefined {
  const answer = FleetError.is(error) ? error.cause : error
  const status = isObject(answer) || isError(answer) ? Reflect.get(answer, 'statusCode') : undefined
  return typeof status === 'number' ? status : undefined
}

/**
 * The message from the engine, or from the operating system if the connection failed. Falls back to the error's own message,
 * for example if a proxy in front of the engine sent an empty response.
 */
export function messageFromEngine(error: unknown): string {
  const hasCause = FleetError.is(error) && error.cause !== undefined
  return responseMessage(hasCause ? error.cause : error) || messageOf(error)
}

function responseMessage(answer: unknown): string {
  const json: unknown = isError(answer) ? Reflect.get(answer, 'json') : undefined
  if (isObject(json) && typeof json['message'] === 'string') return json['message'].trim()
  return messageOf(answer)
    .replace(/^\(HTTP code \d+\) [^-]*- /, '')
    .trim()
}

/** `what` is the operation, as named in messages: `start container x`. */
export function engineFailure(error: unknown, what: string, endpoint: string): FleetError {
  if (FleetError.is(error)) return error
  const status = statusOf(error)
  const cause = { cause: error }
  if (status === undefined) {
    const hint = codeOf(error) === 'EACCES' ? 'does this user have access to it?' : 'is it running?'
    const message = `cannot reach the Docker engine at ${endpoint} (${messageFromEngine(error)}): ${hint}`
    return new FleetError('unavailable', message, cause)
  }
  const message = `the Docker engine could not ${what}: ${responseMessage(error) || `HTTP ${status} from ${endpoint}`}`
  return new FleetError(status === 400 ? 'invalid' : 'unavailable', message, cause)
}

/** The requested ports that another container or program is using. Undefined if the call failed for another reason. */
export function portsInUse(error: unknown, requested: readonly number[]): readonly number[] | undefined {
  const message = messageFromEngine(error)
  if (!/address already in use|port is already allocated|ports are not available/i.test(message)) return undefined
  const named = requested.filter((port) => new RegExp(`:${port}\\b`).test(message))
  return named.length > 0 ? named : requested
}
