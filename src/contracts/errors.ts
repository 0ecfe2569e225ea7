/** The error class of gamekeeper. Every failure that a caller can handle has a stable `code`. */
import { cutMessage } from '../rules/model/sizes.js'

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

export interface FleetErrorOptions {
  readonly cause?: unknown
  readonly details?: ErrorDetails | undefined
}

export class FleetError extends Error {
  override readonly name = 'FleetError'
  readonly code: ErrorCode
  /** True if the same call, repeated unchanged, may succeed later. */
  readonly retryable: boolean
  /** For example, why a build has no server standing by. */
  readonly details: ErrorDetails | undefined

  constructor(code: ErrorCode, message: string, options: FleetErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryable = retryableCodes.has(code)
    this.details = options.details
    Object.defineProperty(this, mark, { value: true })
  }

  /** True for a FleetError from either module format. If `code` is given, the error must have that code. */
  static is(error: unknown, code?: ErrorCode): error is FleetError {
    if (typeof error !== 'object' || error === null || !(mark in error)) return false
    return code === undefined || ('code' in error && error.code === code)
  }
}

/** Returns the message of any thrown value, for messages and reasons that people read: at most `sizeLimits.messageBytes`. */
export function messageOf(error: unknown): string {
  return cutMessage(error instanceof Error ? error.message : String(error))
}

/** Throws `aborted` if the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new FleetError('aborted', 'the call was aborted by its signal', { cause: signal.reason })
}
