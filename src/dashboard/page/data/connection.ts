/** Reads the host's events for as long as the page is open: reconnects, and says how the connection is. */
import { FleetError } from '../../../contracts/errors.js'
import { errorOf } from '../../../client/connection.js'
import { messages } from '../../../client/streams.js'
import type { StreamedEvent } from './model.js'

/** A host sends data at least every 15 s. */
const silenceMs = 40_000
const firstPauseMs = 500
const maxPauseMs = 10_000

export interface StreamHandlers {
  /** `fetch`, with what the host needs to know its caller. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** Connected: what `onEvent` gets first may be what the host's log lacks of the past. `isNewLog`: the numbers of the events start over, because the host has restarted or is another one. */
  readonly onOpen: (isNewLog: boolean) => void
  readonly onEvent: (event: StreamedEvent) => void
  /**
   * The connection was lost or refused. It is tried again unless `isFinal`. `heardAt`: when the host last answered, wall time in ms;
   * undefined if it never has.
   */
  readonly onLost: (error: FleetError, isFinal: boolean, heardAt: number | undefined) => void
}

/** Resolves when the signal fires, or after an error that reconnecting cannot fix. */
export async function readStream(url: string, handlers: StreamHandlers, signal: AbortSignal): Promise<void> {
  let lastID = ''
  let failures = 0
  let heardAt: number | undefined
  const onHeard = () => (heardAt = Date.now())
  while (!signal.aborted) {
    let isOpen = false
    try {
      for await (const { id, data } of messages(
        noting(await open(url, handlers, lastID, signal), onHeard),
        silenceMs,
      )) {
        // Each connection begins with an id, or with the first event that was missed.
        if (!isOpen) handlers.onOpen(logOf(id) !== logOf(lastID))
        isOpen = true
        failures = 0
        if (id !== '') lastID = id
        if (data === '') continue
        const event: StreamedEvent = JSON.parse(data)
        handlers.onEvent(event)
      }
      throw new FleetError('unavailable', 'the host has ended the event stream')
    } catch (thrown) {
      if (signal.aborted) return
      const error = FleetError.is(thrown) ? thrown : new FleetError('unavailable', 'the host does not answer')
      const isFinal = error.code === 'unauthenticated' || error.code === 'forbidden'
      handlers.onLost(error, isFinal, heardAt)
      if (isFinal) return
    }
    await pause(Math.min(firstPauseMs * 2 ** failures++, maxPauseMs), signal)
  }
}

async function open(url: string, handlers: StreamHandlers, lastID: string, signal: AbortSignal): Promise<Response> {
  const resume: Record<string, string> = lastID === '' ? {} : { 'Last-Event-ID': lastID }
  // Of what happened before the page was opened, the newest: a view that needs more reads it.
  const response = await handlers.fetch(`${url}?players=true${lastID === '' ? '&last=500' : ''}`, {
    headers: { Accept: 'text/event-stream', ...resume },
    signal,
  })
  if (!response.ok) throw errorOf(response, await response.text())
  return response
}

/** The same answer. Calls `onHeard` whenever a part of it arrives, also for one that only keeps the connection alive. */
function noting(response: Response, onHeard: () => void): Response {
  if (response.body === null) return response
  const note = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      onHeard()
      controller.enqueue(part)
    },
  })
  return new Response(response.body.pipeThrough(note))
}

/** An event's id is the log's id, a hyphen, and the event's number. */
function logOf(id: string): string {
  return id.slice(0, Math.max(0, id.lastIndexOf('-')))
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
    function done() {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
  })
}
