/** The child process that `startSubject` starts: loads the benchmark file and runs the methods that are called over IPC. */
import type { Call, Reply } from './subject.js'

type Methods = Readonly<Record<string, (...args: readonly unknown[]) => unknown>>

const [, , file = '', options = ''] = process.argv
const opened = load()
process.on('message', (call: Call) => void answer(call))
// Exit when the parent has exited.
process.on('disconnect', () => process.exit())

async function load(): Promise<Methods> {
  const { open }: { open(options: unknown): Promise<Methods> } = await import(file)
  return open(JSON.parse(options))
}

async function answer({ id, method, args }: Call): Promise<void> {
  let reply: Reply
  try {
    const methods = await opened
    reply = { id, result: await methods[method]?.(...args) }
  } catch (error) {
    reply = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
  process.send?.(reply)
}
