/**
 * The server's logger: one line for each thing said, JSON for machines and readable for people. Satisfies gamekeeper's
 * `Logger`, so that the fleet speaks through it too. Knows nothing of where the lines go.
 */
import type { Logger } from 'gamekeeper'

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

type SpokenLevel = Exclude<LogLevel, 'silent'>

export interface ServerLog extends Logger {
  /** True when lines of this level are written. */
  speaks(level: SpokenLevel): boolean
  /** Written whatever the level is, short of `silent`: what a script waits for. */
  always(fields: object, message: string): void
}

export interface LogOptions {
  readonly level: LogLevel
  /** JSON lines, or readable ones. */
  readonly json: boolean
  /** Takes one line, without its newline. */
  readonly write: (line: string) => void
}

export function serverLog({ level, json, write }: LogOptions): ServerLog {
  const line = json ? jsonLine : readableLine
  const least = logLevels.indexOf(level)
  const speaks = (of: SpokenLevel) => logLevels.indexOf(of) >= least
  const say = (of: SpokenLevel) => (fields: object, message: string) => {
    if (speaks(of)) write(line(of, fields, message))
  }
  return {
    debug: say('debug'),
    info: say('info'),
    warn: say('warn'),
    error: say('error'),
    speaks,
    always(fields, message) {
      if (level !== 'silent') write(line('info', fields, message))
    },
  }
}

function jsonLine(level: SpokenLevel, fields: object, message: string): string {
  const own = { level, time: new Date().toISOString(), message }
  // What every line has stands first, and no field can take its place.
  return JSON.stringify({ ...own, ...plain(fields), ...own })
}

function readableLine(level: SpokenLevel, fields: object, message: string): string {
  const time = new Date().toTimeString().slice(0, 8)
  const mark = level === 'info' ? '' : `${level.toUpperCase()} `
  const more = Object.entries(plain(fields)).map(([name, value]) => ` ${name}=${shown(value)}`)
  return `${time} ${mark}${oneLine(message)}${more.length === 0 ? '' : ` ${more.join('')}`}`
}

/** Fields as JSON can hold them: an error becomes its message, with its code and those of its causes. */
function plain(fields: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, plainValue(value)]))
}

function plainValue(value: unknown): unknown {
  if (!(value instanceof Error)) return value
  const code = 'code' in value ? ` (${String(value.code)})` : ''
  const cause = value.cause === undefined ? '' : `: ${String(plainValue(value.cause))}`
  return oneLine(`${value.message || value.name}${code}${cause}`)
}

function shown(value: unknown): string {
  if (typeof value === 'string' && /^[\w.:/@%+-]+$/.test(value)) return value
  return JSON.stringify(value) ?? String(value)
}

/** One message, one line: whatever a game or a system puts into it. */
export function oneLine(text: string): string {
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  return text.replace(/\s*[\r\n]+\s*/g, ' ').replace(/[\u0000-\u001f\u007f]/g, '?')
}
