/**
 * Sends a server's log: as text, one line per line, or as server-sent events to a reader that accepts them, with a comment now and
 * then, so that a reader notices a lost connection.
 */
import { systemClock } from '../../contracts/clock.js'
import { FleetError } from '../../contracts/errors.js'
import type { Servers } from '../../contracts/fleet.js'
import { sliceChars, turns } from '../../platform/turns.js'
import { eitherSignal } from '../../util/signals.js'
import { within } from '../../util/within.js'
import type { Exchange } from '../core/exchange.js'
import type { HttpResponse } from '../core/responses.js'
import { readCount, readFlag, refOf } from './parameters.js'
import { counted } from '../../rules/model/counted.js'

interface Format {
  readonly mediaType: string
  readonly line: (line: string) => string
  /** Sent when nothing else is, if the format allows it. */
  readonly keepAlive: string | undefined
}

const plainText: Format = { mediaType: 'text/plain; charset=utf-8', line: (line) => `${line}\n`, keepAlive: undefined }
const events: Format = {
  mediaType: 'text/event-stream',
  // As JSON, because a line may contain a carriage return.
  line: (line) => `data: ${JSON.stringify(line)}\n\n`,
  keepAlive: ':\n\n',
}

/** A log that does not exist is reported within this time, so that its answer has the right status. */
const beginMs = 1_000
const keepAliveMs = 15_000
/** Each reader may keep a file or a connection to the backend open. */
const maxReaders = 200

export function logStream(
  servers: Pick<Servers, 'logs'>,
  closing: AbortSignal,
): (exchange: Exchange) => Promise<HttpResponse> {
  let readers = 0
  return async (exchange) => {
    if (readers >= maxReaders) {
      throw new FleetError(
        'overloaded',
        `${counted(readers, 'log is', 'logs are')} being read, the limit of this host; retry later`,
      )
    }
    const format = (exchange.header('accept') ?? '').includes(events.mediaType) ? events : plainText
    const tail = readCount(exchange, 'tail')
    const stop = eitherSignal(exchange.signal, closing)
    const options = { follow: readFlag(exchange, 'follow'), ...(tail !== undefined && { tail }), signal: stop.signal }
    const lines = servers.logs(refOf(exchange), options)
    readers++
    const close = once(() => {
      readers--
      stop.abort()
      stop.release()
      // Waits for the read in progress, which the signal ends.
      lines.return?.().catch(() => undefined)
    })
    const first = lines.next()
    try {
      await within(beginMs, first, systemClock)
    } catch (error) {
      close()
      throw error
    }
    // The stream of a reader that has left is never read.
    if (stop.signal.aborted || exchange.method === 'HEAD') close()
    else stop.signal.addEventListener('abort', close, { once: true })
    const headers = { 'Content-Type': format.mediaType, 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' }
    return { status: 200, headers, ...(exchange.method !== 'HEAD' && { stream: text(lines, first, format, close) }) }
  }
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) {
      isDone = true
      work()
    }
  }
}

async function* text(
  lines: AsyncIterableIterator<string>,
  first: Promise<IteratorResult<string>>,
  format: Format,
  close: () => void,
): AsyncGenerator<string> {
  let next = first
  try {
    for (;;) {
      let result = await within(keepAliveMs, next, systemClock)
      if (result === undefined) {
        if (format.keepAlive !== undefined) yield format.keepAlive
        continue
      }
      let slice = ''
      // Lines that are there already are sent together.
      while (result !== undefined && result.done !== true) {
        slice += format.line(result.value)
        next = lines.next()
        result = slice.length < sliceChars ? await within(0, next, systemClock) : undefined
      }
      if (slice !== '') {
        await turns.take()
        yield slice
      }
      if (result?.done === true) return
    }
  } finally {
    close()
  }
}
