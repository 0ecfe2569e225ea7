/**
 * The SDK's own logger: either the logger that the game passed, with its errors caught, or one that writes to the game's
 * log.
 */
import type { Logger } from '../contracts/logger.js'
import type { Logs } from './logs.js'
import { isError } from '../rules/model/realms.js'

/** Catches errors that the logger throws, which must not end the game. */
export function guardedLogger(logger: Logger): Logger {
  const guarded = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message)
    } catch {
      // There is nowhere left to report it.
    }
  }
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') }
}

/** Writes info, warnings and errors as lines in the game's log. An `err` is written with its stack. */
export function loggerOf(logs: Logs): Logger {
  const line = (level: string) => (fields: object, message: string) => {
    const error = 'err' in fields && isError(fields.err) ? `\n${fields.err.stack ?? fields.err.message}` : ''
    logs.write(`[gsdk] ${level}: ${message}${error}`)
  }
  return guardedLogger({ debug: () => {}, info: line('info'), warn: line('warn'), error: line('error') })
}
