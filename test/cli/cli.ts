/** Runs the command `gamekeeper` as a process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { StopWaiting, until } from '../e2e/until.js'
import { root } from '../package/sources.js'

export const program = join(root, 'dist/src/cli/main.js')

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Written to stdin, which is closed after it. */
  readonly input?: string
  /** Options of node. */
  readonly node?: readonly string[]
  /** The limit of open files, as set by `ulimit -n`. */
  readonly openFiles?: number
  /** Runs it on a terminal of this size, whose output is then in stdout. */
  readonly terminal?: { readonly columns: number; readonly rows: number }
}

export interface CliResult {
  /** The signal if there is no exit code. */
  readonly code: number | string | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunningCli {
  readonly pid: number
  stdout(): string
  /** Resolves with the first match in stdout. */
  untilPrinted(pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves with the first match in stderr. */
  untilSaid(pattern: RegExp): Promise<RegExpExecArray>
  write(text: string): void
  signal(name: NodeJS.Signals): void
  exit(): Promise<CliResult>
}

/** Starts a command. It is killed at the end of the test. */
export function startCli(args: readonly string[], options?: CliOptions): RunningCli {
  const running = launchCli(args, options)
  onTestFinished(async () => {
    running.signal('SIGKILL')
    await running.exit()
  })
  return running
}

function onTerminal(
  command: readonly string[],
  { columns, rows }: { readonly columns: number; readonly rows: number },
) {
  const quoted = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  return ['script', '-qec', `stty cols ${columns} rows ${rows}; export TERM=xterm; exec ${quoted}`, '/dev/null']
}

/** Starts a command that the caller ends. */
export function launchCli(args: readonly string[], options: CliOptions = {}): RunningCli {
  const { env = {}, cwd = root, node = [], openFiles, terminal } = options
  const own = { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? '' }
  const command = [process.execPath, ...node, program, ...args]
  const limited = openFiles === undefined ? [] : ['/bin/sh', '-c', `ulimit -n ${openFiles}; exec "$@"`, 'sh']
  const whole = [...limited, ...command]
  const [first = '', ...rest] = terminal ? onTerminal(whole, terminal) : whole
  const child = spawn(first, rest, { cwd, env: { ...own, ...env } })
  const closed = once(child, 'close')
  const output = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output.stdout += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (output.stderr += part))
  child.stdin.on('error', () => {}) // the command may exit without reading it
  const untilIn = (stream: 'stdout' | 'stderr', pattern: RegExp) =>
    until(`${args.join(' ')} prints ${pattern}`, () => {
      const match = pattern.exec(output[stream])
      if (match === null && child.exitCode !== null) throw new StopWaiting(`it exited: ${JSON.stringify(output)}`)
      return match ?? undefined
    })
  return {
    pid: child.pid ?? Number.NaN,
    stdout: () => output.stdout,
    untilPrinted: (pattern) => untilIn('stdout', pattern),
    untilSaid: (pattern) => untilIn('stderr', pattern),
    write: (text) => void child.stdin.write(text),
    signal: (name) => void child.kill(name),
    async exit() {
      child.stdin.end()
      await closed
      return { code: child.exitCode ?? child.signalCode, ...output }
    },
  }
}

/** Runs a command to its end. */
export async function cli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const running = launchCli(args, options)
  if (options.input !== undefined) running.write(options.input)
  return running.exit()
}

/** An empty directory, removed at the end of the test. */
export async function emptyDirectory(): Promise<string> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), 'gamekeeper-cli-')))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}
