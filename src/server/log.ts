/**
 * The server's logger: writes JSON lines for machines or readable lines for people. Follows pino's calling convention
 * (fields, then message; errors in `err`). Implements gamekeeper's `Logger`, so the fleet uses it too. The caller decides
 * where lines go.
 */
import { jsonLine, plainError, plainField, readableFields } from '../contracts/logger.js'
import type { EndingReason, EventOf, FleetEvent, Logger } from '../index.js'
import type { Fleet } from '../contracts/fleet.js'
import { isError } from '../rules/model/values.js'

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

type LineLevel = Exclude<LogLevel, 'silent'>

export interface ServerLog extends Logger {
  /** Returns true if lines at this level are written. */
  isEnabled(level: LineLevel): boolean
  /** Written at every level except `silent`, because scripts wait for this line. */
  always(fields: object, message: string): void
}

interface LogOptions {
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

/** Logs the fleet's events for an operator, except events that the fleet already logs. */
export function logEvents(fleet: Fleet, log: ServerLog): void {
  fleet.on('*', (event) => {
    // An audit line does not depend on the log level.
    if (event.type === 'Audited') log.always(fieldsOf(event), event.message)
    const level = levelOf(event)
    if (level !== undefined) log[level](fieldsOf(event), event.message)
  })
}

/** Routine reasons for ending a server, logged only at debug level. */
const routineReasons: ReadonlySet<EndingReason> = new Set(['ScaledDown', 'Drained', 'Replaced'])

function levelOf(event: FleetEvent): 'debug' | 'info' | 'warn' | undefined {
  switch (event.type) {
    case 'BuildCreated':
    case 'BuildPatched':
    case 'StandingByDecided':
    case 'BuildUpdated':
    case 'BuildDeleted':
    case 'Allocated':
    case 'MaintenanceAnnounced':
    case 'MaintenanceWithdrawn':
    case 'ServerReserved':
    case 'ReservationReleased':
    case 'ReservationLapsed':
    case 'LeadershipChanged':
      return 'info'
    case 'ConditionChanged':
      return event.status ? 'warn' : 'info'
    case 'BuildPreparing':
      return event.status === 'failed' ? undefined : 'info'
    case 'ServerHealthChanged':
      return event.health === 'Unhealthy' ? 'warn' : 'debug'
    case 'ServerEnding':
      // The fleet already logs crashes.
      if (event.crash) return undefined
      return routineReasons.has(event.reason) ? 'debug' : 'info'
    case 'ServerCreated':
    case 'ServerStateChanged':
    case 'ServerDataChanged':
    case 'ServerRemoved':
    case 'SessionEnded':
    case 'PlayersChanged':
    case 'SeatsReserved':
    case 'SeatsReleased':
    case 'SeatsLapsed':
    case 'DrainProgress': // shutdown.ts logs the progress.
      return 'debug'
    case 'TemplateFieldsSkipped':
    case 'MetadataKeysReserved':
    case 'BuildHealthChanged':
    case 'ServerLate':
    case 'ServerStartFailed':
    case 'OrphanFound':
    case 'StoreDamaged':
    case 'ReconcileFailed':
    case 'BackendUnavailable':
    case 'BackendRecovered':
    case 'WebhookFailed':
    case 'Audited':
      return undefined
  }
}

function fieldsOf(event: FleetEvent): object {
  const build = 'build' in event ? nameOf(event.build) : undefined
  const server = 'server' in event ? nameOf(event.server) : undefined
  const session = event.type === 'Allocated' ? { session: event.sessionID, waitedMs: Math.round(event.waitedMs) } : {}
  const audit = event.type === 'Audited' ? auditFields(event) : {}
  return {
    event: event.type,
    ...(build !== undefined && { build }),
    ...(server !== undefined && { server }),
    ...session,
    ...audit,
  }
}

function auditFields({ action, caller, outcome, node, sessionID }: EventOf<'Audited'>): object {
  return {
    action,
    outcome,
    caller: caller.name ?? caller.kind,
    callerKind: caller.kind,
    ...(caller.address !== undefined && { address: caller.address }),
    ...(node !== undefined && { node }),
    ...(sessionID !== undefined && { session: sessionID }),
  }
}

function nameOf({ namespace, name }: { readonly namespace: string; readonly name: string }): string {
  return namespace === 'default' ? name : `${namespace}/${name}`
}
