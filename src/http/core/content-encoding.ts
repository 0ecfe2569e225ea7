/** Compression of answers: which encoding a caller accepts, and large JSON answers as gzip. */
import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { HttpResponse } from './responses.js'

/** The first of `offered` that the header accepts. Undefined if it accepts none: the answer is then sent as it is. */
export function acceptedEncoding<T extends string>(header: string, offered: readonly T[]): T | undefined {
  const accepted = new Map(
    header.split(',').map((part) => {
      const [name = '', ...parameters] = part.split(';').map((one) => one.trim().toLowerCase())
      const isRefused = parameters.some((one) => /^q=0(\.0*)?$/.test(one))
      return [name, !isRefused]
    }),
  )
  return offered.find((one) => accepted.get(one) ?? accepted.get('*') ?? false)
}

/** Of lists of servers, level 4 leaves a tenth more than the default level 6, in a tenth of the time. */
const level = 4

/**
 * Compresses a stream that says that it is compressible, if the caller accepts gzip. The thread pool does the work, so the event loop is
 * free for other requests. `varySet`: the header `Vary` that the host app has set.
 */
export function negotiated(
  response: HttpResponse,
  acceptEncoding: string | undefined,
  varySet?: string,
): Omit<HttpResponse, 'stream'> & { readonly stream?: AsyncIterable<string | Uint8Array> | undefined } {
  const { stream, headers = {}, isCompressible = false } = response
  if (stream === undefined || !isCompressible) return response
  const name = Object.keys(headers).find((one) => one.toLowerCase() === 'vary') ?? 'Vary'
  const varies = { ...headers, [name]: withEncoding(headers[name] ?? varySet ?? '') }
  if (acceptedEncoding(acceptEncoding ?? '', ['gzip']) === undefined) return { ...response, headers: varies }
  return {
    ...response,
    headers: { ...varies, 'Content-Encoding': 'gzip' },
    stream: { [Symbol.asyncIterator]: () => gzipped(stream) },
  }
}

function withEncoding(vary: string): string {
  if (/(^|,)\s*(\*|accept-encoding)\s*(,|$)/i.test(vary)) return vary
  return vary === '' ? 'Accept-Encoding' : `${vary}, Accept-Encoding`
}

/** A failure of the stream is one of what is returned, and whoever stops to read that ends the stream. */
function gzipped(stream: AsyncIterable<string>): AsyncIterator<Uint8Array> {
  const zip = createGzip({ level })
  pipeline(Readable.from(stream), zip, () => {})
  const chunks: AsyncIterator<Uint8Array> = zip[Symbol.asyncIterator]()
  return chunks
}
