/** The error class of gamekeeper. Every failure that a caller can handle has a stable `code`. */
import type { BuildCounts, Condition } from '../rules/model/build-status.js'
import type { Ref } from '../rules/model/resources.js'
import { cutMessage } from '../rules/model/sizes.js'
import { isError } from '../rules/model/values.js'
import type { Checked, Problem } from '../rules/validation/problem.js'

/** `docs/reference/errors.md` explains each code; a test checks that the two match. */
export const errorCodes = [
  'invalid',
  'not-found',
  'exists',
  'conflict',
  'none-standing-by',
  'max-reached',
  'not-confirmed',
  'out-of-range',
  'no-room',
  'no-stdin',
  'in-use',
  'unavailable',
  'not-leader',
  'closed',
  'draining',
  'unsupported',
  'aborted',
  'ports-exhausted',
  'port-in-use',
  'directory-in-use',
  'directory-unusable',
  'unauthenticated',
  'forbidden',
  'rate-limited',
  'overloaded',
  'internal',
] as const

export type ErrorCode = (typeof errorCodes)[number]

const retryableCodes: ReadonlySet<ErrorCode> = new Set([
  'conflict',
  'none-standing-by',
  'max-reached',
  'not-confirmed',
  'no-room',
  'unavailable',
  'not-leader',
  'closed',
  'ports-exhausted',
  'rate-limited',
  'overloaded',
])

/**
 * The ESM and CommonJS builds each have their own copy of the class, so `instanceof` fails between them. This mark works
 * across both.
 */
const mark = Symbol.for('gamekeeper.FleetError')

/** Facts about a failure, for programs. Plain data. `docs/reference/errors.md` lists them. */
export type ErrorDetails = Readonly<Record<string, unknown>>

/** Why an allocation got no server. Absent for a request that names several builds or a server. */
export type ShortageDetails = ErrorDetails & {
  readonly build: Ref
  /** The number of the build's servers in each state. */
  readonly servers: BuildCounts
  readonly standingBy: number
  readonly max: number
  readonly waitedMs: number
  readonly conditions: readonly Pick<Condition, 'type' | 'reason' | 'message'>[]
  /** Why no server is ready, if that is known. */
  readonly reason?: string
}

/** How many seats were needed. The others are absent if the call named no session. */
export type NoRoomDetails = ErrorDetails & {
  readonly needed: number
  readonly total?: number
  readonly taken?: number
  readonly held?: number
  readonly free?: number
}

interface DetailsByCode {
  readonly 'none-standing-by': ShortageDetails
  readonly 'max-reached': ShortageDetails
  readonly 'no-room': NoRoomDetails
}

/** The details of errors with this code. A host of another version, or a compatibility format, may leave them out. */
export type DetailsOf<C extends ErrorCode> = C extends keyof DetailsByCode ? DetailsByCode[C] : ErrorDetails

export interface FleetErrorOptions<C extends ErrorCode = ErrorCode> {
  readonly cause?: unknown
  readonly details?: DetailsOf<C> | undefined
}

export class FleetError<C extends ErrorCode = ErrorCode> extends Error {
  override readonly name = 'FleetError'
  readonly code: C
  /** True if the same call, repeated unchanged, may succeed later. */
  readonly retryable: boolean
  /** For example, why a build has no server standing by. */
  readonly details: DetailsOf<C> | undefined

  constructor(code: C, message: string, options: FleetErrorOptions<C> = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = retryableCodes.has(code)
    this.details = options.details
    Object.defineProperty(this, mark, { value: true })
  }

  /** True for a FleetError from either module format. If `code` is given, the error must have that code. */
  static is<C extends ErrorCode = ErrorCode>(error: unknown, code?: C): error is FleetError<C> {
    if (typeof error !== 'object' || error === null || !(mark in error)) return false
    return code === undefined || ('code' in error && error.code === code)
  }
}

/** Returns the message of any thrown value, for messages and reasons that people read: at most `sizeLimits.messageBytes`. */
export function messageOf(error: unknown): string {
  return cutMessage(isError(error) ? error.message : String(error))
}

/** Why a `fetch` failed. `fetch` itself only reports `fetch failed`; the reason is in the error's cause. */
export function fetchReason(error: unknown): string {
  return messageOf(isError(error) ? (error.cause ?? error) : error)
}

/** Throws `aborted` if the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new FleetError('aborted', 'the call was aborted by its signal', { cause: signal.reason })
}

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
