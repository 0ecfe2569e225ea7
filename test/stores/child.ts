/** Starts a script from `children` as a process that the test can kill. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

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
  /** Arguments of `ulimit -S`, such as `-f 4096`. */
  readonly limit?: string
}

export function startChild(script: string, args: readonly string[], options: StartOptions = {}): Child {
  const path = fileURLToPath(new URL(`./children/${script}`, import.meta.url))
  const command = [process.execPath, '--import', import.meta.resolve('tsx'), path, ...args]
  const [program = '', ...rest] = options.limit
    ? ['/bin/sh', '-c', `ulimit -S ${options.limit} && exec "$@"`, 'sh', ...command]
    : command
  const child = spawn(program, rest, { stdio: ['pipe', 'pipe', 'pipe'] })
  const exit = once(child, 'exit')
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
      await exit
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
