/** Maps failed calls to FleetErrors, and preserves the API server's status and reason for callers that need them. */
import { FleetError, messageOf } from '../../../src/contracts/errors.js'
import { isObject } from '../../../src/rules/validation/problem.js'
import { type Fields, objectAt, objectsAt, stringAt } from '../../../src/rules/validation/pod-template.js'
import { numberAt } from './kube-objects.js'

interface FieldCause {
  /** For example `FieldValueInvalid` or `NamespaceTerminating`. */
  readonly reason: string
  /** Path of the field: `spec.containers[0].name`. */
  readonly field: string
  readonly message: string
}

/** An error response from the API server. It is the `cause` of the FleetError that the call rejects with. */
export class ApiError extends Error {
  override readonly name = 'ApiError'

  constructor(
    /** HTTP status. */
    readonly status: number,
    /** The Status object's reason, such as `AlreadyExists`; empty if the response came from a proxy. */
    readonly reason: string,
    message: string,
    /** Name of the object that the error concerns, if the response names one. */
    readonly object: string | undefined,
    /** What is wrong with which fields, if the response says so. */
    readonly causes: readonly FieldCause[] = [],
  ) {
    super(message)
  }
}

/** The response's HTTP status, or undefined if there was no response. */
export function statusOf(error: unknown): number | undefined {
  return apiErrorOf(error)?.status
}

/** The Status object's reason: `AlreadyExists`, `Conflict`, `NotFound`, `Expired`, `Forbidden`, `Invalid`… */
export function reasonOf(error: unknown): string | undefined {
  return apiErrorOf(error)?.reason
}

export function apiErrorOf(error: unknown): ApiError | undefined {
  if (error instanceof ApiError) return error
  return FleetError.is(error) && error.cause instanceof ApiError ? error.cause : undefined
}

/** Parses a Status object; for any other response, uses the raw text as the message. */
export function parseApiError(status: number, text: string): ApiError {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined // From a proxy, or for an unknown path.
  }
  if (!isObject(body)) return new ApiError(status, '', text.trim().slice(0, 500) || `HTTP ${status}`, undefined)
  return apiErrorFrom(body, status)
}

/** Creates the error from a parsed Status object, such as the one in a watch's ERROR event. */
export function apiErrorFrom(body: Readonly<Record<string, unknown>>, fallback: number): ApiError {
  const details = objectAt(body, 'details')
  return new ApiError(
    numberAt(body, 'code') ?? fallback,
    stringAt(body, 'reason') ?? '',
    stringAt(body, 'message') ?? `HTTP ${fallback}`,
    stringAt(details, 'name'),
    objectsAt(details, 'causes').flatMap(causeFrom),
  )
}

function causeFrom({ reason, field, message }: Fields): readonly FieldCause[] {
  if (typeof field !== 'string' || typeof message !== 'string') return []
  return [{ reason: typeof reason === 'string' ? reason : '', field, message }]
}

/** Whether the namespace of a new object is being deleted. */
export function isNamespaceTerminating(error: unknown): boolean {
  return apiErrorOf(error)?.causes.some(({ reason }) => reason === 'NamespaceTerminating') ?? false
}

/** Whether the name is already in use. Other 409 responses have other causes, such as a concurrent quota update. */
export function isAlreadyExists(error: unknown): boolean {
  return statusOf(error) === 409 && reasonOf(error) === 'AlreadyExists'
}

/** Resolves with undefined if the call rejects with `not-found`. */
export async function foundOrUndefined<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (FleetError.is(error, 'not-found')) return undefined
    throw error
  }
}

/** The error to report for a failed creation. Makes every 409 except AlreadyExists retryable. */
export function creationError(error: unknown): unknown {
  if (statusOf(error) !== 409 || isAlreadyExists(error)) return error
  return new FleetError('unavailable', messageOf(error), { cause: apiErrorOf(error) })
}

/** `what` is the operation, as named in messages: `create pod arena-x2x4q`. */
export function failedCall(error: ApiError, what: string, server: string): FleetError {
  const { status } = error
  const cause = { cause: error }
  const message = `failed to ${what} (Kubernetes API at ${server}): ${error.message}`
  switch (status) {
    case 404:
      // If the response names no object, the server does not know the resource type.
      return error.object === undefined
        ? new FleetError('unavailable', `${message} (are the custom resource definitions installed?)`, cause)
        : new FleetError('not-found', message, cause)
    case 409:
      return new FleetError('conflict', message, cause)
    case 400:
    case 413:
    case 422:
      return new FleetError('invalid', message, cause)
    case 401:
      return new FleetError('unavailable', `${message} (credentials rejected)`, cause)
    default:
      return new FleetError('unavailable', message, cause)
  }
}

/** The error for a call that received no response. */
export function unreachable(error: unknown, what: string, server: string): FleetError {
  const message = `failed to ${what}: cannot reach the Kubernetes API at ${server} (${messageOf(error)})`
  return new FleetError('unavailable', message, { cause: error })
}
