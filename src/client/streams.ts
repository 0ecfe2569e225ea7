/** Reads answers that last: events, a server's log, and those that arrive hours after their request, such as that of a drain. */
import type { LogsOptions } from '../contracts/backend.js'
import { FleetError } from '../contracts/errors.js'
import type { EventsDropped, FleetEvent, ReadEventsOptions } from '../contracts/events.js'
import { type Call, type Connection, isRetryable, pause, retryAfterMs, type Target } from './connection.js'

/** A host sends data at least every 15 s. After three times that, the connection counts as lost. */
const silenceMs = 45_000
const initialPauseMs = 500
const maxPauseMs = 15_000

/** Reads a host's event stream. Reconnects after the last event if the connection is lost. */
export async function* readEvents(
  calls: Connection,
  target: Target,
  { from, last, to, types, signal }: ReadEventsOptions = {},
): AsyncGenerator<FleetEvent | EventsDropped> {
  /** Headers that tell the host where the next connection continues. */
  let headers: Record<string, string> = {}
  let failures = 0
  while (!signal?.aborted) {
    const connected = new AbortController()
    let pauseMs: number | undefined
    const onAbort = () => connected.abort(signal?.reason)
    signal?.addEventListener('abort', onAbort)
    try {
      const isFirst = headers['Last-Event-ID'] === undefined
      const response = await calls.open({
        ...target,
        query: { ...(isFirst && { from, last }), to, types: types?.join(',') },
        headers: { Accept: 'text/event-stream', ...headers },
        signal: connected.signal,
      })
      for await (const { id, data } of messages(response, silenceMs)) {
        failures = 0
        if (id !== '') headers = { 'Last-Event-ID': id }
        if (data !== '') {
          const event: FleetEvent | EventsDropped = JSON.parse(data)
          yield event
        }
        // Everything up to `to` has arrived.
        if (to !== undefined && Number(id.slice(id.lastIndexOf('-') + 1)) >= to) return
      }
    } catch (error) {
      if (signal?.aborted) return
      if (!FleetError.is(error) || !isRetryable(error, true)) throw error
      pauseMs = retryAfterMs(error)
    } finally {
      signal?.removeEventListener('abort', onAbort)
      connected.abort()
    }
    await pauseUnlessAborted(pauseMs ?? Math.min(initialPauseMs * 2 ** failures++, maxPauseMs), signal)
  }
}

async function pauseUnlessAborted(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await pause(ms, signal)
  } catch {
    // The caller's signal fired: reading ends without an error.
  }
}

/** Resolves with the answer, which begins with a line break every 15 s. */
export async function readSlowly<T>(calls: Connection, call: Call): Promise<T> {
  const response = await calls.open(call)
  let answer = ''
  try {
    for await (const text of chunks(response, silenceMs)) answer += text
    const value: T = JSON.parse(answer)
    return value
  } catch (error) {
    if (call.signal?.aborted) throw new FleetError('aborted', 'the call was aborted by its signal', { cause: error })
    throw new FleetError('unavailable', `${calls.urlOf(call)}: the connection was lost; the drain continues`, {
      cause: error,
    })
  }
}

/** The host sends lines as JSON strings in server-sent events. Ends without an error if the signal fires. */
export async function* readLogs(
  calls: Connection,
  target: Target,
  { follow = false, tail, origin = false, signal }: LogsOptions,
): AsyncGenerator<string> {
  const stop = new AbortController()
  const onAbort = () => stop.abort(signal?.reason)
  if (signal?.aborted) return
  signal?.addEventListener('abort', onAbort)
  try {
    const response = await calls.open({
      ...target,
      query: { follow: follow || undefined, tail, origin: origin || undefined },
      headers: { Accept: 'text/event-stream' },
      signal: stop.signal,
    })
    for await (const { data } of messages(response, silenceMs)) {
      const line: string = JSON.parse(data)
      yield line
    }
  } catch (error) {
    if (!signal?.aborted) throw error
  } finally {
    signal?.removeEventListener('abort', onAbort)
    stop.abort()
  }
}

/** A server-sent event. */
interface Message {
  /** The most recent event id in the stream. */
  readonly id: string
  /** Empty if only the id has changed. */
  readonly data: string
}

/** Parses a stream of server-sent events. Ends when the stream ends. Throws `unavailable` if the connection is lost or no data arrives for `silenceMs`. */
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
async function* chunks(response: Response, silenceMs: number): AsyncGenerator<string> {
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
