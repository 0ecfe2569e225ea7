/** What commands see of the process: environment, output, colours and interruption. */
import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'
import { stripVTControlCharacters, styleText } from 'node:util'
import type { FleetClient, FleetEvent } from '../client/index.js'
import { FleetError } from '../contracts/errors.js'
import { ownDescriptors } from '../platform/own-descriptors.js'
import { oneLine } from '../server/log.js'

export type Colour = 'red' | 'green' | 'yellow' | 'cyan' | 'magenta' | 'blue' | 'dim' | 'bold'

export interface Terminal {
  readonly env: Record<string, string | undefined>
  readonly cwd: string
  /** True if a person reads stdout. */
  readonly isInteractive: boolean
  /** Writes one line to stdout. On a terminal, control characters are shown as escapes: see `shownOn`. */
  print(line: string): void
  /** Columns and rows of the terminal. Undefined if a program reads stdout. */
  size(): { readonly columns: number; readonly rows: number } | undefined
  /** Prints these lines in place of those of the last call, as many as the terminal shows. Only on a terminal. */
  repaint(lines: readonly string[]): void
  /** Writes one line to stderr. */
  note(line: string): void
  /** Colours the text, unless colours are off. */
  paint(colour: Colour, text: string): string
  /** Writes text to stdout, without a line break. */
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
  const out = shownOn(stdout.isTTY)
  let painted = 0
  const size = () => (stdout.isTTY ? { columns: stdout.columns || 80, rows: stdout.rows || 24 } : undefined)
  const err = shownOn(stderr.isTTY)
  return {
    env,
    cwd: process.cwd(),
    isInteractive: stdout.isTTY,
    print: (line) => void stdout.write(`${out(line)}\n`),
    size,
    repaint(lines) {
      const { columns, rows } = size() ?? { columns: Infinity, rows: Infinity }
      const rowsOf = (line: string) => Math.max(1, Math.ceil(stripVTControlCharacters(out(line)).length / columns))
      const shown = firstOf(lines, rows - 1, rowsOf)
      // Up to the first line of the last time, and clear from there on.
      const back = painted > 0 ? `\u001b[${painted}A` : ''
      stdout.write(`${back}\u001b[J${shown.map((line) => `${out(line)}\n`).join('')}`)
      painted = shown.reduce((sum, line) => sum + rowsOf(line), 0)
    },
    note: (line) => void stderr.write(`${err(line)}\n`),
    paint: (colour, text) => (colours ? styleText(colour, text) : text),
    write: (text) => void stdout.write(out(text)),
    writeError: (text) => void stderr.write(err(text)),
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

/** As many lines as there is room for, and how many there are besides. */
function firstOf(lines: readonly string[], room: number, rowsOf: (line: string) => number): readonly string[] {
  const sum = (some: readonly string[]) => some.reduce((rows, line) => rows + rowsOf(line), 0)
  if (sum(lines) <= room) return lines
  let count = lines.length - 1
  while (count > 0 && sum(lines.slice(0, count)) > room - 1) count--
  return [...lines.slice(0, count), `… ${lines.length - count} more lines`]
}

/** The colours of `paint`, which pass. */
// eslint-disable-next-line no-control-regex -- the pattern must match control characters
const controls = /\u001b\[\d+m|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/**
 * What a command writes contains texts of games and callers, and a terminal obeys control characters in them: OSC 52 changes the clipboard.
 * On a terminal they are shown as escapes instead. Colours, tabs and line breaks pass. What is piped stays as it is, for programs that want
 * the bytes of the game.
 */
export function shownOn(isTerminal: boolean): (text: string) => string {
  return (text) => (isTerminal ? text.replace(controls, shownControl) : text)
}

function shownControl(found: string): string {
  return found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** https://no-color.org and https://force-color.org. */
export function hasColours(env: Readonly<Record<string, string | undefined>>, isTerminal: boolean): boolean {
  if ((env['NO_COLOR'] ?? '') !== '') return false
  if ((env['FORCE_COLOR'] ?? '') !== '') return env['FORCE_COLOR'] !== '0'
  return isTerminal && env['TERM'] !== 'dumb'
}

/**
 * Calls `gone` once, within a second or two. A pipe tells this only to a process that polls it, which Node does only while it writes.
 * GNU `tail -f` polls its stdout, so it shares ours and ends with the reader. Elsewhere, the next write finds out.
 */
function watchStdoutReader(gone: () => void): void {
  if (process.platform !== 'linux' || !isPipe()) return
  const probe = spawn(...ownDescriptors('tail', ['-f', '/dev/null', `--pid=${process.pid}`]), {
    stdio: ['ignore', 'inherit', 'ignore'],
  })
  probe.once('exit', (_, signal) => {
    if (signal === 'SIGPIPE') gone()
  })
  // There is no tail.
  probe.once('error', () => {})
  probe.unref()
  process.once('exit', () => probe.kill())
}

function isPipe(): boolean {
  const stats = fstatSync(1)
  return stats.isFIFO() || stats.isSocket()
}

/** Shows the messages of these events until the returned function is called. A token that may not read events shows none. */
export function showProgress(
  terminal: Terminal,
  client: FleetClient,
  types: readonly FleetEvent['type'][],
): () => void {
  const reading = new AbortController()
  const read = async () => {
    let last = ''
    for await (const event of client.events({ signal: reading.signal })) {
      if (event.type === 'EventsDropped' || !types.includes(event.type) || event.message === last) continue
      last = event.message
      terminal.note(terminal.paint('dim', oneLine(event.message)))
    }
  }
  read().catch((error: unknown) => {
    // The command itself reports what is wrong.
    if (!FleetError.is(error)) throw error
  })
  return () => reading.abort()
}

const meterIntervalMs = 2_000

/** Shows the last line that it is given, every 2 s. */
export function progressMeter(terminal: Terminal): (line: string) => void {
  let shownAt = performance.now()
  return (line) => {
    if (performance.now() - shownAt < meterIntervalMs) return
    shownAt = performance.now()
    terminal.note(terminal.paint('dim', line))
  }
}
