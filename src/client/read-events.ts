/** Reads the events of a host as they happen, and goes on where it was when a connection is lost. */
import { FleetError } from '../contracts/errors.js'
import type { EventsDropped, FleetEvent, ReadEventsOptions } from '../contracts/events.js'
import type { Connection } from './connection.js'
import { isPassing, retryAfterMs } from './failures.js'
import { messages } from './server-sent-events.js'
import { pause } from './timing.js'

/** A host sends something every 15 s: after three times that in silence, nobody is there any more. */
const silenceMs = 45_000
const firstPauseMs = 500
const longestPauseMs = 15_000

export async function* readEvents(
  calls: Connection,
  url: string,
  { from, signal }: ReadEventsOptions = {},
): AsyncGenerator<FleetEvent | EventsDropped> {
  /** What the next connection says of where this reader is. */
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
      if (!FleetError.is(error) || !isPassing(error, true)) throw error
      pauseMs = retryAfterMs(error)
    } finally {
      signal?.removeEventListener('abort', onAbort)
      connected.abort()
    }
    await pauseUnlessAborted(pauseMs ?? Math.min(firstPauseMs * 2 ** failures++, longestPauseMs), signal)
  }
}

async function pauseUnlessAborted(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await pause(ms, signal)
  } catch {
    // The reader has had enough, which ends the reading without an error.
  }
}
