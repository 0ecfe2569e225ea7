/**
 * The game's log: writes lines to a file in the server's log folder and to stdout. Touches only that file, stdout, and
 * stderr if the file cannot be written.
 */
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../contracts/clock.js'
import { messageOf } from '../contracts/errors.js'

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
