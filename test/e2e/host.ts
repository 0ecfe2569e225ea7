/** The bundled server as a process of its own, as its operator starts it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { backend, inSpace } from './backend.js'
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
  /** What it has logged so far. */
  log(): readonly LogLine[]
  stdout(): string
  stderr(): string
  /** Sends the signal, if any, and waits for the end. */
  exit(signal?: NodeJS.Signals): Promise<Exit>
}

export type Environment = Readonly<Record<string, string>>

/** Starts a server on ports that are free, and resolves once it says that it is ready. `leads: false`: beside one that does. */
export async function startHost(env: Environment, { leads = true } = {}): Promise<Host> {
  const own = { BACKEND: backend, ALLOCATION_PORT: '0', MANAGEMENT_PORT: '0', AGENT_PORT: '0' }
  const started = start({ ...own, ...inSpace(), ...env })
  const ready = await until('the server is ready', () => {
    if (started.process.exitCode !== null) throw new StopWaiting(`it ended: ${started.stderr()}`)
    return started.log().find(({ message }) => message === 'ready')
  })
  const url = (name: string) => String(ready[name])
  // After one that was killed it has to wait for that one's lease.
  if (backend === 'kubernetes' && leads) {
    await until('it leads', async () => (await fetch(`${url('management')}/api/v1/gameservers`)).status === 200)
  }
  return { ...started, allocation: url('allocation'), management: url('management'), agent: url('agent') }
}

/** Runs a server that is expected to end by itself. */
export async function runHost(
  env: Environment,
  args: readonly string[] = [],
): Promise<Exit & { readonly stdout: string; readonly stderr: string }> {
  const started = start(env, args)
  const exit = await started.exit()
  return { ...exit, stdout: started.stdout(), stderr: started.stderr() }
}

function start(env: Environment, args: readonly string[] = []): Omit<Host, 'allocation' | 'management' | 'agent'> {
  const command = ['--import', 'tsx', 'examples/server/main.ts', ...args]
  return watch(spawn(process.execPath, command, { cwd: root, env: { ...ownEnvironment(), ...env } }))
}

/** What it says and how it ends. It ends with the test at the latest. */
export function watch(child: ChildProcess): Omit<Host, 'allocation' | 'management' | 'agent'> {
  const closed = once(child, 'close')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await closed
  })
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (part: string) => (stdout += part))
  child.stderr?.setEncoding('utf8').on('data', (part: string) => (stderr += part))
  return {
    process: child,
    log: () => stdout.split('\n').slice(0, -1).flatMap(readLine),
    stdout: () => stdout,
    stderr: () => stderr,
    async exit(signal) {
      if (signal) child.kill(signal)
      await closed
      return { code: child.exitCode, signal: child.signalCode }
    },
  }
}

/** npm says a few words of its own. */
function readLine(line: string): LogLine[] {
  return line.startsWith('{') ? [JSON.parse(line)] : []
}

/** Without what the test runner, or whoever runs it, has set for themselves. */
function ownEnvironment(): Environment {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'DOCKER_HOST', 'KUBECONFIG']
  return Object.fromEntries(
    kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  )
}
