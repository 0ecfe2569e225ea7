/**
 * Serves a fleet's events as server-sent events. Each reader reads the fleet's event log at its own pace, in slices between
 * which the event loop handles other work; no more than a slice is buffered per reader. A reader that falls behind the log gets
 * an `EventsDropped`.
 */
import { systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import {
  asEventType,
  type EventReader,
  type EventsDropped,
  type FleetEvent,
  type FleetEventType,
} from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import { aNumber, checkOptions } from '../../contracts/option-checks.js'
import { internalsOf } from '../../fleet/internals.js'
import { sliceChars, turns } from '../../platform/turns.js'
import { keyOf } from '../../rules/model/resources.js'
import { counted, shown } from '../../rules/validation/problem.js'
import { eitherSignal } from '../../util/signals.js'
import { within } from '../../util/with-timeout.js'
import type { Exchange } from '../core/exchange.js'
import type { HttpResponse } from '../core/responses.js'
import { readFlag } from './parameters.js'

export type StreamedEvent = FleetEvent | EventsDropped

export interface EventStreamOptions {
  /** After this long without an event, a comment is sent, so that proxies keep the connection open. Default 15 s. */
  readonly heartbeatMs?: number
  /** A reader that accepts no data for this long is disconnected; it can reconnect and resume. Default 30 s. */
  readonly stallMs?: number
  /** Maximum number of concurrent readers; further readers get 503. Default 1,000. */
  readonly maxReaders?: number
}

/** The part of a fleet that event streams and webhooks use. Without `on`, a stream has no changes of players. */
export type ReadableFleet = Pick<Fleet, 'events'> & Partial<Pick<Fleet, 'on'>>

const defaults = { heartbeatMs: 15_000, stallMs: 30_000, maxReaders: 1_000 }
/** How long a browser waits before it reconnects. */
const retryMs = 1_000

export function eventStream(
  fleet: ReadableFleet,
  options: EventStreamOptions = {},
  closing?: AbortSignal,
): (exchange: Exchange) => Promise<HttpResponse> {
  checkOptions('events', options, { heartbeatMs: aNumber, stallMs: aNumber, maxReaders: aNumber })
  const { heartbeatMs, stallMs, maxReaders } = { ...defaults, ...options }
  const log = logIDOf(fleet)
  const textFrom = slices(log)
  let readers = 0

  /** Counts a reader from its admission on, since many can be admitted before the first of them reads. */
  function admit(gone: AbortSignal): () => void {
    let isCounted = true
    readers++
    const leave = () => {
      if (isCounted) readers--
      isCounted = false
    }
    // The stream of a reader that has left is never read.
    if (gone.aborted) leave()
    else gone.addEventListener('abort', leave, { once: true })
    return leave
  }

  async function* read({ begin, from, last, to, types, gone, withPlayers }: Reading, leave: () => void) {
    const stop = eitherSignal(gone, closing)
    const start = from === undefined ? last !== undefined && { last } : { from }
    const logged = fleet.events({
      ...start,
      ...(to !== undefined && { to }),
      ...(types && { types }),
      signal: stop.signal,
    })
    const events = withPlayers && fleet.on ? new EventsAndPlayers(logged, fleet.on) : logged
    try {
      yield begin
      let next = events.next()
      for (;;) {
        const result = await within(heartbeatMs, next, systemClock)
        if (result === undefined) yield ':\n\n'
        else if (result.done === true) {
          // Says that nothing is missing up to there, also if the last events are of other types.
          if (to !== undefined && !stop.signal.aborted) yield `id: ${idOf(log, to)}\n\n`
          return
        } else {
          await turns.take()
          yield textFrom(result.value, events)
          next = events.next()
        }
      }
    } finally {
      leave()
      stop.abort()
      stop.release()
      await events.return?.()
    }
  }

  return (exchange) => {
    if (readers >= maxReaders) {
      throw new FleetError(
        'overloaded',
        `${counted(readers, 'event stream is', 'event streams are')} open, the limit of this host; retry later`,
      )
    }
    const headers = {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      // Without this header, nginx delays events until its buffer is full.
      'X-Accel-Buffering': 'no',
    }
    const requested = firstSeq(exchange, log)
    if (exchange.method === 'HEAD') return Promise.resolve({ status: 200, headers })
    const last = requested === undefined ? numberIn(exchange, 'last') : undefined
    const to = numberIn(exchange, 'to')
    const types = typesIn(exchange)
    const newest = internalsOf(fleet)?.log.last
    const from = requested ?? (newest === undefined || last !== undefined ? undefined : newest + 1)
    // Send an id first, so that a reader knows at once which log this is, and can resume from here if it is disconnected
    // before the first event.
    const first = from ?? (last === undefined ? undefined : (newest ?? 0) + 1 - last)
    const id = first === undefined ? '' : `id: ${idOf(log, Math.max(0, first - 1))}\n`
    const gone = exchange.signal
    const ofPlayers = types?.includes('PlayersChanged') ?? true
    const withPlayers = readFlag(exchange, 'players') && ofPlayers
    if (types && ofPlayers && !withPlayers)
      throw new FleetError('invalid', 'types=PlayersChanged needs players=true: these events are in no log')
    const stream = read({ begin: `retry: ${retryMs}\n${id}\n`, from, last, to, types, gone, withPlayers }, admit(gone))
    return Promise.resolve({ status: 200, headers, stream, stallMs })
  }
}

interface Reading {
  readonly begin: string
  readonly from: number | undefined
  readonly last: number | undefined
  readonly to: number | undefined
  readonly types: readonly FleetEventType[] | undefined
  /** Fires when the reader has left. */
  readonly gone: AbortSignal
  readonly withPlayers: boolean
}

/**
 * The log's events and, once the reader has caught up with them, the latest players of each server whose players have changed
 * since. Keeps at most one list for each server.
 */
class EventsAndPlayers implements EventReader {
  readonly #logged: EventReader
  readonly #off: () => void
  readonly #changed = new Map<string, FleetEvent>()
  /** What the log has answered, until it is taken. */
  #answer: IteratorResult<StreamedEvent> | undefined
  #failure: { readonly error: unknown } | undefined
  #isAsking = false
  #wake = () => {}

  constructor(logged: EventReader, on: Fleet['on']) {
    this.#logged = logged
    this.#off = on('PlayersChanged', (event) => {
      this.#changed.set(keyOf(event.server), event)
      this.#wake()
    })
  }

  async next(): Promise<IteratorResult<StreamedEvent>> {
    for (;;) {
      const value = this.take()
      if (value !== undefined) return { done: false, value }
      if (this.#failure) throw this.#failure.error
      if (this.#answer) return this.#answer
      const woken = new Promise<void>((resolve) => (this.#wake = resolve))
      this.#ask()
      await woken
    }
  }

  take(): StreamedEvent | undefined {
    const logged = this.#takeLogged()
    if (logged !== undefined) return logged
    const [first] = this.#changed
    if (first === undefined) return undefined
    this.#changed.delete(first[0])
    return first[1]
  }

  #takeLogged(): StreamedEvent | undefined {
    if (this.#isAsking) return undefined
    if (this.#answer === undefined) return this.#logged.take?.()
    const { done, value } = this.#answer
    if (done === true) return undefined
    this.#answer = undefined
    return value
  }

  #ask(): void {
    if (this.#isAsking) return
    this.#isAsking = true
    this.#logged
      .next()
      .then(
        (answer) => (this.#answer = answer),
        (error: unknown) => (this.#failure = { error }),
      )
      .finally(() => {
        this.#isAsking = false
        this.#wake()
      })
  }

  async return(): Promise<IteratorResult<StreamedEvent>> {
    this.#off()
    await this.#logged.return?.()
    return { done: true, value: undefined }
  }

  [Symbol.asyncIterator](): this {
    return this
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
  return numberIn(exchange, 'from')
}

function numberIn(exchange: Exchange, name: string): number | undefined {
  const text = exchange.query(name)
  return text === undefined ? undefined : wholeNumber(text, name)
}

function typesIn(exchange: Exchange): readonly FleetEventType[] | undefined {
  return exchange
    .query('types')
    ?.split(',')
    .map((type) => asEventType('types', type))
}

function wholeNumber(text: string, name: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new FleetError('invalid', `${name} must be a whole number from 0, but is ${shown(text)}`)
}

/** Event numbers start over when the host restarts, so the id also identifies the log. */
function idOf(log: string, seq: number): string {
  return `${log}-${seq}`
}

/** An event without a number has no id: the reader's last one stays what it resumes after. */
function toServerSentEvent(event: StreamedEvent, log: string): string {
  const id = event.seq === 0 ? '' : `id: ${idOf(log, event.seq)}\n`
  // JSON.stringify emits no line breaks, so one data line is enough.
  return `${id}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/**
 * Returns a function that makes a slice of a stream: the text of `event`, and of the events after it that are already in the log.
 * Each event is serialized once, for all readers.
 */
function slices(log: string): (event: StreamedEvent, events: EventReader) => string {
  const texts = new WeakMap<StreamedEvent, string>()

  function textOf(event: StreamedEvent): string {
    let text = texts.get(event)
    if (text === undefined) {
      text = toServerSentEvent(event, log)
      texts.set(event, text)
    }
    return text
  }

  return (event, events) => {
    let text = textOf(event)
    while (text.length < sliceChars) {
      const next = events.take?.()
      if (next === undefined) break
      text += textOf(next)
    }
    return text
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
