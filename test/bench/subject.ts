/**
 * Runs the measured code in a separate process, so that benchmarks do not share a heap or compiled code. The benchmark calls
 * the code's methods over IPC, with JSON arguments and results.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The `open` function that a benchmark file exports. */
export type Open<O, T> = (options: O) => Promise<T>

export type Remote<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Promise<Awaited<R>> : never
} & {
  /** Stops the process. Resolves when it has exited. */
  stop(): Promise<void>
}

export interface Call {
  readonly id: number
  readonly method: string
  readonly args: readonly unknown[]
}

export interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

/**
 * Starts the process and runs `open` in it. Resolves when `open` has resolved, and rejects if `open` rejects. The process ends if it needs
 * a larger heap.
 */
export async function startSubject<O, T>(
  file: string,
  _open: Open<O, T>,
  options: O,
  heapMiB = 4_096,
): Promise<Remote<T>> {
  const child = fork(fileURLToPath(new URL('child.ts', import.meta.url)), [file, JSON.stringify(options)], {
    execArgv: ['--expose-gc', `--max-old-space-size=${heapMiB}`, '--import', 'tsx'],
    // The child prints to stderr, since stdout may only contain rows.
    stdio: ['ignore', 2, 2, 'ipc'],
  })
  const exited = once(child, 'exit')
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()
  let calls = 0

  const call = (method: string, args: readonly unknown[]) =>
    new Promise<unknown>((resolve, reject) => {
      const id = calls++
      waiting.set(id, { resolve, reject })
      const message: Call = { id, method, args }
      child.send(message, (error) => error && reject(error))
    })

  child.on('message', ({ id, result, error }: Reply) => {
    const caller = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) caller?.resolve(result)
    else caller?.reject(new Error(error))
  })
  child.on('exit', (code, signal) => {
    for (const { reject } of waiting.values()) reject(new Error(`the measured process ended with ${signal ?? code}`))
  })

  const stop = async () => {
    child.kill('SIGKILL')
    await exited
  }
  try {
    await call('open', [])
  } catch (error) {
    await stop()
    throw error
  }
  // The child provides exactly the methods of T, the type that `open` resolves to.
  return new Proxy({}, { get: (_, name) => methodOf(String(name)) }) as Remote<T>

  function methodOf(name: string): unknown {
    // The proxy must not be a thenable, or `await` would call it.
    if (name === 'then') return undefined
    return name === 'stop' ? stop : (...args: readonly unknown[]) => call(name, args)
  }
}
