/**
 * Runs `gsdk-program.ts` on any backend, and receives what it reports. The program is passed to `node` as text, so that it also
 * runs in a container of any image with Node.
 */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import ts from 'typescript'

export const gsdkClients = ['cpp', 'csharp', 'go', 'java', 'unity', 'unreal', 'godot'] as const
export type GsdkClient = (typeof gsdkClients)[number]

const program = ts.transpileModule(readFileSync(new URL('gsdk-program.ts', import.meta.url), 'utf8'), {
  compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, removeComments: true },
}).outputText

/** The command of a container or process that runs the game. `args` as in the file's `parseArgs`. */
export function gsdkGame(client: GsdkClient, args: Readonly<Record<string, string | number | true>> = {}): string[] {
  const flags = Object.entries(args).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : [`--${name}`, String(value)],
  )
  return ['node', '--input-type=module', '-e', program, '--', '--client', client, ...flags]
}

export interface GameEvent {
  readonly event:
    'started' | 'session' | 'terminate' | 'callback-done' | 'signal' | 'maintenance' | 'unreachable' | 'exiting'
  /** Wall time in ms of the game's machine. */
  readonly at: number
  readonly server: string
  readonly [field: string]: unknown
}

/** Listens for the events of games that were started with `report: port`. */
export async function gameReports(host: string): Promise<{
  readonly port: number
  readonly events: readonly GameEvent[]
  close(): Promise<void>
}> {
  const events: GameEvent[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (part: string) => (text += part))
    request.on('end', () => {
      const event: GameEvent = JSON.parse(text)
      events.push(event)
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the report server has no port')
  return {
    port: address.port,
    events,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
