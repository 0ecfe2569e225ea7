/**
 * The events of a fleet as server-sent events. A reader takes them from the fleet's log at its own pace: nothing is kept
 * for it but what is on its way. One that falls behind the log is told what it missed.
 */
import { type Clock, systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { EventsDropped, FleetEvent } from '../../contracts/events.js'
import type { Fleet } from '../../contracts/fleet.js'
import { internalsOf } from '../../fleet/internals.js'
import { shown } from '../../rules/validation/problem.js'
import { eitherSignal } from '../core/either-signal.js'
import { type Answer, type Exchange, HttpError } from '../core/exchange.js'

/** What stands in the stream. */
export type StreamedEvent = FleetEvent | EventsDropped

export interface EventStreamOptions {
  /** A comment is sent when nothing else has been for this long, so that whoever is between keeps the connection. Default 15 s. */
  readonly heartbeatMs?: number
  /** A reader that takes nothing for this long is cut off; it may come again and go on where it was. Default 30 s. */
  readonly stallMs?: number
  /** Readers at once; more are refused with 503. Default 1,000. */
  readonly maxReaders?: number
}

/** The part of a fleet that is read. */
export type ReadableFleet = Pick<Fleet, 'events'>

const usual = { heartbeatMs: 15_000, stallMs: 30_000, maxReaders: 1_000 }
/** When a browser is to come again after its connection has ended. */
const retryMs = 1_000

export function eventStream(
  fleet: ReadableFleet,
  options: EventStreamOptions = {},
  closing?: AbortSignal,
): (exchange: Exchange) => Promise<Answer> {
  const { heartbeatMs, stallMs, maxReaders } = { ...usual, ...options }
  const log = logOf(fleet)
  let readers = 0

  async function* read(begin: string, from: number | undefined, gone: AbortSignal): AsyncGenerator<string> {
    readers++
    const stop = eitherSignal(gone, closing)
    const events = fleet.events({ ...(from !== undefined && { from }), signal: stop.signal })
    try {
      yield begin
      for await (const event of orHeartbeat(events, heartbeatMs, systemClock)) {
        yield event === undefined ? ':\n\n' : written(event, log)
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
      throw new FleetError('overloaded', `${readers} readers of events are connected, and no more are let in`)
    }
    const headers = {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      // Or nginx would keep events back until it has a buffer full of them.
      'X-Accel-Buffering': 'no',
    }
    const wanted = firstWanted(exchange, log)
    if (exchange.method === 'HEAD') return Promise.resolve({ status: 200, headers })
    // Who is cut off before the first event comes goes on from here, too.
    const last = wanted === undefined ? internalsOf(fleet)?.log.last : undefined
    const id = last === undefined ? '' : `id: ${idOf(log, last)}\n`
    const from = last === undefined ? wanted : last + 1
    const stream = read(`retry: ${retryMs}\n${id}\n`, from, exchange.signal())
    return Promise.resolve({ status: 200, headers, stream, stallMs })
  }
}

/** The number to begin with: behind the last one seen, or as the query says. Undefined: the next that happens. */
function firstWanted(exchange: Exchange, log: string): number | undefined {
  const last = exchange.header('last-event-id')
  if (last !== undefined && last !== '') {
    const [, of = log, number = ''] = /^(?:([\w-]{1,64})-)?(\d*)$/.exec(last) ?? []
    const seen = wholeNumber(number, 'Last-Event-ID')
    // Of another log: all that this one holds is new.
    return of === log ? seen + 1 : 1
  }
  const from = exchange.query('from')
  return from === undefined ? undefined : wholeNumber(from, 'from')
}

function wholeNumber(text: string, what: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new HttpError(400, `${what} must be the number of an event, but is ${shown(text)}`)
}

/** Numbers begin again when a host starts again: the log that they are of is part of the id. */
function idOf(log: string, seq: number): string {
  return `${log}-${seq}`
}

function written(event: StreamedEvent, log: string): string {
  // JSON has no line breaks of its own, so it is one line of data.
  return `id: ${idOf(log, event.seq)}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/** Undefined whenever nothing has come for so long. */
async function* orHeartbeat<T>(source: AsyncIterator<T>, ms: number, clock: Clock): AsyncGenerator<T | undefined> {
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

const logs = new WeakMap<Fleet['events'], string>()

/** A name for the numbering of this fleet's events, new with every start. */
export function logOf({ events }: ReadableFleet): string {
  const known = logs.get(events)
  if (known !== undefined) return known
  const made = Buffer.from(systemClock.randomBytes(9)).toString('base64url')
  logs.set(events, made)
  return made
}
