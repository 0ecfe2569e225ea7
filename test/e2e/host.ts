/** Runs the bundled server as a process. */
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { backend, namespaceEnv } from './backend.js'
import { StopWaiting, until } from './until.js'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export interface Exit {
  readonly code: number | null
  readonly signal: string | null
}

export interface LogLine {
  readonly level: string
  readonly time: string
  readonly message: string
  readonly [field: string]: unknown
}

export interface Host {
  readonly process: ChildProcess
  readonly allocation: string
  readonly management: string
  readonly agent: string
  /** Log lines so far. */
  log(): readonly LogLine[]
  stdout(): string
  stderr(): string
  /** Sends the signal, if any, and waits for the exit. */
  exit(signal?: NodeJS.Signals): Promise<Exit>
  /** Presses Ctrl-C in the host's terminal. */
  pressCtrlC(): void
}

export interface HostOptions {
  /** False: another host is the leader. */
  readonly leads?: boolean
  /** Runs the host in the foreground of a terminal of its own, which `process` then is. Its stderr is part of its stdout. */
  readonly terminal?: boolean
}

export type Environment = Readonly<Record<string, string>>

/** Starts a server on free ports and resolves when it is ready. */
export async function startHost(env: Environment, { leads = true, terminal = false }: HostOptions = {}): Promise<Host> {
  const own = { BACKEND: backend, ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0' }
  const started = start({ ...own, ...namespaceEnv(), ...env }, [], terminal)
  const ready = await until('the server is ready', () => {
    if (started.process.exitCode !== null) throw new StopWaiting(`the server exited: ${started.stderr()}`)
    return started.log().find(({ message }) => message === 'ready')
  })
  const url = (name: string) => String(ready[name])
  // After a killed leader it waits until the lease expires.
  if (backend === 'kubernetes' && leads) {
    await until(
      'the server is the leader',
      async () => (await fetch(`${url('management')}/api/v1/gameservers`)).status === 200,
    )
  }
  return { ...started, allocation: url('allocation'), management: url('management'), agent: url('agent') }
}

/** Runs a server that is expected to exit by itself. */
export async function runHost(
  env: Environment,
  args: readonly string[] = [],
): Promise<Exit & { readonly stdout: string; readonly stderr: string }> {
  const started = start(env, args)
  const exit = await started.exit()
  return { ...exit, stdout: started.stdout(), stderr: started.stderr() }
}

function start(
  env: Environment,
  args: readonly string[] = [],
  terminal = false,
): Omit<Host, 'allocation' | 'management' | 'agent'> {
  const command = [process.execPath, 'dist/src/cli/main.js', 'serve', ...args]
  const options = { cwd: root, env: { ...ownEnvironment(), ...env } }
  if (!terminal) return watch(spawn(process.execPath, command.slice(1), options))
  return watch(spawnInTerminal([...command, '--json'], options))
}

/** Starts a command in the foreground of a terminal of its own, which the process then is. Its stderr is part of its stdout. */
export function spawnInTerminal(command: readonly string[], options: SpawnOptions): ChildProcess {
  // Without the echo, lines of the log stay lines.
  const inTerminal = `stty -echo; exec ${command.map((word) => `'${word}'`).join(' ')}`
  return spawn('script', ['--quiet', '--flush', '--return', '--command', inTerminal, '/dev/null'], options)
}

/** Collects the output and the exit of a process. Kills it at the end of the test. */
export function watch(child: ChildProcess): Omit<Host, 'allocation' | 'management' | 'agent'> {
  const closed = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await closed
  })
  // The terminal may close before a key is pressed.
  child.stdin?.on('error', () => {})
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (part: string) => (stdout += part))
  child.stderr?.setEncoding('utf8').on('data', (part: string) => (stderr += part))
  return {
    process: child,
    log: () => stdout.split('\n').slice(0, -1).flatMap(readLine),
    stdout: () => stdout,
    stderr: () => stderr,
    pressCtrlC: () => void child.stdin?.write('\u0003'),
    async exit(signal) {
      if (signal) child.kill(signal)
      await closed
      return { code: child.exitCode, signal: child.signalCode }
    },
  }
}

/** Ignores the lines of npm. */
function readLine(line: string): LogLine[] {
  return line.startsWith('{') ? [JSON.parse(line)] : []
}

/** Only the variables that a server needs, without those of the test runner. */
function ownEnvironment(): Environment {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'DOCKER_HOST', 'KUBECONFIG']
  return Object.fromEntries(
    kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
