/**
 * Serves a fleet's events as server-sent events. Each reader reads the fleet's event log at its own pace; no events are
 * buffered per reader. A reader that falls behind the log gets an `EventsDropped`.
 */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { EventsDropped, FleetEvent } from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import { internalsOf } from '../../fleet/internals.js'
import { shown } from '../../rules/validation/problem.js'
import { eitherSignal } from '../../util/signals.js'
import type { Exchange } from '../core/exchange.js'
import type { HttpResponse } from '../core/http-response.js'

export type StreamedEvent = FleetEvent | EventsDropped

export interface EventStreamOptions {
  /** After this long without an event, a comment is sent, so that proxies keep the connection open. Default 15 s. */
  readonly heartbeatMs?: number
  /** A reader that accepts no data for this long is disconnected; it can reconnect and resume. Default 30 s. */
  readonly stallMs?: number
  /** Maximum number of concurrent readers; further readers get 503. Default 1,000. */
  readonly maxReaders?: number
}

/** The part of a fleet that event streams and webhooks use. */
export type ReadableFleet = Pick<Fleet, 'events'>

const defaults = { heartbeatMs: 15_000, stallMs: 30_000, maxReaders: 1_000 }
/** How long a browser waits before it reconnects. */
const retryMs = 1_000

export function eventStream(
  fleet: ReadableFleet,
  options: EventStreamOptions = {},
  closing?: AbortSignal,
): (exchange: Exchange) => Promise<HttpResponse> {
  const { heartbeatMs, stallMs, maxReaders } = { ...defaults, ...options }
  const log = logIDOf(fleet)
  let readers = 0

  async function* read(begin: string, from: number | undefined, gone: AbortSignal): AsyncGenerator<string> {
    readers++
    const stop = eitherSignal(gone, closing)
    const events = fleet.events({ ...(from !== undefined && { from }), signal: stop.signal })
    try {
      yield begin
      for await (const event of withHeartbeats(events, heartbeatMs, systemClock)) {
        yield event === undefined ? ':\n\n' : toServerSentEvent(event, log)
      }
    } finally {
      readers--
      stop.abort()
      stop.release()
      await events.return?.()
    }
  }

  return (exchange) => {
    if (readers >= maxReaders) {
      throw new FleetError('overloaded', `${readers} event streams are open, the limit of this host; retry later`)
    }
    const headers = {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      // Without this header, nginx delays events until its buffer is full.
      'X-Accel-Buffering': 'no',
    }
    const requested = firstSeq(exchange, log)
    if (exchange.method === 'HEAD') return Promise.resolve({ status: 200, headers })
    // Send an id first, so that a reader that is disconnected before the first event can resume from here.
    const last = requested === undefined ? internalsOf(fleet)?.log.last : undefined
    const id = last === undefined ? '' : `id: ${idOf(log, last)}\n`
    const from = last === undefined ? requested : last + 1
    const stream = read(`retry: ${retryMs}\n${id}\n`, from, exchange.signal())
    return Promise.resolve({ status: 200, headers, stream, stallMs })
  }
}

/**
 * Number of the first event to send: the one after `Last-Event-ID`, or `?from=`. Undefined means the next event to be
 * emitted.
 */
function firstSeq(exchange: Exchange, log: string): number | undefined {
  const last = exchange.header('last-event-id')
  if (last !== undefined && last !== '') {
    const [, ofLog = log, number = ''] = /^(?:([\w-]{1,64})-)?(\d*)$/.exec(last) ?? []
    const seen = wholeNumber(number, 'Last-Event-ID')
    // The id refers to another log, so every event in this log is new to the reader.
    return ofLog === log ? seen + 1 : 1
  }
  const from = exchange.query('from')
  return from === undefined ? undefined : wholeNumber(from, 'from')
}

function wholeNumber(text: string, name: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new FleetError('invalid', `${name} must be the number of an event, but is ${shown(text)}`)
}

/** Event numbers start over when the host restarts, so the id also identifies the log. */
function idOf(log: string, seq: number): string {
  return `${log}-${seq}`
}

function toServerSentEvent(event: StreamedEvent, log: string): string {
  // JSON.stringify emits no line breaks, so one data line is enough.
  return `id: ${idOf(log, event.seq)}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/** Passes values on, and yields undefined after every `ms` without a value. */
async function* withHeartbeats<T>(source: AsyncIterator<T>, ms: number, clock: Clock): AsyncGenerator<T | undefined> {
  let next = source.next()
  for (;;) {
    let cancel = () => {}
    const quiet = new Promise<undefined>((resolve) => {
      cancel = clock.after(ms, () => resolve(undefined))
    })
    const result = await Promise.race([next, quiet]).finally(cancel)
    if (result === undefined) yield undefined
    else if (result.done === true) return
    else {
      yield result.value
      next = source.next()
    }
  }
}

const logIDs = new WeakMap<Fleet['events'], string>()

/** Identifies the fleet's event log; every start of a fleet creates a new one. */
export function logIDOf({ events }: ReadableFleet): string {
  const existing = logIDs.get(events)
  if (existing !== undefined) return existing
  const id = Buffer.from(systemClock.randomBytes(9)).toString('base64url')
  logIDs.set(events, id)
  return id
}
