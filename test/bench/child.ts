/** The process of a subject: opens what its file exports, and does what it is told over IPC. See `subject.ts`. */
import type { Call, Reply } from './subject.js'

type Methods = Readonly<Record<string, (...given: readonly unknown[]) => unknown>>

const [, , file = '', options = ''] = process.argv
const opened = load()
process.on('message', (call: Call) => void answer(call))
// Whoever started it is gone.
process.on('disconnect', () => process.exit())

async function load(): Promise<Methods> {
  const { open }: { open(options: unknown): Promise<Methods> } = await import(file)
  return open(JSON.parse(options))
}

async function answer({ id, method, given }: Call): Promise<void> {
  let reply: Reply
  try {
    const methods = await opened
    reply = { id, result: await methods[method]?.(...given) }
  } catch (error) {
    reply = { id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
  process.send?.(reply)
}
