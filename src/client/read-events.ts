/** Reads a host's event stream. Reconnects after the last event if the connection is lost. */
import { FleetError } from '../contracts/errors.js'
import type { EventsDropped, FleetEvent, ReadEventsOptions } from '../contracts/events.js'
import type { Connection } from './connection.js'
import { isRetryable, retryAfterMs } from './failures.js'
import { messages } from './server-sent-events.js'
import { pause } from './timing.js'

/** A host sends data at least every 15 s. After three times that, the connection counts as lost. */
const silenceMs = 45_000
const initialPauseMs = 500
const maxPauseMs = 15_000

export async function* readEvents(
  calls: Connection,
  url: string,
  { from, signal }: ReadEventsOptions = {},
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
        url: isFirst && from !== undefined ? `${url}?from=${from}` : url,
        headers: { Accept: 'text/event-stream', ...headers },
        signal: connected.signal,
      })
      for await (const { id, data } of messages(response, silenceMs)) {
        failures = 0
        if (id !== '') headers = { 'Last-Event-ID': id }
        if (data === '') continue
        const event: FleetEvent | EventsDropped = JSON.parse(data)
        yield event
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
