/**
 * Runs what is measured in a process of its own, so that neither the heap nor the compiled code of one benchmark is
 * another's. The bench calls its methods over IPC: arguments and results are JSON.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** What a bench's file exports as `open`. */
export type Open<O, T> = (options: O) => Promise<T>

export type Remote<T> = {
  readonly [K in keyof T]: T[K] extends (...given: infer A) => infer R ? (...given: A) => Promise<Awaited<R>> : never
} & {
  /** Resolves when the process is gone. */
  stop(): Promise<void>
}

export interface Call {
  readonly id: number
  readonly method: string
  readonly given: readonly unknown[]
}

export interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
}

/** Resolves when the subject is open. Rejects with what `open` threw. */
export async function startSubject<O, T>(file: string, _open: Open<O, T>, options: O): Promise<Remote<T>> {
  const child = fork(fileURLToPath(new URL('child.ts', import.meta.url)), [file, JSON.stringify(options)], {
    execArgv: ['--expose-gc', '--max-old-space-size=4096', '--import', 'tsx'],
    // Nothing but rows may stand on stdout.
    stdio: ['ignore', 2, 2, 'ipc'],
  })
  const exited = once(child, 'exit')
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()
  let calls = 0

  const call = (method: string, given: readonly unknown[]) =>
    new Promise<unknown>((resolve, reject) => {
      const id = calls++
      waiting.set(id, { resolve, reject })
      const message: Call = { id, method, given }
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
  // The child answers to exactly the methods of T: `open` made it.
  return new Proxy({}, { get: (_, name) => methodOf(String(name)) }) as Remote<T>

  function methodOf(name: string): unknown {
    // A promise would ask for `then`.
    if (name === 'then') return undefined
    return name === 'stop' ? stop : (...given: readonly unknown[]) => call(name, given)
  }
}
