/** Sends what `curl` commands would send, after a shell has read them. Needs no curl. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'

export interface Response {
  readonly url: string
  readonly status: number
  /** A stream that goes on, such as that of events, up to where `--max-time` ends it. */
  readonly body: string
}

/** Sends the commands of this shell text in order and returns what they were answered. */
export async function responses(commands: string): Promise<readonly Response[]> {
  // Each command prints its arguments and an empty one; every argument ends with a zero byte.
  const shell = spawn('sh', ['-ec', `curl() { printf '%s\\0' "$@" ''; }; ${commands}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const printed = await text(shell.stdout)
  const calls: string[][] = [[]]
  for (const argument of printed.split('\0').slice(0, -1)) {
    if (argument === '') calls.push([])
    else calls.at(-1)?.push(argument)
  }
  const found: Response[] = []
  for (const call of calls) if (call.length > 0) found.push(await send(call))
  return found
}

async function send(args: readonly string[]): Promise<Response> {
  const rest = [...args]
  const init: { method?: string; body?: string; headers: Record<string, string> } = { headers: {} }
  let maxSeconds = 60
  let url = ''
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '-N' || arg === '-i') continue
    if (arg === '-X') init.method = rest.shift() ?? ''
    else if (arg === '--max-time') maxSeconds = Number(rest.shift())
    else if (arg === '-d') {
      init.body = rest.shift() ?? ''
      init.method ??= 'POST'
    } else if (arg === '-H') {
      const [name = '', value = ''] = (rest.shift() ?? '').split(': ')
      init.headers[name] = value
    } else if (arg.startsWith('-')) throw new Error(`this test does not know curl's ${arg}`)
    else url = arg
  }
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(maxSeconds * 1_000) })
  return { url, status: response.status, body: await bodyOf(response) }
}

async function bodyOf(response: globalThis.Response): Promise<string> {
  let body = ''
  const decoder = new TextDecoder()
  try {
    for await (const part of response.body ?? []) body += decoder.decode(part, { stream: true })
  } catch (error) {
    if (!(error instanceof DOMException)) throw error // only --max-time may end it
  }
  return body
}
