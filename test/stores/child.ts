/** Starts a script from `children` as a process that the test can kill. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

export interface Child {
  readonly pid: number
  /** The lines that it prints. */
  readonly lines: AsyncIterator<string>
  say(line: string): void
  /** Sends SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** Resolves with the exit code. */
  ended(): Promise<number | null>
}

export interface StartOptions {
  /** The size of a file system that only the child sees, at its first argument. Linux only. */
  readonly diskMegabytes?: number
  /** Runs as process 1 of its own PID namespace, as the main process of a container does. Linux only. */
  readonly ownPidNamespace?: boolean
}

const pidNamespace = [
  '--pid',
  '--fork',
  '--kill-child',
  '--mount-proc',
  ...(process.getuid?.() === 0 ? [] : ['--map-root-user']),
]

/**
 * A test whose processes run in their own namespaces. If this user cannot create any, a placeholder test reports it; with
 * REQUIRE_ENGINES the placeholder fails.
 */
export const testInNamespaces = hasPidNamespaces() ? test : leaveOut

function leaveOut(what: string, _run: () => Promise<void>): void {
  test(`LEFT OUT, namespaces cannot be created here: ${what}`, () => {
    console.warn(`left out: ${what} (namespaces cannot be created here)`)
    expect(process.env['REQUIRE_ENGINES'] ?? '').toBe('')
  })
}

function hasPidNamespaces(): boolean {
  return spawnSync('unshare', [...pidNamespace, 'true']).status === 0
}

const mountDisk = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'

export function startChild(script: string, args: readonly string[], options: StartOptions = {}): Child {
  const path = fileURLToPath(new URL(`./children/${script}`, import.meta.url))
  const command = [process.execPath, '--import', import.meta.resolve('tsx'), path, ...args]
  const mount = ['sh', '-c', mountDisk, `${options.diskMegabytes}m`, args[0] ?? '']
  const [program = '', ...rest] = options.ownPidNamespace
    ? ['unshare', ...pidNamespace, ...command]
    : options.diskMegabytes !== undefined
      ? ['unshare', ...pidNamespace, ...mount, ...command]
      : command
  const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'] })
  const exit = once(child, 'exit')
  // In a PID namespace, `unshare` ends before its child; the streams close when both have ended.
  const close = once(child, 'close')
  const errors = textOf(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    get pid() {
      if (child.pid === undefined) throw new Error('the child did not start')
      return child.pid
    },
    lines: {
      async next() {
        const line = await lines.next()
        const [code, signal] = line.done ? await exit : [0]
        if (code !== 0 && !signal) throw new Error(`exit ${code}: ${errors()}`)
        return line
      },
    },
    say: (line) => void child.stdin.write(`${line}\n`),
    async kill() {
      child.kill('SIGKILL')
      await close
    },
    async ended() {
      const [code] = await exit
      if (code !== 0) throw new Error(`exit ${code}: ${errors()}`)
      return code
    },
  }
}

function textOf(child: ChildProcess): () => string {
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (part: string) => (text += part))
  return () => text
}

/** The next line, parsed as JSON. */
export async function nextMessage(child: Child): Promise<unknown> {
  const line = await child.lines.next()
  if (line.done) throw new Error('the child said nothing more')
  return JSON.parse(line.value)
}
