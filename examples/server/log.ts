/**
 * The server's logger: writes JSON lines for machines or readable lines for people. Follows pino's calling convention
 * (fields, then message; errors in `err`). Implements gamekeeper's `Logger`, so the fleet uses it too. The caller decides
 * where lines go.
 */
import type { Logger } from 'gamekeeper'

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

type LineLevel = Exclude<LogLevel, 'silent'>

export interface ServerLog extends Logger {
  /** Returns true if lines at this level are written. */
  isEnabled(level: LineLevel): boolean
  /** Written at every level except `silent`, because scripts wait for this line. */
  always(fields: object, message: string): void
}

export interface LogOptions {
  /** The lowest level that is written. At `debug`, errors include their stack. */
  readonly level: LogLevel
  /** Whether to write JSON lines or readable lines. */
  readonly json: boolean
  /** Receives one entry, without the final newline. */
  readonly write: (line: string) => void
}

export function serverLog({ level, json, write }: LogOptions): ServerLog {
  const format = json ? jsonLine : readableLine
  const withStack = level === 'debug'
  const isEnabled = (of: LineLevel) => logLevels.indexOf(of) >= logLevels.indexOf(level)
  const logAt = (of: LineLevel) => (fields: object, message: string) => {
    if (isEnabled(of)) write(format(of, fields, message, withStack))
  }
  return {
    debug: logAt('debug'),
    info: logAt('info'),
    warn: logAt('warn'),
    error: logAt('error'),
    isEnabled,
    always(fields, message) {
      if (level !== 'silent') write(format('info', fields, message, withStack))
    },
  }
}

function jsonLine(level: LineLevel, fields: object, message: string, withStack: boolean): string {
  const standard = { level, time: new Date().toISOString(), message }
  const serialized = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? errorFields(value, withStack) : value,
    ]),
  )
  // The standard fields come first, and other fields cannot overwrite them.
  return JSON.stringify({ ...standard, ...serialized, ...standard })
}

/** Converts an error to JSON: message, code, causes and, at debug level, the stack. */
function errorFields(error: Error, withStack: boolean): object {
  return {
    message: error.message || error.name,
    ...('code' in error && { code: error.code }),
    ...(error.cause !== undefined && {
      cause: error.cause instanceof Error ? errorFields(error.cause, false) : error.cause,
    }),
    ...(withStack && { stack: error.stack }),
  }
}

function readableLine(level: LineLevel, fields: object, message: string, withStack: boolean): string {
  const time = new Date().toTimeString().slice(0, 8)
  const label = level === 'info' ? '' : `${level.toUpperCase()} `
  const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${readable(value)}`)
  const stacks = withStack ? Object.values(fields).flatMap(stackLines) : []
  const line = `${time} ${label}${oneLine(message)}${shown.length === 0 ? '' : ` ${shown.join('')}`}`
  return [line, ...stacks].join('\n')
}

function readable(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(errorText(value))
  if (typeof value === 'string' && /^[\w.:/@%+-]+$/.test(value)) return value
  return JSON.stringify(value) ?? String(value)
}

/** Returns the error's message and code, followed by those of its causes. */
function errorText(error: Error): string {
  const code = 'code' in error ? ` (${String(error.code)})` : ''
  const { cause } = error
  const reason = cause === undefined ? '' : `: ${cause instanceof Error ? errorText(cause) : JSON.stringify(cause)}`
  return oneLine(`${error.message || error.name}${code}${reason}`)
}

function stackLines(value: unknown): readonly string[] {
  const lines = value instanceof Error ? (value.stack ?? '').split('\n') : []
  return lines.filter((line) => /^\s+at /.test(line)).map((line) => `    ${oneLine(line.trim())}`)
}

/** Replaces line breaks and control characters, so that a value cannot imitate a log line. */
export function oneLine(text: string): string {
  // eslint-disable-next-line no-control-regex -- the pattern must match control characters
  return text.replace(/\s*[\r\n]+\s*/g, ' ').replace(/[\u0000-\u001f\u007f]/g, '?')
}
