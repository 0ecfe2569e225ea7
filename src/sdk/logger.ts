/** Where the SDK's own words go: the host's logger, guarded, or the game's log. */
import type { Logger } from '../contracts/logger.js'
import type { Logs } from './logs.js'

/** A logger that throws must not end the game. */
export function guardedLogger(logger: Logger): Logger {
  const guarded = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message)
    } catch {
      // There is nowhere left to say it.
    }
  }
  return { debug: guarded('debug'), info: guarded('info'), warn: guarded('warn'), error: guarded('error') }
}

/** Info, warnings and errors as lines of the game's log; an error in `err` with its stack. */
export function loggerOf(logs: Logs): Logger {
  const line = (level: string) => (fields: object, message: string) => {
    const error = 'err' in fields && fields.err instanceof Error ? `\n${fields.err.stack ?? fields.err.message}` : ''
    logs.write(`[gsdk] ${level}: ${message}${error}`)
  }
  return guardedLogger({ debug: () => {}, info: line('info'), warn: line('warn'), error: line('error') })
}
