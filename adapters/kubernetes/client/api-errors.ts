/** Says in words, and with a code, why the API server has refused a call, and keeps what programs ask of a refusal. */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'

/** An answer that is no success. The cause of the FleetError that a call rejects with. */
export class Refusal extends Error {
  override readonly name = 'Refusal'

  constructor(
    /** Of HTTP. */
    readonly status: number,
    /** One word of the API server, such as `AlreadyExists`; empty when somebody else has answered. */
    readonly reason: string,
    message: string,
    /** Name of the object that it is about, when it says so. */
    readonly object: string | undefined,
  ) {
    super(message)
  }
}

/** The HTTP status with which the API server refused; undefined when it did not answer. */
export function statusOf(error: unknown): number | undefined {
  return refusalOf(error)?.status
}

/** Such as `AlreadyExists`, `Conflict`, `NotFound`, `Expired`, `Forbidden`, `Invalid`. */
export function reasonOf(error: unknown): string | undefined {
  return refusalOf(error)?.reason
}

export function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error
  return FleetError.is(error) && error.cause instanceof Refusal ? error.cause : undefined
}

/** Reads a Status object, or whatever else was answered instead. */
export function readRefusal(status: number, text: string): Refusal {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch {
    answer = undefined // A proxy, or a path that the server does not know: its own words will do.
  }
  if (!isObject(answer)) return new Refusal(status, '', text.trim().slice(0, 500) || `HTTP ${status}`, undefined)
  return refusalIn(answer, status)
}

/** The same from a Status that was read already, such as that in an ERROR event of a watch. */
export function refusalIn(answer: Readonly<Record<string, unknown>>, fallback: number): Refusal {
  const { code, reason, message, details } = answer
  const name = isObject(details) ? details['name'] : undefined
  return new Refusal(
    typeof code === 'number' ? code : fallback,
    typeof reason === 'string' ? reason : '',
    typeof message === 'string' ? message : `HTTP ${fallback}`,
    typeof name === 'string' ? name : undefined,
  )
}

/** A new object was refused since there is one of its name. Any other 409 is about something else, such as a quota that was just written. */
export function isTaken(error: unknown): boolean {
  return statusOf(error) === 409 && reasonOf(error) === 'AlreadyExists'
}

/** Of a creation: a 409 that is not about the name is over with the next try. */
export function creationFailure(error: unknown): unknown {
  if (statusOf(error) !== 409 || isTaken(error)) return error
  return new FleetError('unavailable', messageOf(error), { cause: refusalOf(error) })
}

/** `what` is what was being done: `create pod arena-x2x4q`. */
export function refused(refusal: Refusal, what: string, place: string): FleetError {
  const { status, message } = refusal
  const cause = { cause: refusal }
  const said = `the Kubernetes API at ${place} could not ${what}: ${message}`
  switch (status) {
    case 404:
      // Without the name of an object it is the resource itself that is unknown here.
      return refusal.object === undefined
        ? new FleetError('unavailable', `${said} (are the custom resource definitions installed?)`, cause)
        : new FleetError('not-found', said, cause)
    case 409:
      return new FleetError('conflict', said, cause)
    case 400:
    case 413:
    case 422:
      return new FleetError('invalid', said, cause)
    case 401:
      return new FleetError('unavailable', `${said} (the credentials are not accepted)`, cause)
    default:
      return new FleetError('unavailable', said, cause)
  }
}

/** The call was not answered. */
export function unreachable(error: unknown, what: string, place: string): FleetError {
  const message = `the Kubernetes API at ${place} cannot be reached to ${what} (${messageOf(error)})`
  return new FleetError('unavailable', message, { cause: error })
}
