/** The SDK's own logger: the one the game passed, guarded, or one that writes to the game's log. */
import type { Logger } from '../contracts/logger.js'
import type { Logs } from './logs.js'

/** Swallows errors of the logger, which must not end the game. */
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

/** Writes info, warnings and errors as lines of the game's log; `err` with its stack. */
export function loggerOf(logs: Logs): Logger {
  const line = (level: string) => (fields: object, message: string) => {
    const error = 'err' in fields && fields.err instanceof Error ? `\n${fields.err.stack ?? fields.err.message}` : ''
    logs.write(`[gsdk] ${level}: ${message}${error}`)
  }
  return guardedLogger({ debug: () => {}, info: line('info'), warn: line('warn'), error: line('error') })
}
