/** What commands see of the process: environment, output, colours and interruption. */
import { styleText } from 'node:util'
import { watchStdoutReader } from './stdout-reader.js'

export type Colour = 'red' | 'green' | 'yellow' | 'cyan' | 'magenta' | 'blue' | 'dim' | 'bold'

export interface Terminal {
  readonly env: Record<string, string | undefined>
  readonly cwd: string
  /** True if a person reads stdout. */
  readonly isInteractive: boolean
  /** Writes one line to stdout. */
  print(line: string): void
  /** Writes one line to stderr. */
  note(line: string): void
  /** Colours the text, unless colours are off. */
  paint(colour: Colour, text: string): string
  /** Writes text to stdout as it is. */
  write(text: string): void
  writeError(text: string): void
  /** Fires on Ctrl-C, SIGTERM and SIGHUP, or when the reader of stdout has gone. From the first call on, signals no longer end the process. */
  interruption(): AbortSignal
  /** Like `interruption`, for commands that only print: also notices that the reader has gone while there is nothing to write. */
  untilReaderGone(): AbortSignal
  /** True after a signal. */
  isInterrupted(): boolean
  exitWith(code: number): void
  exitCode(): number
  /** Ends the process at once. */
  die(code: number): void
}

export function processTerminal(exit: (code: number) => void): Terminal {
  const { env, stdout, stderr } = process
  const colours = hasColours(env, stdout.isTTY)
  const interrupted = new AbortController()
  let isListening = false
  let isWatching = false
  let bySignal = false
  let code = 0
  for (const stream of [stdout, stderr]) {
    // The process that reads the output may exit, as `head` does. That must not stop a fleet.
    stream.on('error', () => interrupted.abort())
  }
  const interruption = () => {
    if (isListening) return interrupted.signal
    isListening = true
    const stop = () => {
      bySignal = true
      interrupted.abort()
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
    return interrupted.signal
  }
  return {
    env,
    cwd: process.cwd(),
    isInteractive: stdout.isTTY,
    print: (line) => void stdout.write(`${line}\n`),
    note: (line) => void stderr.write(`${line}\n`),
    paint: (colour, text) => (colours ? styleText(colour, text) : text),
    write: (text) => void stdout.write(text),
    writeError: (text) => void stderr.write(text),
    interruption,
    untilReaderGone() {
      if (!isWatching) watchStdoutReader(() => interrupted.abort())
      isWatching = true
      return interruption()
    },
    isInterrupted: () => bySignal,
    exitWith: (next) => void (code = next),
    exitCode: () => code,
    die: exit,
  }
}

/** https://no-color.org and https://force-color.org. */
export function hasColours(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  if ((env['NO_COLOR'] ?? '') !== '') return false
  if ((env['FORCE_COLOR'] ?? '') !== '') return env['FORCE_COLOR'] !== '0'
  return isTerminal && env['TERM'] !== 'dumb'
}
