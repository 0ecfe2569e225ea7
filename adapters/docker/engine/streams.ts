/** Splits the engine's streams into lines, JSON objects and log frames. */
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/** Also yields an unterminated last line. */
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

/** Skips lines that are not valid JSON: they were cut off when the connection ended. */
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
 * Splits the log stream of a container without a terminal into frames. Each frame has an 8-byte header: the first byte
 * identifies the stream, and the last four contain the payload's length.
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
