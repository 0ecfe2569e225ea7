import { isError } from '../rules/model/values.js'
import { shown } from '../rules/validation/problem.js'
import { systemClock } from './clock.js'

/**
 * Logger: the subset of pino's interface that gamekeeper uses, so that a host app can pass its pino logger. Messages are
 * constant; variable data goes into `fields`. An error is always passed as the error object itself, under the key `err`.
 */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = () => {}

export const silentLogger: Logger = Object.freeze({ debug: ignore, info: ignore, warn: ignore, error: ignore })

// The default logger: writes warnings and errors to stderr, one line each, so that no failure goes unnoticed.

interface StderrLoggerOptions {
  readonly write: (line: string) => void
  /** Readable and coloured instead of JSON. */
  readonly isTerminal: () => boolean
}

const colors = { warn: '\u001B[33m', error: '\u001B[31m' } as const
const reset = '\u001B[0m'

type Level = keyof typeof colors

export function stderrLogger({ write, isTerminal }: StderrLoggerOptions): Logger {
  const at = (level: Level) => (fields: object, message: string) =>
    write(`${isTerminal() ? readableLine(level, fields, message) : jsonLine(level, fields, message)}\n`)
  return Object.freeze({ ...silentLogger, warn: at('warn'), error: at('error') })
}

const defaultLogger = stderrLogger({
  write: writeToStderr,
  isTerminal: () => process.stderr.isTTY && (process.env['NO_COLOR'] ?? '') === '',
})

/** Unlike a plain write, and like `console.error`, does not end the process if the reader of stderr has gone. */
function writeToStderr(line: string): void {
  const { stderr } = process
  stderr.write(line, (error) => {
    if (error && stderr.listenerCount('error') === 0) stderr.once('error', () => {})
  })
}

/** What a function with the option `logger` logs to. */
export function loggerOf(option: Logger | false | undefined): Logger {
  return option === false ? silentLogger : (option ?? defaultLogger)
}

/** A line of JSON: level, time and message first, then the fields, which cannot overwrite those. */
export function jsonLine(level: string, fields: object, message: string, plain = plainField): string {
  const standard = { level, time: new Date(systemClock.now()).toISOString(), message }
  const shown = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, plain(value)]))
  return escaped(JSON.stringify({ ...standard, ...shown, ...standard }))
}

function readableLine(level: Level, fields: object, message: string): string {
  return `${colors[level]}gamekeeper ${level}${reset} ${escaped(message)}${readableFields(fields)}`
}

/** The fields for people, on one line: ` name=value`, with quotes where a value needs them. */
export function readableFields(fields: object): string {
  return Object.entries(fields)
    .map(([name, value]) => ` ${name}=${readable(value)}`)
    .join('')
}

function readable(value: unknown): string {
  if (isError(value)) return escaped(JSON.stringify(messagesOf(value)))
  if (typeof value === 'string' && /^[\w./:@%+-]+$/.test(value)) return value
  return escaped(JSON.stringify(plainField(value)) ?? String(value))
}

/** The message and code of an error, followed by those of its causes that it does not quote. */
function messagesOf(error: Error, causes = 0): string {
  const { cause } = error
  const text = `${error.message || error.name}${'code' in error ? ` (${String(error.code)})` : ''}`
  if (cause === undefined || causes >= maxCauses) return text
  const because = isError(cause) ? messagesOf(cause, causes + 1) : (JSON.stringify(plainField(cause)) ?? '')
  return text.includes(because) ? text : `${text}: ${because}`
}

/** JSON leaves these characters as they are, but a terminal may act on them. */
function escaped(text: string): string {
  return text.replace(
    // eslint-disable-next-line no-control-regex
    /[\u0000-\u001F\u007F-\u009F\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** An error may be its own cause. */
const maxCauses = 10

/** An error becomes its message, code and causes. A value that JSON cannot have becomes a short text. */
export function plainField(value: unknown, causes = 0): unknown {
  if (isError(value)) return plainError(value, causes)
  if (typeof value !== 'bigint' && (typeof value !== 'object' || value === null)) return value
  try {
    JSON.stringify(value)
    return value
  } catch {
    return shown(value)
  }
}

export function plainError(error: Error, causes = 0): object {
  return {
    message: error.message || error.name,
    ...('code' in error && { code: plainField(error.code) }),
    ...(error.cause !== undefined && causes < maxCauses && { cause: plainField(error.cause, causes + 1) }),
  }
}
