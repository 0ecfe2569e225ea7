/** Exit codes, and what the command line says about a failure. Pure. */
import { CommanderError } from 'commander'
import { CommandLineError, UsageError } from '../config/usage-error.js'
import { type ErrorCode, FleetError } from '../contracts/errors.js'
import { isError } from '../rules/model/values.js'

export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  refused: 4,
  notFound: 5,
  notReady: 6,
  interrupted: 130,
} as const

/** Shown by `gamekeeper --help` and in docs/reference/cli.md. */
export const exitMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  done: 'The command did what it says.',
  failed: 'It failed: the configuration is wrong, or the server answered with an error.',
  usage: 'The command line is wrong.',
  unreachable: 'The server cannot be reached, is closing, or is not the leader.',
  refused: 'The token or client certificate is missing, unknown, or has not the role that the command needs.',
  notFound: 'The build, server or session does not exist.',
  notReady: 'No server is standing by in time.',
  interrupted: 'Ctrl-C or another signal ended the command before it was done.',
}

interface Failure {
  readonly message: string
  /** The code of the FleetError; `usage` for a wrong command line; `failed` for others. */
  readonly code: string
  readonly exitCode: number
}

export function failureOf(thrown: unknown): Failure {
  if (thrown instanceof CommanderError) {
    const message = thrown.message.replace(/^error: /, '').replace(/\n\(Did you mean (.*)\)$/, '; did you mean $1')
    return { message, code: 'usage', exitCode: exitCodes.usage }
  }
  if (thrown instanceof UsageError) {
    const { message } = thrown
    // A message about a setting begins with its name: if that is a flag, it was typed.
    const isTyped = thrown instanceof CommandLineError || /^--[a-z]/.test(message)
    return { message, code: 'usage', exitCode: isTyped ? exitCodes.usage : exitCodes.failed }
  }
  if (FleetError.is(thrown)) {
    const { code } = thrown
    return { message: withReason(thrown), code, exitCode: exitCodesOf[code] ?? exitCodes.failed }
  }
  return { message: withLocation(thrown), code: 'failed', exitCode: exitCodes.failed }
}

/** The exit codes of errors that are not just `failed`. */
const exitCodesOf: Partial<Readonly<Record<ErrorCode, number>>> = {
  unavailable: exitCodes.unreachable,
  closed: exitCodes.unreachable,
  'not-leader': exitCodes.unreachable,
  unauthenticated: exitCodes.refused,
  forbidden: exitCodes.refused,
  'not-found': exitCodes.notFound,
  'none-standing-by': exitCodes.notReady,
  'max-reached': exitCodes.notReady,
  'not-confirmed': exitCodes.notReady,
  aborted: exitCodes.interrupted,
}

/** Adds the first cause: `fetch failed` does not say why. */
function withReason({ message, cause }: FleetError): string {
  let reason = cause
  while (isError(reason) && reason.cause !== undefined) reason = reason.cause
  if (!isError(reason) || reason.message === '' || message.includes(reason.message)) return message
  return `${message}: ${reason.message}`
}

/** Describes an unexpected error, including where it was thrown. */
function withLocation(error: unknown): string {
  if (!isError(error)) return String(error)
  const location = error.stack?.split('\n').find((line) => /^\s+at /.test(line))
  return `${error.name}: ${error.message}${location === undefined ? '' : ` (${location.trim()})`}`
}
