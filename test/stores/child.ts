/** Starts a script beside this file as a process of its own, which the test may kill at any moment. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface Child {
  readonly pid: number
  /** What it prints, line by line, from where the last reader stopped. */
  readonly lines: AsyncIterator<string>
  say(line: string): void
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>
  /** Resolves to its exit code when it ends by itself. */
  ended(): Promise<number | null>
}

export interface StartOptions {
  /** As of `ulimit -S`, like `-f 4096`. */
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

/** The next line, read as JSON. */
export async function nextMessage(child: Child): Promise<unknown> {
  const line = await child.lines.next()
  if (line.done) throw new Error('the child said nothing more')
  return JSON.parse(line.value)
}
