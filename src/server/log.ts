/**
 * The server's logger: writes JSON lines for machines or readable lines for people. Follows pino's calling convention
 * (fields, then message; errors in `err`). Implements gamekeeper's `Logger`, so the fleet uses it too. The caller decides
 * where lines go.
 */
import { jsonLine, plainError, plainField, readableFields } from '../contracts/stderr-logger.js'
import type { Logger } from '../index.js'
import { isError } from '../rules/model/realms.js'

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
  const withStack = level === 'debug'
  const plain = withStack ? plainWithStack : plainField
  const format = (of: LineLevel, fields: object, message: string) =>
    json ? jsonLine(of, fields, message, plain) : readableLine(of, fields, message, withStack)
  const isEnabled = (of: LineLevel) => logLevels.indexOf(of) >= logLevels.indexOf(level)
  const logAt = (of: LineLevel) => (fields: object, message: string) => {
    if (isEnabled(of)) write(format(of, fields, message))
  }
  return {
    debug: logAt('debug'),
    info: logAt('info'),
    warn: logAt('warn'),
    error: logAt('error'),
    isEnabled,
    always(fields, message) {
      if (level !== 'silent') write(format('info', fields, message))
    },
  }
}

function plainWithStack(value: unknown): unknown {
  return isError(value) ? { ...plainError(value), stack: value.stack } : plainField(value)
}

function readableLine(level: LineLevel, fields: object, message: string, withStack: boolean): string {
  const time = new Date().toTimeString().slice(0, 8)
  const label = level === 'info' ? '' : `${level.toUpperCase()} `
  const shown = readableFields(fields)
  const stacks = withStack ? Object.values(fields).flatMap(stackLines) : []
  const line = `${time} ${label}${oneLine(message)}${shown === '' ? '' : ` ${shown}`}`
  return [line, ...stacks].join('\n')
}

function stackLines(value: unknown): readonly string[] {
  const lines = isError(value) ? (value.stack ?? '').split('\n') : []
  return lines.filter((line) => /^\s+at /.test(line)).map((line) => `    ${oneLine(line.trim())}`)
}

const lineBreaks = /[\r\n\u0085\u2028\u2029]+/
// eslint-disable-next-line no-control-regex -- the pattern must match control characters
const controls = /[\u0000-\u001f\u007f-\u009f]/g

/**
 * Replaces line breaks and control characters (C0, DEL and C1), so that a value can neither imitate a log line nor control a
 * terminal. Takes linear time.
 */
export function oneLine(text: string): string {
  const [first = '', ...others] = text.split(lineBreaks)
  const line = others.length === 0 ? first : [first.trimEnd(), ...others.map((other) => other.trim())].join(' ')
  return line.replace(controls, '?')
}
