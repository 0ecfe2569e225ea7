/** Splits what an engine streams: text into lines, lines into JSON, and the frames of a log into text. Pure but for reading. */
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/** The lines of a stream, wherever its chunks end. What comes after the last newline is a line as well. */
export async function* linesOf(chunks: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  for await (const chunk of chunks) {
    rest += typeof chunk === 'string' ? chunk : decoder.write(chunk)
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
  }
  rest += decoder.end()
  if (rest !== '') yield rest
}

/** A line that is no JSON is left out: it was cut off by the end of a connection. */
export async function* jsonLinesOf(stream: Readable): AsyncGenerator {
  for await (const line of linesOf(stream)) {
    if (line === '') continue
    let value: unknown
    try {
      value = JSON.parse(line)
    } catch {
      continue
    }
    yield value
  }
}

const headBytes = 8

/**
 * The payloads of a log of a container without a terminal, in the order in which they were written: each stands behind 8
 * bytes, of which the first names the stream and the last four are its length.
 */
export async function* framesOf(stream: Readable): AsyncGenerator<{ readonly from: number; readonly payload: Buffer }> {
  let pending = Buffer.alloc(0)
  for await (const chunk of stream) {
    pending = Buffer.concat([pending, typeof chunk === 'string' ? Buffer.from(chunk) : chunk])
    while (pending.length >= headBytes) {
      const end = headBytes + pending.readUInt32BE(4)
      if (pending.length < end) break
      yield { from: pending[0] ?? 0, payload: pending.subarray(headBytes, end) }
      pending = pending.subarray(end)
    }
  }
}
