/**
 * The game's log: writes lines to a file in the server's log folder and to stdout. Touches only that file, stdout, and
 * stderr if the file cannot be written.
 */
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'
import type { Logger } from '../contracts/logger.js'
import { isError } from '../rules/model/values.js'

export interface Logs {
  /**
   * The server's log folder; undefined if the fleet provides none. Other files that the game puts there are kept with its
   * log.
   */
  readonly folder: string | undefined
  /** The file that `write` appends to. */
  readonly file: string | undefined
  /** Appends a timestamped line to the file and prints the message on stdout. Never throws. */
  readonly write: (message: string) => void
}

export function createLogs(folder: string | undefined): Logs {
  const file = folder === undefined ? undefined : join(folder, `GSDK_output_${systemClock.now()}_${process.pid}.txt`)
  let usable: boolean | undefined

  /** Writes synchronously, so that the last lines are kept if the process exits or crashes. */
  function append(line: string): void {
    if (folder === undefined || file === undefined || usable === false) return
    try {
      if (usable === undefined) mkdirSync(folder, { recursive: true })
      appendFileSync(file, line)
      usable = true
    } catch (error) {
      usable = false
      print(process.stderr, `${file} cannot be written; logging to stdout only: ${messageOf(error)}`)
    }
  }

  return Object.freeze({
    folder,
    file,
    write(message: string) {
      append(`${new Date(systemClock.now()).toISOString()}\t${message}\n`)
      print(process.stdout, message)
    },
  })
}

/**
 * Game servers outlive the host that reads their output. Writing to a pipe that nothing reads emits an error event, which
 * ends the process if there is no listener. The event may follow the write, so the listener stays installed.
 */
function print(stream: NodeJS.WriteStream, line: string): void {
  if (!stream.listeners('error').includes(ignore)) stream.on('error', ignore)
  stream.write(`${line}\n`)
}

const ignore = () => {}

// The SDK's own logger: either the logger that the game passed, with its errors caught, or one that writes to the game's
// log.

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
export function loggerTo(logs: Logs): Logger {
  const line = (level: string) => (fields: object, message: string) => {
    const error = 'err' in fields && isError(fields.err) ? `\n${fields.err.stack ?? fields.err.message}` : ''
    logs.write(`[gsdk] ${level}: ${message}${error}`)
  }
  return guardedLogger({ debug: () => {}, info: line('info'), warn: line('warn'), error: line('error') })
}
