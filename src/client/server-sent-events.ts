/** Parses a stream of server-sent events. */
import { FleetError } from '../contracts/errors.js'

export interface Message {
  /** The most recent event id in the stream. */
  readonly id: string
  /** Empty if only the id has changed. */
  readonly data: string
}

/** Ends when the stream ends. Throws `unavailable` if the connection is lost or no data arrives for `silenceMs`. */
export async function* messages(response: Response, silenceMs: number): AsyncGenerator<Message> {
  let id = ''
  let yieldedId = id
  let data: string[] = []
  for await (const line of lines(response, silenceMs)) {
    if (line === '') {
      if (data.length > 0 || id !== yieldedId) yield { id, data: data.join('\n') }
      yieldedId = id
      data = []
      continue
    }
    const colon = line.indexOf(':')
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') data.push(value)
    else if (field === 'id') id = value
  }
}

async function* lines(response: Response, silenceMs: number): AsyncGenerator<string> {
  let rest = ''
  for await (const text of chunks(response, silenceMs)) {
    const parts = (rest + text).split(/\r\n|\n/)
    rest = parts.pop() ?? ''
    yield* parts
  }
}

/** Yields the text of a response as it arrives. Throws `unavailable` if the connection is lost or silent for `silenceMs`. */
export async function* chunks(response: Response, silenceMs: number): AsyncGenerator<string> {
  const body: ReadableStream<Uint8Array> | null = response.body
  if (body === null) return
  const reader = body.getReader()
  const decoder = new TextDecoder()
  try {
    for (;;) {
      const { done, value } = await orTimeout(reader.read(), silenceMs)
      if (done) return
      yield decoder.decode(value, { stream: true })
    }
  } catch (error) {
    if (FleetError.is(error)) throw error
    throw new FleetError('unavailable', 'the connection to the event stream was lost', { cause: error })
  } finally {
    // It may be closed already.
    void reader.cancel().catch(() => {})
  }
}

async function orTimeout<T>(next: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timedOut = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new FleetError('unavailable', `the event stream was idle for ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([next, timedOut])
  } finally {
    clearTimeout(timer)
  }
}
